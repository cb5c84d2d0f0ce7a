#include "tour/setnx_then_expire.hpp"

#include "support/proxy.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

using namespace std::chrono_literals;

namespace tour {

void show_setnx_then_expire(journal& j, circumstances const&) {
    constexpr auto ttl = 1'000ms;
    single_server s(j);
    {
        j.section("The older way");
        auto a = s.older_client("A");
        auto b = s.older_client("B");
        setnx_then_expire lock_of_a(a, seat), lock_of_b(b, seat);
        a.crash_before("EXPIRE");
        try {
            lock_of_a.try_lock(ttl);
        } catch (crashed const&) {
        }
        s.pass(ttl);
        auto const b_has_it = lock_of_b.try_lock(ttl);
        j.hazard(!b_has_it && s.pttl() == -1ms,
                 "the key has no ttl, so no client ever gets the lock again");
    }
    s.begin_with_holdfast();
    holdfast::test::proxy line(s.instance);
    auto a = s.client_at(line.url(), "A");
    auto b = s.client("B");
    a.connect();
    b.connect();
    line.hold_replies();
    auto const attempt = a.begin_try(seat, {.ttl = ttl});
    a.run_until("the first command of A", [&] { return s.witness.exists(seat); });
    a.crash();
    auto const left = s.pttl();
    auto lease = b.acquire(seat, {.ttl = ttl});
    j.safe(!attempt->done && left != -1ms && static_cast<bool>(lease),
           "the key had its ttl from the first command on, and B gets the lock after it");
}

} // namespace tour
