#include "tour/compare_in_client.hpp"

#include "support/proxy.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

using namespace std::chrono_literals;

namespace tour {

void show_compare_in_client(journal& j, circumstances const&) {
    constexpr auto ttl = 1'000ms;
    single_server s(j);
    {
        j.section("The older way");
        auto a = s.older_client("A");
        auto b = s.older_client("B");
        auto c = s.older_client("C");
        compare_in_client of_a(a, seat), of_b(b, seat), of_c(c, seat);
        auto b_has_it = false;
        a.pause_before("DEL", [&] {
            s.wait_for_expiry();
            b_has_it = of_b.try_lock(long_ttl);
        });
        auto const a_had_it = of_a.try_lock(ttl);
        of_a.unlock();
        auto const c_has_it = of_c.try_lock(long_ttl);
        j.hazard(a_had_it && b_has_it && c_has_it,
                 "the key changed its owner between GET and DEL: B and C both hold the lock");
    }
    s.begin_with_holdfast();
    holdfast::test::proxy line(s.instance);
    auto a = s.client_at(line.url(), "A");
    auto b = s.client("B");
    auto c = s.client("C");
    b.connect();
    c.connect();
    auto late = a.acquire(seat, {.ttl = ttl, .watchdog = false});
    // The command of the release waits on its way, as A did.
    line.hold_requests();
    auto const releases = a.begin_release(late);
    a.run_until("the release of A", [&] { return line.commands_held() > 0; });
    j.line("A", "releases, and the command is on its way");
    s.wait_for_expiry();
    auto held = b.acquire(seat, {.ttl = long_ttl});
    auto const owner = s.value();
    line.resume();
    a.finish(*releases);
    auto const [refused, none] = c.try_acquire(seat, {.ttl = long_ttl});
    j.safe(releases->how == holdfast::errc::lease_lost && held.held() && s.value() == owner &&
               refused == holdfast::errc::contended,
           "the server compares and deletes in one step: B has its lock, and C is refused");
}

} // namespace tour
