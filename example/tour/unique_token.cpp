#include "tour/unique_token.hpp"

#include "tour/rows.hpp"
#include "tour/several_servers.hpp"
#include "tour/single_server.hpp"

using namespace std::chrono_literals;

namespace tour {

namespace {

holdfast::client_options with_max_ttl(std::chrono::milliseconds longest) {
    holdfast::client_options options;
    options.max_ttl = longest;
    return options;
}

/// One instance: no lock is granted until the lease of A is over.
void show_on_one_instance(single_server& s) {
    constexpr auto ttl = 3'000ms;
    auto& j = s.story;
    auto a = s.client("A", with_max_ttl(ttl));
    auto b = s.client("B", with_max_ttl(ttl));
    a.connect();
    b.connect();
    auto held = a.acquire(seat, {.ttl = ttl, .watchdog = false});
    s.restart_empty();
    auto const [refused, none] = b.try_past_outage(seat, {.ttl = ttl});
    j.safe(refused == holdfast::errc::quarantined,
           "B grants nothing: the server may have forgotten locks");
    b.connect();
    j.note("max_ttl, 3000 ms, has passed");
    auto const next = b.acquire(seat, {.ttl = ttl});
    j.safe(!held.held() && static_cast<bool>(next), "B gets the lock when the lease of A is over");
}

/// Three instances: the two others know the holder.
void show_on_three_instances(journal& j) {
    several_servers s(j, 3);
    auto a = s.client("A");
    auto b = s.client("B");
    a.connect(3);
    b.connect(3);
    auto held = a.acquire(seat, {.ttl = long_ttl});
    s.servers[0].kill();
    s.servers[0].restart();
    j.note("the first server crashes, and starts again without its data");
    auto const [refused, none] = b.try_acquire(seat, {.ttl = long_ttl});
    j.safe(held.held() && refused == holdfast::errc::contended,
           "two of three instances still have the lock of A, and B is refused");
}

} // namespace

void show_unique_token(journal& j, circumstances const&) {
    single_server s(j);
    {
        j.section("The older way");
        auto a = s.older_client("A");
        auto b = s.older_client("B");
        unique_token of_a(a, seat), of_b(b, seat);
        auto const a_has_it = of_a.try_lock(long_ttl);
        s.restart_empty();
        auto const b_has_it = of_b.try_lock(long_ttl);
        j.hazard(a_has_it && b_has_it, "the server has forgotten A: A and B both hold the lock");
    }
    s.begin_with_holdfast();
    show_on_one_instance(s);
    j.section("The same schedule with holdfast on three instances");
    show_on_three_instances(j);
}

} // namespace tour
