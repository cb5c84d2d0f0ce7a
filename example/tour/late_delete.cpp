#include "tour/late_delete.hpp"

using namespace std::chrono_literals;

namespace tour {

void show_late_delete(single_server& s, older_way& of_a, older_way& of_b, older_way& of_c) {
    constexpr auto ttl = 1'000ms;
    auto& j = s.story;
    j.section("The older way");
    auto const a_had_it = of_a.try_lock(ttl);
    j.line("A", "works for longer than its lease lasts");
    s.wait_for_expiry();
    auto const b_has_it = of_b.try_lock(long_ttl);
    j.line("A", "has finished, and releases");
    of_a.unlock();
    auto const c_has_it = of_c.try_lock(long_ttl);
    j.hazard(a_had_it && b_has_it && c_has_it,
             "A has deleted the lock of B, and C has taken it: B and C both hold it");

    s.begin_with_holdfast();
    auto a = s.client("A");
    auto b = s.client("B");
    auto c = s.client("C");
    b.connect();
    c.connect();
    auto late = a.acquire(seat, {.ttl = ttl, .watchdog = false});
    j.line("A", "is stopped for longer than its lease lasts");
    s.wait_for_expiry();
    auto held = b.acquire(seat, {.ttl = long_ttl});
    auto const owner = s.value();
    auto const a_knows = !late.held();
    j.line("A", a_knows ? "goes on; held() is false" : "goes on; held() is true");
    auto const released = a.release(late);
    auto const [refused, none] = c.try_acquire(seat, {.ttl = long_ttl});
    j.safe(a_knows && released == holdfast::errc::lease_lost,
           "A can see that its lease has ended, and its release says so");
    j.safe(held.held() && s.value() == owner && refused == holdfast::errc::contended,
           "B has its lock, and C is refused");
}

} // namespace tour
