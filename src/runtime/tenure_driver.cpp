#include "runtime/tenure_driver.hpp"

#include <holdfast/error.hpp>

#include <utility>

namespace holdfast::runtime {

using protocol::command;

void tenure_driver::recycle(holding& h) noexcept {
    deadlines_.cancel(h);
    h.lock.reset();
    h.owed.releases = 0;
    tenures_.give_back(h);
}

void tenure_driver::send_all(holding& h, protocol::step const& s) {
    if (!s.acquire.empty()) send(h, command::acquire, s.acquire, 0);
    if (!s.contend.empty()) send(h, command::contend, s.contend, 0);
    if (!s.raise.empty()) {
        counters::add(counters_.raises);
        auto const there = instances_.reachable();
        send(h, command::raise, s.raise & there, h.machine.round_number());
        // An instance that has granted is raised also where it has gone since; it will not answer.
        h.owed.gone = h.owed.gone | (s.raise - there);
        if (!h.owed.gone.empty()) owe(h);
    }
    if (!s.extend.empty()) send(h, command::extend, s.extend, h.machine.round_number());
    if (!s.heal.empty()) send(h, command::heal, s.heal, 0);
    if (!s.release.empty()) send(h, command::release, s.release, 0);
    if (!s.inspect.empty()) send(h, command::inspect, s.inspect, 0);
}

void tenure_driver::send(holding& h, command c, protocol::instance_set to, std::uint32_t round) {
    encoder_.start(c, h.about(c));
    redis::exchange_ptr const asking(&h);
    to.for_each([&](unsigned i) {
        if (turn_.attempt([&] { instances_[i].submit(encoder_, asking, round); })) return;
        h.owed.out_of_memory[static_cast<std::size_t>(c)].insert(i);
        if (c == command::extend || c == command::watch) h.owed.round = round;
        owe(h);
    });
}

void tenure_driver::schedule(holding& h) {
    if (auto const wake = h.machine.wake()) {
        deadlines_.schedule(h, *wake);
    } else {
        deadlines_.cancel(h);
    }
}

void tenure_driver::owe(holding& h) noexcept {
    if (!h.owed_hook::is_linked()) {
        h.owed.self = &h;
        owed_.push_back(h);
    }
    turn_.ask_for_another();
}

void tenure_driver::answer_owed() {
    owed_list all;
    all.swap(owed_);
    while (!all.empty()) {
        auto& h = all.front();
        all.pop_front();
        auto owed = std::exchange(h.owed, {});
        auto const answer = [&](unsigned i, command c, std::uint32_t round, errc cause) {
            h.on_answer(i, c, round, {.verdict = protocol::verdict::unsent, .why = cause});
        };
        auto& unsent = owed.out_of_memory[static_cast<std::size_t>(command::release)];
        if (!unsent.empty() && owed.releases < release_retries) {
            h.owed.releases = static_cast<std::uint8_t>(owed.releases + 1);
            auto const again = std::exchange(unsent, {});
            send(h, command::release, again, 0);
            // Where an instance has gone since, it is kept, and tells nobody when it is done.
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
        auto& h = owed_.front();
        owed_.pop_front();
        h.owed.self.reset();
    }
}

} // namespace holdfast::runtime
