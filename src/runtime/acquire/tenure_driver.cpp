#include "runtime/acquire/tenure_driver.hpp"

#include <holdfast/error.hpp>

#include <utility>

namespace holdfast::runtime {

using protocol::command;

void tenure_driver::recycle(active_tenure& t) noexcept {
    timers_.cancel(t);
    t.lock.reset();
    t.drop_extras();
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
        // the driver answers in its place.
        t.outstanding.gone = t.outstanding.gone | (a.raise - there);
        if (!t.outstanding.gone.empty()) note_outstanding(t);
    }
    if (!a.extend.empty()) send(t, command::extend, a.extend, t.machine.round_number());
    if (!a.heal.empty()) send(t, command::heal, a.heal, 0);
    if (!a.release.empty() && !t.adopts && !t.leaves_key) send(t, command::release, a.release, 0);
    if (!a.inspect.empty()) send(t, command::inspect, a.inspect, 0);
}

void tenure_driver::send(active_tenure& t, command c, protocol::instance_set to,
                         std::uint32_t round) {
    encoder_.start(c, t);
    redis::reply_handler_ptr const asking(&t);
    to.for_each([&](unsigned i) {
        if (!instances_[i].submit(encoder_, asking, round)) note_unsent(t, c, i, round);
    });
}

void tenure_driver::note_unsent(active_tenure& t, command c, unsigned instance,
                                std::uint32_t round) noexcept {
    if (c == command::heal) return;
    note_outstanding(t);
    auto& outstanding = t.outstanding;
    if (c == command::release) return outstanding.releases.insert(instance);
    if (outstanding.command != c || outstanding.round != round) outstanding.unsent = {};
    outstanding.command = c;
    outstanding.round = round;
    outstanding.unsent.insert(instance);
}

void tenure_driver::schedule(active_tenure& t) {
    if (auto const wake = t.machine.wake()) {
        timers_.schedule(t, *wake);
    } else {
        timers_.cancel(t);
    }
}

void tenure_driver::note_outstanding(active_tenure& t) noexcept {
    if (!std::exchange(t.outstanding.listed, true)) {
        t.next_outstanding = std::move(outstanding_);
        outstanding_ = &t;
    }
    turn_.ask_for_another();
}

void tenure_driver::answer_outstanding() {
    auto rest = std::move(outstanding_);
    while (rest) {
        auto const now = std::move(rest);
        auto& t = *now;
        rest = std::move(t.next_outstanding);
        auto outstanding = std::exchange(t.outstanding, {});
        auto const answer = [&](unsigned i, command c, std::uint32_t round, errc cause) {
            t.on_answer(i, c, round, {.verdict = protocol::verdict::unsent, .cause = cause});
        };
        outstanding.gone.for_each(
            [&](unsigned i) { answer(i, command::raise, 0, instances_.cause_of(i)); });
        outstanding.unsent.for_each([&](unsigned i) {
            answer(i, outstanding.command, outstanding.round, errc::out_of_memory);
        });
        outstanding.releases.for_each(
            [&](unsigned i) { answer(i, command::release, 0, errc::out_of_memory); });
    }
}

void tenure_driver::forget_outstanding() noexcept {
    while (outstanding_) {
        auto const first = std::move(outstanding_);
        outstanding_ = std::move(first->next_outstanding);
    }
}

} // namespace holdfast::runtime
