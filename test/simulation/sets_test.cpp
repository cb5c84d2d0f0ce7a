// Locks on several keys ("sets") among locks on one key and foreign clients, with faults of all
// kinds.
//
// HOLDFAST_SCHEDULES sets the number of schedules (a quarter of it; 5,000 by default, and millions
// for a night). HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it, and
// tells its story.
#include "protocol/waiting/key_line.hpp"

#include "simulation/kernel/search.hpp"
#include "simulation/sets/sets.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using faults = schedule_faults;

/// Runs a schedule. Returns the violation.
auto under(sets_tally& seen, set_parts const& parts = {}, faults of = faults::chance) {
    return [&seen, parts, of](std::uint64_t seed, std::ostream* story) {
        return set_world(seed, seen, parts, of, std::nullopt, story).run();
    };
}

/// Breaks one part.
void refute(bool set_parts::*part, std::string_view property, faults of = faults::chance,
            std::uint64_t known = 0) {
    set_parts parts;
    parts.*part = !(parts.*part);
    sets_tally seen;
    test::refute(under(seen, parts, of), property, 20'000, known);
}

set_measures measure(set_shape const& shape, std::uint64_t seed = 1) {
    sets_tally seen;
    set_world world(seed, seen, {}, faults::none, shape);
    auto const found = world.measure();
    BOOST_TEST(world.found() == "");
    BOOST_TEST_MESSAGE("sets " << found.wide << ", longest wait " << found.longest_wide_ms
                               << " ms; single " << found.narrow << ", longest wait "
                               << found.longest_narrow_ms << " ms, fewest " << found.fewest_of_one);
    return found;
}

constexpr double longest_wait_ms = 1'000; ///< of the 2 s of a measurement

void nobody_starves(set_shape const& shape) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const found = measure(shape, seed);
        BOOST_TEST(found.longest_wide_ms < longest_wait_ms);
        BOOST_TEST(found.longest_narrow_ms < longest_wait_ms);
        BOOST_TEST(found.wide > 0U);
        BOOST_TEST(found.fewest_of_one > 0U);
    }
}

/// One of the loads of the design: sets of all keys, among acquires that always ask.
constexpr set_shape hot{.narrow = 16, .narrow_processes = 4, .think = 2ms};
constexpr set_shape crowded{.narrow = 64, .narrow_processes = 8, .think = 500us};

//
// The lines alone
//

/// The lines of a process with acquires of one key and of several, which come and go at random.
class line_world : protected chance, protected trace {
public:
    line_world(std::uint64_t seed, bool leaves_use_alone, std::ostream* story)
        : chance(seed)
        , trace(story)
        , leaves_use_alone_(leaves_use_alone) {}
    ~line_world() {
        for (auto& l : lines_) l.clear();
        for (auto& q : queued_) q.clear();
    }

    std::string run() {
        for (int n = 0; n < 60 && violation().empty(); ++n) step(true);
        for (int n = 0; n < 400 && violation().empty(); ++n) step(false);
        for (auto const& a : all_)
            if (a->waits || a->has) fail("FIFO", "an acquire is never served");
        return violation();
    }

private:
    static constexpr unsigned keys = 4;

    struct acquire : protocol::waiter, protocol::key_turn {
        unsigned order = 0;
        bool is_set = false, adopting = false, waits = true, has = false;
        std::vector<unsigned> wants;
        std::unique_ptr<protocol::key_place[]> places;
    };

    void step(bool arrivals) {
        if (arrivals && !one_in(3)) return arrive();
        std::vector<acquire*> some;
        for (auto const& a : all_)
            if (a->waits || a->has) some.push_back(a.get());
        if (some.empty()) return;
        auto& a = *some[below(some.size())];
        if (a.has || one_in(6)) return end(a);
        serve();
    }
    void arrive() {
        auto& a = *all_.emplace_back(std::make_unique<acquire>());
        a.order = static_cast<unsigned>(all_.size());
        a.is_set = one_in(2);
        for (unsigned k = 0; k < keys; ++k)
            if (one_in(2)) a.wants.push_back(k);
        if (a.wants.empty() || !a.is_set) a.wants = {static_cast<unsigned>(below(keys))};
        a.adopting = a.is_set && one_in(6) && !others_have(a);
        write_story(a.order, a.adopting ? " adopts" : a.is_set ? " wants a set" : " wants one");
        if (a.is_set) {
            a.places = std::make_unique<protocol::key_place[]>(a.wants.size());
            auto const line = [&](std::size_t n) -> protocol::key_line& {
                return lines_[a.wants[n]];
            };
            auto const used = [&](protocol::key_line& l) { return in_use(key_of(l)); };
            std::span<protocol::key_place> const places{a.places.get(), a.wants.size()};
            a.adopting ? a.overtake(places, line, used, [](protocol::key_turn&) {})
                       : a.enter(places, line, used);
        } else if (auto& l = lines_[a.wants.front()]; !l.empty()) {
            l.wait_behind(a);
        } else {
            queued_[a.wants.front()].push_back(a);
        }
        serve();
    }
    unsigned key_of(protocol::key_line const& l) const {
        return static_cast<unsigned>(&l - lines_.data());
    }
    bool in_use(unsigned k) const { return has_[k] != nullptr || !queued_[k].empty(); }

    /// Those that are called join their queues, at once or later.
    void join_called() {
        for (unsigned k = 0; k < keys; ++k) {
            if (!lines_[k].has_called() || one_in(3)) continue;
            while (lines_[k].has_called()) queued_[k].push_back(lines_[k].take_called());
        }
    }
    /// Whoever may have its keys gets them.
    void serve() {
        join_called();
        for (unsigned k = 0; k < keys; ++k) {
            if (has_[k] != nullptr || queued_[k].empty()) continue;
            auto& a = static_cast<acquire&>(queued_[k].front());
            if (adopts_and_has(k)) continue; // the instances refuse
            queued_[k].pop_front();
            has_[k] = &a;
            grant(a);
        }
        for (auto const& a : all_)
            if (a->is_set && a->waits && a->first_everywhere() && !(a->adopting && others_have(*a)))
                grant(*a);
    }
    bool others_have(acquire const& a) const {
        return std::any_of(all_.begin(), all_.end(), [&](auto const& other) {
            return other->has && setting::share_a_key(a.wants, other->wants);
        });
    }
    bool adopts_and_has(unsigned k) const {
        return std::any_of(all_.begin(), all_.end(), [&](auto const& other) {
            return other->adopting && other->has &&
                   std::binary_search(other->wants.begin(), other->wants.end(), k);
        });
    }
    void grant(acquire& a) {
        a.waits = false;
        a.has = true;
        write_story(a.order, " is served");
        for (auto const& other : all_) {
            auto const shares = setting::share_a_key(a.wants, other->wants);
            if (other.get() == &a || !shares) continue;
            if (other->has) fail("M1", "two have one key");
            auto const overtaken = a.adopting || other->adopting;
            if (!overtaken && other->waits && other->order < a.order)
                fail("FIFO",
                     std::to_string(a.order) + " goes before " + std::to_string(other->order));
        }
    }
    void end(acquire& a) {
        write_story(a.order, a.has ? " ends" : " leaves");
        if (a.is_set) {
            leave(a);
        } else if (a.has) {
            has_[a.wants.front()] = nullptr;
        } else {
            protocol::key_line::leave(a); // or its queue
        }
        a.has = a.waits = false;
        serve();
        if (a.is_set) return;
        auto const k = a.wants.front();
        while (lines_[k].has_called()) queued_[k].push_back(lines_[k].take_called());
        if (!in_use(k)) (void)protocol::key_turn::freed(lines_[k]);
        serve();
    }
    void leave(acquire& a) {
        std::set<unsigned> used;
        for (std::size_t n = 0; n < a.wants.size(); ++n) {
            auto const& l = lines_[a.wants[n]];
            if (&l.front() == &a.places[n] && !a.places[n].free) used.insert(a.wants[n]);
        }
        a.key_turn::leave([](protocol::key_line&) {}, [](protocol::key_turn&) {});
        if (!leaves_use_alone_) return;
        for (auto const k : used) (void)protocol::key_turn::freed(lines_[k]);
    }

    bool const leaves_use_alone_; ///< broken
    std::array<protocol::key_line, keys> lines_;
    std::array<protocol::waiter_list, keys> queued_;
    std::array<acquire*, keys> has_{};
    std::vector<std::unique_ptr<acquire>> all_;
};

auto lines(bool leaves_use_alone = false) {
    return [=](std::uint64_t seed, std::ostream* story) {
        return line_world(seed, leaves_use_alone, story).run();
    };
}

} // namespace

BOOST_AUTO_TEST_SUITE(sets)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    sets_tally seen;
    stands(schedules_to_try() / 4, under(seen));
    BOOST_TEST_MESSAGE(
        "leases " << seen.leases << " of sets " << seen.sets << ", of one key " << seen.singles
                  << ", foreign " << seen.foreign << ", with fences " << seen.fenced
                  << ", handed over " << seen.handovers << " of sets " << seen.sets_handed_over
                  << ", extended " << seen.extended << ", healed " << seen.healed << ", raised "
                  << seen.raised << ", lost " << seen.lost << ", refused " << seen.refused
                  << ", timed out " << seen.timed_out << ", cancelled " << seen.cancelled
                  << ": together " << seen.cancelled_together << ", in order "
                  << seen.cancelled_in_order << ", in conversion " << seen.cancelled_in_conversion
                  << ", total " << seen.total_cancels << ", no quorum " << seen.no_quorum
                  << ", in order " << seen.in_order << ", keys taken " << seen.keys_taken
                  << ", conversions " << seen.conversions << ", won " << seen.converted
                  << ", failed " << seen.conversions_failed << ", keys replaced "
                  << seen.overwritten << ", started over " << seen.started_over << ", behind sets "
                  << seen.behind_sets << ", behind others " << seen.behind_queues);
    BOOST_TEST_MESSAGE(
        "pushes " << seen.pushes << ", own releases " << seen.own_releases << ", tracks "
                  << seen.tracks << ", ghosts " << seen.ghosts << ": conversions "
                  << seen.ghost_conversions << ", grants " << seen.ghost_grants << ", extensions "
                  << seen.ghost_extensions << ", releases " << seen.ghost_releases << ", breaks "
                  << seen.breaks << ", freezes " << seen.freezes << ", deaths " << seen.deaths
                  << ", stops " << seen.stops << ", restarts " << seen.restarts << ", quarantines "
                  << seen.quarantined << ", robberies " << seen.robberies << ", remnants "
                  << seen.remnants << ", suspects " << seen.suspects << ", expiries "
                  << seen.expiries << ", early ones " << seen.early_expiries << ", folded "
                  << seen.folded << ", late " << seen.late << ", inspections " << seen.inspections
                  << ", overslept " << seen.overslept << ", left " << seen.left << ", adopted "
                  << seen.adopted << ": sets " << seen.sets_adopted << ", not adopted "
                  << seen.not_adopted << ", overtaken " << seen.overtaken << ", stood aside "
                  << seen.stood_aside);
    all_happened({seen.sets,
                  seen.singles,
                  seen.foreign,
                  seen.fenced,
                  seen.handovers,
                  seen.sets_handed_over,
                  seen.extended,
                  seen.healed,
                  seen.raised,
                  seen.lost,
                  seen.refused,
                  seen.timed_out,
                  seen.cancelled_together,
                  seen.cancelled_in_order,
                  seen.cancelled_in_conversion,
                  seen.total_cancels,
                  seen.no_quorum,
                  seen.in_order,
                  seen.converted,
                  seen.conversions_failed,
                  seen.overwritten,
                  seen.started_over,
                  seen.behind_sets,
                  seen.behind_queues,
                  seen.pushes,
                  seen.tracks,
                  seen.ghost_conversions,
                  seen.ghost_grants,
                  seen.ghost_extensions,
                  seen.ghost_releases,
                  seen.breaks,
                  seen.freezes,
                  seen.deaths,
                  seen.stops,
                  seen.restarts,
                  seen.quarantined,
                  seen.robberies,
                  seen.remnants,
                  seen.suspects,
                  seen.expiries,
                  seen.early_expiries,
                  seen.folded,
                  seen.late,
                  seen.inspections,
                  seen.left,
                  seen.adopted,
                  seen.sets_adopted,
                  seen.not_adopted,
                  seen.overtaken,
                  seen.stood_aside});
}

//
// Broken instances
//

BOOST_AUTO_TEST_CASE(an_instance_that_takes_a_part_of_a_set_and_refuses_is_refuted) {
    refute(&set_parts::takes_all_or_none, "M2");
}

BOOST_AUTO_TEST_CASE(an_instance_that_takes_a_part_of_a_set_and_grants_is_refuted) {
    refute(&set_parts::grants_all_or_none, "M1");
}

BOOST_AUTO_TEST_CASE(a_conversion_that_overwrites_keys_of_anybody_is_refuted) {
    refute(&set_parts::compares_prior, "M1");
}

BOOST_AUTO_TEST_CASE(a_conversion_that_counts_keys_of_anybody_is_refuted) {
    refute(&set_parts::doubts_prior, "M1");
}

BOOST_AUTO_TEST_CASE(a_release_that_does_not_compare_is_refuted) {
    refute(&set_parts::releases_own, "S3");
}

BOOST_AUTO_TEST_CASE(an_extension_that_counts_without_one_of_the_keys_is_refuted) {
    refute(&set_parts::extends_all_or_none, "M6");
}

BOOST_AUTO_TEST_CASE(a_raise_that_is_not_stored_is_refuted) {
    refute(&set_parts::raise_stores, "S2");
}

BOOST_AUTO_TEST_CASE(a_number_for_each_key_and_one_fence_is_refuted) {
    refute(&set_parts::counts_for_the_set, "S2");
}

//
// Broken drivers
//

BOOST_AUTO_TEST_CASE(keys_in_the_order_of_the_caller_are_refuted) {
    refute(&set_parts::byte_order, "M3", faults::none);
}

BOOST_AUTO_TEST_CASE(no_order_in_the_process_is_refuted) {
    refute(&set_parts::keeps_order, "FIFO", faults::none);
}

BOOST_AUTO_TEST_CASE(an_order_of_its_own_for_each_key_is_refuted) {
    refute(&set_parts::one_order, "M3", faults::none);
}

BOOST_AUTO_TEST_CASE(keys_that_are_not_given_back_are_refuted) {
    refute(&set_parts::gives_back, "M3");
}

// Its conversion may still be under way, and replaces the key of the next holder.
BOOST_AUTO_TEST_CASE(a_hand_over_of_a_key_that_is_being_converted_is_refuted) {
    refute(&set_parts::hands_over_converted, "M1");
}

BOOST_AUTO_TEST_CASE(an_acquire_that_passes_those_that_a_set_kept_waiting_is_refuted) {
    refute(&set_parts::joins_in_order, "FIFO", faults::none);
}

BOOST_AUTO_TEST_CASE(a_place_that_forgets_the_queue_before_it_is_refuted) {
    refute(&set_parts::tells_use, "FIFO");
}

BOOST_AUTO_TEST_CASE(a_queue_that_looks_at_its_place_only_once_is_refuted) {
    refute(&set_parts::asks_each_time, "in order");
}

BOOST_AUTO_TEST_CASE(a_key_that_comes_after_another_was_lost_is_refuted) {
    refute(&set_parts::calls_off, "in order", faults::ordinary, 5'250);
}

BOOST_AUTO_TEST_CASE(an_adoption_behind_those_that_wait_is_refuted) {
    refute(&set_parts::overtakes, "A1", faults::none);
}

BOOST_AUTO_TEST_CASE(a_try_that_would_take_the_keys_in_order_is_refuted) {
    refute(&set_parts::tries_together, "M4", faults::none);
}

BOOST_AUTO_TEST_CASE(a_tenure_that_takes_the_loss_of_one_key_for_that_of_all_is_refuted) {
    refute(&set_parts::tells_parts, "M2");
}

BOOST_AUTO_TEST_CASE(a_heal_after_the_lease_has_ended_is_refuted) {
    refute(&set_parts::heals_held_alone, "M2");
}

BOOST_AUTO_TEST_CASE(no_restart_guard_is_refuted) {
    refute(&set_parts::restart_guard, "M1", faults::restarts);
}

//
// The order in a process
//

BOOST_AUTO_TEST_CASE(lines_serve_in_the_order_of_arrival) {
    stands(schedules_to_try(), lines());
}

BOOST_AUTO_TEST_CASE(lines_that_forget_the_queue_before_a_place_are_refuted) {
    test::refute(lines(true), "M1");
}

//
// Cost and shares, without faults
//

BOOST_AUTO_TEST_CASE(free_keys_are_had_in_one_round_trip_however_many_they_are) {
    for (auto const n : {1U, 3U, 5U}) {
        for (auto const k : {1U, 2U, 8U, 64U}) {
            for (auto const fenced : {false, true}) {
                auto const found = measure({.instances = n,
                                            .keys = k,
                                            .wide = 1,
                                            .keys_of_wide = k,
                                            .length = 400us,
                                            .steady = true,
                                            .fenced = fenced});
                BOOST_TEST(found.wide == 1U);
                BOOST_TEST(found.slowest_round_trips < 1.001);
                BOOST_TEST(found.commands == n);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(neither_sets_nor_single_locks_starve) {
    nobody_starves(hot);
    nobody_starves(crowded);
}

BOOST_AUTO_TEST_CASE(nor_do_they_where_sets_take_the_keys_in_order_at_once) {
    auto shape = hot;
    shape.patience = 0;
    nobody_starves(shape);
}

BOOST_AUTO_TEST_CASE(all_or_none_alone_starves_sets) {
    auto shape = crowded;
    shape.patience = never;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const found = measure(shape, seed);
        BOOST_TEST(found.longest_wide_ms > longest_wait_ms);
    }
}

BOOST_AUTO_TEST_SUITE_END()
