// The protocol's classes in a world of delays, losses, crashes, stopped processes and drifting
// clocks.
//
// HOLDFAST_SCHEDULES sets the number of schedules (5,000 by default; millions for a night).
// HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it.
#include "simulation/kernel/search.hpp"
#include "simulation/world.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <iostream>
#include <ostream>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;

struct sum_of_all_suites {
    ~sum_of_all_suites() {
        std::cout << schedules_without_violation << " schedules without a violation\n";
    }
};
BOOST_TEST_GLOBAL_FIXTURE(sum_of_all_suites);

/// Runs a schedule with these rules. Returns the violation.
template <class Rules, class Servers = faithful_servers>
auto under(tally_of_events& seen) {
    return [&seen](std::uint64_t seed, std::ostream* story) {
        return world<Rules, Servers>(seed, seen, story).run();
    };
}

template <class Rules, class Servers = faithful_servers>
void refute(std::string_view property, std::uint64_t known = 0) {
    tally_of_events seen;
    test::refute(under<Rules, Servers>(seen), property, 20'000, known);
}

struct shortening_servers : faithful_servers {
    static constexpr bool shorten() { return true; }
};

struct revoking_servers : faithful_servers {
    static constexpr bool revokes() { return true; }
};

struct revocation_deletes : revoking_servers {
    static void revoke(content& has, true_time) { has.holder = nobody; }
};

struct revocation_shortens : revoking_servers {
    static void revoke(content& has, true_time now) {
        faithful_servers::revoke(has, now);
        has.expires = now + (has.expires - now) / 2;
    }
};

struct extension_replaces : revoking_servers {
    static constexpr bool replaces(command c) { return c == command::extend; }
};

struct tombstones_unseen : revoking_servers {
    static constexpr bool shows_tombstones() { return false; }
};

struct healing_replaces : tombstones_unseen {
    static constexpr bool replaces(command c) { return c == command::heal; }
};

struct quorum_of_the_reachable : protocol::redlock_rules {
    static constexpr unsigned quorum(unsigned, unsigned reachable) { return reachable / 2 + 1; }
};

struct half_is_enough : protocol::redlock_rules {
    static constexpr unsigned quorum(unsigned configured, unsigned) { return (configured + 1) / 2; }
};

struct validity_from_the_reply : protocol::redlock_rules {
    static constexpr time_point deadline(time_point, time_point won, duration ttl) {
        return won + ttl - drift(ttl);
    }
};

struct clocks_never_drift : protocol::redlock_rules {
    static constexpr time_point deadline(time_point sent, time_point, duration ttl) {
        return sent + ttl;
    }
};

struct no_late_release : protocol::redlock_rules {
    static constexpr protocol::instance_set to_release(protocol::instance_set,
                                                       protocol::instance_set granted) {
        return granted;
    }
};

struct win_after_the_deadline : protocol::redlock_rules {
    static constexpr bool in_time(time_point, time_point) { return true; }
};

struct extension_after_the_deadline : protocol::redlock_rules {
    static constexpr bool may_extend(time_point, time_point) { return true; }
};

struct heal_before_the_win : protocol::redlock_rules {
    static constexpr bool may_heal(bool) { return true; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(schedules)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    tally_of_events seen;
    stands(schedules_to_try(), under<protocol::redlock_rules>(seen));
    BOOST_TEST_MESSAGE(
        "won " << seen.won << ", contended " << seen.contended << ", no quorum " << seen.no_quorum
               << ", expired " << seen.expired << ", cancelled " << seen.cancelled << ", extended "
               << seen.extended << ", not extended " << seen.extension_failed << ", lost "
               << seen.lost << ", released " << seen.released << ", unconfirmed "
               << seen.unconfirmed << ", healed " << seen.healed << ", late grants "
               << seen.late_grants << ", releases kept and sent " << seen.resent << ", pauses "
               << seen.pauses << ", raised " << seen.raised << ", other ttls " << seen.shortened
               << " and " << seen.lengthened << ", left " << seen.left << ", adopted "
               << seen.adopted << " and not " << seen.not_adopted << ", late commands "
               << seen.ghosts << ", extensions " << seen.ghost_extensions);
    all_happened(
        {seen.won,       seen.contended,        seen.no_quorum, seen.expired,  seen.cancelled,
         seen.extended,  seen.extension_failed, seen.lost,      seen.released, seen.unconfirmed,
         seen.healed,    seen.late_grants,      seen.resent,    seen.pauses,   seen.raised,
         seen.shortened, seen.lengthened,       seen.left,      seen.adopted,  seen.not_adopted,
         seen.ghosts,    seen.ghost_extensions});
}

// Holders are revoked at any moment, at some or all instances.
BOOST_AUTO_TEST_CASE(revocations_keep_every_promise) {
    tally_of_events seen;
    stands(schedules_to_try(), under<protocol::redlock_rules, revoking_servers>(seen));
    BOOST_TEST_MESSAGE("won " << seen.won << ", extended " << seen.extended << ", lost "
                              << seen.lost << ", healed " << seen.healed << ", tombstones "
                              << seen.tombstones << ", which left no quorum " << seen.closed);
    all_happened({seen.won, seen.extended, seen.lost, seen.healed, seen.tombstones, seen.closed});
}

BOOST_AUTO_TEST_CASE(a_revocation_that_deletes_is_refuted) {
    refute<protocol::redlock_rules, revocation_deletes>("S1");
}

BOOST_AUTO_TEST_CASE(a_revocation_that_shortens_the_life_of_the_key_is_refuted) {
    refute<protocol::redlock_rules, revocation_shortens>("S1");
}

BOOST_AUTO_TEST_CASE(an_extension_that_replaces_a_tombstone_is_refuted) {
    refute<protocol::redlock_rules, extension_replaces>("I2");
}

BOOST_AUTO_TEST_CASE(a_healing_that_replaces_a_tombstone_is_refuted) {
    refute<protocol::redlock_rules, healing_replaces>("I2");
}

// A tombstone has expired before the last one of the same revocation is set.
BOOST_AUTO_TEST_CASE(a_healing_after_a_tombstone_is_refuted) {
    refute<protocol::redlock_rules, tombstones_unseen>("I2", 40'055'298);
}

// The extension of an earlier ttl, from a connection that has ended, or by the first holder of a
// lease that another client has adopted.
BOOST_AUTO_TEST_CASE(a_late_extension_that_shortens_a_key_is_refuted) {
    refute<protocol::redlock_rules, shortening_servers>("S1");
}

BOOST_AUTO_TEST_CASE(a_quorum_of_the_reachable_is_refuted) {
    refute<quorum_of_the_reachable>("S1");
}

BOOST_AUTO_TEST_CASE(half_of_an_even_number_is_refuted) {
    refute<half_is_enough>("S1");
}

BOOST_AUTO_TEST_CASE(validity_from_the_reply_is_refuted) {
    refute<validity_from_the_reply>("S1");
}

BOOST_AUTO_TEST_CASE(clocks_without_drift_are_refuted) {
    refute<clocks_never_drift>("S1");
}

BOOST_AUTO_TEST_CASE(no_release_of_late_grants_is_refuted) {
    refute<no_late_release>("S4");
}

BOOST_AUTO_TEST_CASE(a_win_after_the_deadline_is_refuted) {
    refute<win_after_the_deadline>("S1");
}

BOOST_AUTO_TEST_CASE(an_extension_after_the_deadline_is_refuted) {
    refute<extension_after_the_deadline>("S1");
}

BOOST_AUTO_TEST_CASE(healing_before_the_win_is_refuted) {
    refute<heal_before_the_win>("heal");
}

BOOST_AUTO_TEST_SUITE_END()
