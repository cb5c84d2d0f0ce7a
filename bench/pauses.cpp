#include "pauses.hpp"

#include <algorithm>
#include <pthread.h>
#include <sched.h>

namespace holdfast::bench {

pause_monitor::pause_monitor() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
        if (!CPU_ISSET(i, &allowed)) continue;
        threads_.emplace_back([this, i](std::stop_token const& stop) { monitor(stop, i); });
    }
}

void pause_monitor::monitor(std::stop_token const& stop, unsigned processor) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    pthread_setaffinity_np(pthread_self(), sizeof(only), &only);
    for (auto before = clock::now(); !stop.stop_requested();) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        auto const now = clock::now();
        if (now - before > shortest_pause) {
            std::lock_guard const lock(mutex_);
            pauses_.push_back({before, now});
        }
        before = now;
    }
}

pause_monitor::clock::duration pause_monitor::within(clock::time_point begin,
                                                     clock::time_point end) const {
    std::vector<pause> all;
    {
        std::lock_guard const lock(mutex_);
        all = pauses_;
    }
    std::sort(all.begin(), all.end(),
              [](auto const& a, auto const& b) { return a.begin < b.begin; });
    clock::duration sum{};
    for (auto const& p : all) {
        auto const from = std::max(begin, p.begin);
        auto const until = std::min(end, p.end);
        if (from >= until) continue;
        sum += until - from;
        begin = until;
    }
    return sum;
}

} // namespace holdfast::bench
