// An instance's clock, and the effect of its jumps on the instance's grants.
#include "redis/instance_connection.hpp"

namespace holdfast::redis {

void instance_connection::on_time_told(lease_clock::duration shown) {
    auto const now = owner_.time();
    auto const doubted = guard_.told_time(time_asked_, now, shown);
    // The owner may find that our clock stood still, and excuse the jump.
    owner_.on_clock_reading(number_, guard_.last_clock_reading());
    if (doubted && quarantined()) on_quarantine();
}

void instance_connection::ask_time_now() {
    if (options_.detect_clock_jumps && connected() && available() && !asking_time_) ask_time();
}

void instance_connection::excuse_jump() {
    guard_.excuse_jump(owner_.time());
    if (quarantined()) {
        status_.set_quarantine(guard_.until(), guard_.reason());
    } else {
        tell_of_quarantines_end();
    }
}

void instance_connection::our_clock_stood_still(lease_clock::time_point from,
                                                lease_clock::time_point until,
                                                lease_clock::duration least,
                                                lease_clock::duration most) {
    guard_.our_clock_stood_still(from, until, least, most);
}

void instance_connection::tell_of_quarantines_end() {
    if (!guard_.ends(owner_.time())) return;
    status_.set_quarantine({}, {});
    if (connected() && available()) owner_.on_available(number_);
}

} // namespace holdfast::redis
