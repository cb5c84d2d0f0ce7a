// Compares the instances with each other: their clocks, by which protocol/server/standstill.hpp
// detects a standstill of our own clock; and their ages, by which protocol/server/server_ages.hpp
// finds restarts.
#include "runtime/engine/engine.hpp"

namespace holdfast::runtime {

namespace {

bool is_won(active_tenure const& t) {
    using phase = protocol::tenure_phase;
    return t.machine.phase() == phase::held || t.machine.phase() == phase::ending;
}

/// Not the tracking of a key, which is a tenure without a deadline.
bool is_a_try(active_tenure const& t) {
    return t.queue != nullptr && t.queue->tenure == &t;
}

} // namespace

void engine::on_clock_reading(unsigned instance, protocol::clock_reading const& reading) {
    turn_.run([&] {
        standstill_.observed(instance, reading);
        check_clock();
    });
}

void engine::check_clock() {
    if (!standstill_.has_unexplained_jumps()) return;
    auto const there = instances_.usable_now();
    // Asks the instances for their time at once, because their next regular checks may come seconds
    // later.
    standstill_.to_ask(there).for_each([&](unsigned i) { instances_[i].ask_time_now(); });
    auto const found = standstill_.evaluate(there);
    if (found.is_new) {
        tenures_.for_each([&](active_tenure& t) {
            if (is_won(t) || is_a_try(t)) keeper_.clock_stood_still(t, found.to, found.by);
        });
    }
    if (!found.is_ours) return;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (found.instances.contains(i)) {
            instances_[i].excuse_jump();
        } else {
            instances_[i].our_clock_stood_still(found.from, found.to, found.least, found.most);
        }
    }
}

void engine::on_age(unsigned, lease_clock::time_point start) {
    ages_.on_age(start, turn_.time());
    if (!ages_.some_old()) return;
    for (unsigned i = 0; i < instances_.size(); ++i) instances_[i].on_older_server();
}

// An instance that is down, or overdue, is waited for no longer.
bool engine::awaits_ages(unsigned instance) const {
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (i != instance && instances_[i].available() && !instances_[i].connected()) return true;
    }
    return false;
}

} // namespace holdfast::runtime
