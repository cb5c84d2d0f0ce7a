// The wait queue and the tenure in many processes that want one key.
//
// HOLDFAST_SCHEDULES is how many schedules are tried (20,000 by default; give millions for a night),
// HOLDFAST_SEED the first one's seed. A failure names the seed that shows it again.
#include "simulation/contest.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace holdfast;
using namespace holdfast::test;

std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
    auto const* const text = std::getenv(variable);
    return text != nullptr ? std::stoull(text) : otherwise;
}

struct finding {
    std::uint64_t seed;
    std::string violation;
};

/// The first schedule that violates `property`, or any property if that is empty.
template <class Rules, class Driver = faithful_driver>
std::optional<finding> search(std::uint64_t schedules, contest_tally& seen, std::string_view property = {},
                              std::optional<contest_shape> shape = std::nullopt) {
    auto const first = number_from("HOLDFAST_SEED", 1);
    for (auto seed = first; seed < first + schedules; ++seed) {
        auto v = contest<Rules, Driver>(seed, seen, shape).run();
        if (!v.empty() && v.starts_with(property)) return finding{seed, std::move(v)};
    }
    return std::nullopt;
}

} // namespace

BOOST_AUTO_TEST_SUITE(contention)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    contest_tally seen;
    auto const found = search<protocol::waiting_rules>(number_from("HOLDFAST_SCHEDULES", 20'000), seen);
    BOOST_TEST(!found.has_value(),
               "seed " << (found ? found->seed : 0) << ": " << (found ? found->violation : std::string()));
    BOOST_TEST_MESSAGE(
        "leases " << seen.leases << ", tenures " << seen.tenures << ", handoffs " << seen.handoffs << ", pushes "
                  << seen.pushes << ", wasted " << seen.wasted << ", splits " << seen.splits << ", stand-backs "
                  << seen.stand_backs << ", own releases " << seen.own_releases << ", cancelled " << seen.cancelled
                  << ", heads cancelled " << seen.heads_cancelled << ", cancelled when granted "
                  << seen.cancelled_when_granted << ", timed out " << seen.timed_out << ", refused " << seen.refused
                  << ", given up " << seen.given_up << ", no quorum " << seen.no_quorum << ", lost " << seen.lost
                  << ", deaths " << seen.deaths << ", disconnects " << seen.disconnects << ", suspects "
                  << seen.suspects << ", expiries " << seen.expiries << ", flushes " << seen.flushes << ", resent "
                  << seen.resent << ", kept " << seen.kept << ", late ttls " << seen.late_ttls << ", foreign "
                  << seen.foreign << ", forgotten " << seen.forgotten << ", measured " << seen.measured);
    BOOST_TEST_MESSAGE("longest wait " << seen.longest_wait << " of its bound, highest cost " << seen.highest_cost
                                       << " of what is allowed");
    for (auto const n :
         {seen.leases, seen.tenures, seen.handoffs, seen.pushes, seen.wasted, seen.splits, seen.stand_backs,
          seen.own_releases, seen.cancelled, seen.heads_cancelled, seen.cancelled_when_granted, seen.timed_out,
          seen.refused, seen.given_up, seen.no_quorum, seen.lost, seen.deaths, seen.disconnects, seen.suspects,
          seen.expiries, seen.flushes, seen.resent, seen.kept, seen.late_ttls, seen.foreign, seen.forgotten,
          seen.measured}) {
        BOOST_TEST(n > 0U);
    }
}

BOOST_AUTO_TEST_SUITE_END()
