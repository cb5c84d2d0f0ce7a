// The classes that manage connections, in worlds of their own. Broken rules must violate a
// property.
//
// HOLDFAST_SCHEDULES sets the number of schedules (5,000 by default). HOLDFAST_SEED sets the first
// seed.
#include "simulation/kernel/search.hpp"
#include "simulation/wire.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <ostream>

namespace {

using namespace holdfast;
using namespace holdfast::test;

template <class Rules>
auto lanes_with(lanes_tally& seen, bool storm) {
    return [&seen, storm](std::uint64_t seed, std::ostream* story) {
        return lanes_world<Rules>(seed, seen, storm, story).run();
    };
}

template <class Rules>
auto liveness_with(liveness_tally& seen, bool stops) {
    return [&seen, stops](std::uint64_t seed, std::ostream* story) {
        return liveness_world<Rules>(seed, seen, stops, story).run();
    };
}

struct a_lane_for_each_command : lanes_as_they_are {
    static constexpr bool joins() { return false; }
};

struct strict_priority : lanes_as_they_are {
    static constexpr protocol::lane first(unsigned) { return protocol::lane::keep; }
};

struct one_queue : lanes_as_they_are {
    static constexpr protocol::lane of(protocol::command) { return protocol::lane::leave; }
};

struct looks_once : protocol::liveness_rules {
    static constexpr bool checks_twice() { return false; }
};

struct lets_trickle : protocol::liveness_rules {
    static constexpr protocol::duration slow_limit(protocol::duration) {
        return std::chrono::hours(24);
    }
};

struct counts_no_progress : protocol::liveness_rules {
    static constexpr bool counts_progress() { return false; }
};

struct forgets_failures : protocol::reconnect_rules {
    static constexpr bool came_to_something(protocol::duration up_for, protocol::duration) {
        return up_for > protocol::duration::zero();
    }
};

struct forgets_nothing : protocol::reconnect_rules {
    static constexpr bool came_to_something(protocol::duration, protocol::duration) {
        return false;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(wire)

BOOST_AUTO_TEST_CASE(commands_on_one_key_keep_their_order_and_extensions_do_not_wait) {
    lanes_tally seen;
    stands(schedules_to_try() / 4, lanes_with<lanes_as_they_are>(seen, false));
    all_happened(
        {seen.acquired, seen.extended, seen.cancelled, seen.waited, seen.bursts, seen.reused});
}

BOOST_AUTO_TEST_CASE(nothing_starves_in_a_storm_of_extensions) {
    lanes_tally seen;
    stands(schedules_to_try() / 4, lanes_with<lanes_as_they_are>(seen, true));
    all_happened({seen.acquired, seen.cancelled, seen.waited, seen.reused});
}

BOOST_AUTO_TEST_CASE(lanes_that_a_key_does_not_join_are_refuted) {
    lanes_tally seen;
    refute(lanes_with<a_lane_for_each_command>(seen, true), "L1");
    refute(lanes_with<a_lane_for_each_command>(seen, false), "L2");
}

BOOST_AUTO_TEST_CASE(strict_priority_is_refuted) {
    lanes_tally seen;
    refute(lanes_with<strict_priority>(seen, true), "L4");
}

BOOST_AUTO_TEST_CASE(one_queue_for_all_is_refuted) {
    lanes_tally seen;
    refute(lanes_with<one_queue>(seen, false), "L3");
}

BOOST_AUTO_TEST_CASE(each_command_is_answered_in_time_and_only_what_is_late_makes_suspect) {
    liveness_tally seen;
    stands(schedules_to_try() / 8, liveness_with<protocol::liveness_rules>(seen, false));
    all_happened({seen.answered, seen.failed, seen.suspected, seen.came_back, seen.given_up,
                  seen.failed_unsent, seen.asked, seen.frozen, seen.trickled, seen.lost});
}

BOOST_AUTO_TEST_CASE(nor_does_a_stopped_process_suspect_at_once) {
    liveness_tally seen;
    stands(schedules_to_try() / 8, liveness_with<protocol::liveness_rules>(seen, true));
    all_happened(
        {seen.answered, seen.suspected, seen.came_back, seen.given_up, seen.stops, seen.held_back});
}

BOOST_AUTO_TEST_CASE(one_look_alone_is_refuted) {
    liveness_tally seen;
    refute(liveness_with<looks_once>(seen, false), "W2");
}

BOOST_AUTO_TEST_CASE(trickling_without_bound_is_refuted) {
    liveness_tally seen;
    refute(liveness_with<lets_trickle>(seen, false), "W1");
    refute(liveness_with<lets_trickle>(seen, false), "W3");
}

BOOST_AUTO_TEST_CASE(progress_that_does_not_count_is_refuted) {
    liveness_tally seen;
    refute(liveness_with<counts_no_progress>(seen, false), "W2");
}

BOOST_AUTO_TEST_CASE(
    a_server_that_closes_is_not_probed_too_often_and_a_good_one_is_connected_to_fast) {
    reconnect_tally seen;
    stands(schedules_to_try() / 2, [&](std::uint64_t seed) {
        return reconnect_often<protocol::reconnect_rules>(seed, seen);
    });
    all_happened({seen.probes, seen.long_lives});
}

BOOST_AUTO_TEST_CASE(to_forget_failures_when_the_probe_is_answered_is_refuted) {
    reconnect_tally seen;
    refute([&](std::uint64_t seed) { return reconnect_often<forgets_failures>(seed, seen); }, "R1");
}

BOOST_AUTO_TEST_CASE(never_to_forget_failures_is_refuted) {
    reconnect_tally seen;
    refute([&](std::uint64_t seed) { return reconnect_often<forgets_nothing>(seed, seen); }, "R2");
}

BOOST_AUTO_TEST_SUITE_END()
