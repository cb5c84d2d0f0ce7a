#include "runtime/tenure_driver.hpp"

#include <holdfast/error.hpp>

#include <utility>

namespace holdfast::runtime {

using protocol::command;

void tenure_driver::recycle(active_tenure& t) noexcept {
    timers_.cancel(t);
    t.lock.reset();
    t.failures.reset();
    t.owed.releases = 0;
    tenures_.give_back(t);
}

void tenure_driver::send_all(active_tenure& t, protocol::tenure_action const& a) {
    if (!a.acquire.empty()) send(t, t.adopts ? command::extend : command::acquire, a.acquire, 0);
    if (!a.contend.empty()) send(t, command::contend, a.contend, 0);
    if (!a.raise.empty()) {
        counters::add(counters_.raises);
        auto const there = instances_.reachable();
        send(t, command::raise, a.raise & there, t.machine.round_number());
        // An instance that has granted may be unreachable now. That instance gets no command, so
        // the driver owes its answer.
        t.owed.gone = t.owed.gone | (a.raise - there);
        if (!t.owed.gone.empty()) owe(t);
    }
    if (!a.extend.empty()) send(t, command::extend, a.extend, t.machine.round_number());
    if (!a.heal.empty()) send(t, command::heal, a.heal, 0);
    if (!a.release.empty() && !t.adopts) send(t, command::release, a.release, 0);
    if (!a.inspect.empty()) send(t, command::inspect, a.inspect, 0);
}

void tenure_driver::send(active_tenure& t, command c, protocol::instance_set to,
                         std::uint32_t round) {
    encoder_.start(c, t);
    redis::reply_handler_ptr const asking(&t);
    to.for_each([&](unsigned i) {
        if (turn_.attempt([&] { instances_[i].submit(encoder_, asking, round); })) return;
        t.owed.out_of_memory[static_cast<std::size_t>(c)].insert(i);
        if (c == command::extend || c == command::watch) t.owed.round = round;
        owe(t);
    });
}

void tenure_driver::schedule(active_tenure& t) {
    if (auto const wake = t.machine.wake()) {
        timers_.schedule(t, *wake);
    } else {
        timers_.cancel(t);
    }
}

void tenure_driver::owe(active_tenure& t) noexcept {
    if (!t.owed_hook::is_linked()) {
        t.owed.self = &t;
        owed_.push_back(t);
    }
    turn_.ask_for_another();
}

void tenure_driver::answer_owed() {
    owed_list all;
    all.swap(owed_);
    while (!all.empty()) {
        auto& t = all.front();
        all.pop_front();
        auto owed = std::exchange(t.owed, {});
        auto const answer = [&](unsigned i, command c, std::uint32_t round, errc cause) {
            t.on_answer(i, c, round, {.verdict = protocol::verdict::unsent, .cause = cause});
        };
        auto& unsent = owed.out_of_memory[static_cast<std::size_t>(command::release)];
        if (!unsent.empty() && owed.releases < release_retries) {
            t.owed.releases = static_cast<std::uint8_t>(owed.releases + 1);
            auto const again = std::exchange(unsent, {});
            send(t, command::release, again, 0);
            // An instance that is unreachable now keeps the release as pending, and does not
            // answer.
            (again - instances_.reachable()).for_each([&](unsigned i) {
                answer(i, command::release, 0, instances_.cause_of(i));
            });
        }
        owed.gone.for_each(
            [&](unsigned i) { answer(i, command::raise, 0, instances_.cause_of(i)); });
        for (std::size_t c = 0; c < owed.out_of_memory.size(); ++c) {
            owed.out_of_memory[c].for_each([&](unsigned i) {
                answer(i, static_cast<command>(c), owed.round, errc::out_of_memory);
            });
        }
    }
}

void tenure_driver::forget_owed() noexcept {
    while (!owed_.empty()) {
        auto& t = owed_.front();
        owed_.pop_front();
        t.owed.self.reset();
    }
}

} // namespace holdfast::runtime
