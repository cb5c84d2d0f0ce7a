#include "tour/behind_sentinel.hpp"

#include "support/sentinel_group.hpp"
#include "tour/command_log.hpp"
#include "tour/participant.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

namespace tour {

// Both locks see the same fail-over, each with a key of its own.
void show_behind_sentinel(journal& j, circumstances const&) {
    std::string const older_key = "seat:11";
    holdfast::test::sentinel_group_options options;
    options.replicas = 1;
    holdfast::test::sentinel_group group(options);
    command_log first(group.cli(0), group.cli(0), seat);
    command_log second(group.cli(1), group.cli(1), seat);

    j.section("Before the fail-over: the older way (seat:11) and holdfast (seat:12)");
    participant new_a(j, {&first, &second}, "A", {group.url()});
    participant new_b(j, {&first, &second}, "B", {group.url()});
    new_a.connect();
    new_b.connect();
    group.cut_replication(1);
    j.note("the replica hears nothing of the primary any more");
    behind_sentinel old_a(j, "A", group.sentinel_port(0), older_key);
    behind_sentinel old_b(j, "B", group.sentinel_port(0), older_key);
    auto const a_has_it = old_a.try_lock(long_ttl);
    auto held = new_a.acquire(seat, {.ttl = long_ttl, .watchdog = false});
    auto const before = group.majority().value();
    group.member(0).kill();
    j.note("the primary crashes");
    auto const now = group.wait_for_switch(before);
    // A majority suffices for that, and B asks one of them.
    wait_for("the sentinel of B knows it", [&] { return group.named_by(0) == now; });
    wait_for("the role of the promoted replica", [&] { return group.role(1) == "master"; });
    j.note("Sentinel has promoted the replica");

    j.section("The older way");
    auto const b_has_it = old_b.try_lock(long_ttl);
    j.hazard(a_has_it && b_has_it,
             "the new primary lacks the lock of A: A and B both hold the lock");

    j.section("The same schedule with holdfast");
    auto const [refused, none] = new_b.try_past_outage(seat, {.ttl = long_ttl});
    j.safe(held.held() && refused == holdfast::errc::quarantined,
           "A has its lease, and B grants nothing: the new primary may lack locks");
    j.safe(!group.cli(1).exists(seat), "no key was made on the new primary");
}

} // namespace tour
