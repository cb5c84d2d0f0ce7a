// The fences that a fence_gate admits and rejects. A gate that forgets keys becomes stricter, never
// laxer.
#include <holdfast/error.hpp>
#include <holdfast/fence_gate.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using holdfast::errc;

namespace {

constexpr auto most = std::numeric_limits<std::uint64_t>::max();

/// The reference: a gate that never forgets a key.
class unbounded {
public:
    bool admit(std::string const& key, std::uint64_t fence) {
        if (fence == 0) return false;
        auto& known = fences_[key];
        if (fence < known) return false;
        known = fence;
        return true;
    }

    std::size_t size() const { return fences_.size(); }

    std::uint64_t greatest_of(std::string const& key) const {
        auto const known = fences_.find(key);
        return known == fences_.end() ? 0 : known->second;
    }

    /// The number of keys with a greater fence.
    std::size_t above(std::uint64_t fence) const {
        return static_cast<std::size_t>(std::count_if(
            fences_.begin(), fences_.end(), [&](auto const& k) { return k.second > fence; }));
    }

    /// The n-th greatest fence of all keys, counted from 0; 0 if there are too few keys.
    std::uint64_t nth_greatest(std::size_t n) const {
        if (n >= fences_.size()) return 0;
        std::vector<std::uint64_t> all;
        for (auto const& k : fences_) all.push_back(k.second);
        auto const nth = all.begin() + static_cast<std::ptrdiff_t>(n);
        std::nth_element(all.begin(), nth, all.end(), std::greater<>{});
        return *nth;
    }

private:
    std::map<std::string, std::uint64_t> fences_;
};

/// The requests to a resource, in time order except that each is late by up to `lateness`.
class requests {
public:
    requests(unsigned seed, std::size_t keys, std::uint64_t lateness)
        : random_(seed)
        , keys_(keys)
        , lateness_(lateness) {}

    std::pair<std::string, std::uint64_t> next() {
        now_ += random_() % 3;
        auto const late = random_() % (lateness_ + 1);
        return {"key " + std::to_string(random_() % keys_), now_ - std::min(late, now_)};
    }

    std::uint64_t below(std::uint64_t n) { return random_() % n; }

private:
    std::mt19937_64 random_;
    std::size_t keys_;
    std::uint64_t lateness_;
    std::uint64_t now_ = 0;
};

/// A gate for two keys, to which `b` and `c` are known. It has forgotten `a`.
holdfast::fence_gate gate_after_three_keys() {
    holdfast::fence_gate gate(2);
    BOOST_REQUIRE(gate.admit("a", 10));
    BOOST_REQUIRE(gate.admit("b", 20));
    BOOST_REQUIRE(gate.admit("c", 30));
    return gate;
}

struct traffic {
    std::size_t keys, max_keys;
    std::uint64_t lateness;
};

} // namespace

BOOST_AUTO_TEST_SUITE(fence_gate)

BOOST_AUTO_TEST_CASE(an_equal_or_a_greater_fence_is_admitted_and_a_smaller_one_is_not) {
    holdfast::fence_gate gate(10);
    BOOST_TEST(gate.admit("seat", 5));
    BOOST_TEST(gate.admit("seat", 5));
    BOOST_TEST(!gate.admit("seat", 4));
    BOOST_TEST(gate.admit("seat", 7));
    BOOST_TEST(!gate.admit("seat", 6));
    BOOST_TEST(!gate.admit("seat", 5));
    BOOST_TEST(gate.admit("seat", 7));
}

// A reader may have the fence of the writer before it, or that of another reader.
BOOST_AUTO_TEST_CASE(a_reader_is_admitted_unless_a_later_writer_was) {
    holdfast::fence_gate gate(2);
    BOOST_TEST(gate.admit_shared("page", 3));
    BOOST_TEST(gate.admit("page", 5));
    BOOST_TEST(gate.admit_shared("page", 5));
    BOOST_TEST(gate.admit_shared("page", 9));
    BOOST_TEST(!gate.admit_shared("page", 4));
    BOOST_TEST(!gate.admit_shared("page", 0));
    BOOST_TEST(!gate.admit_shared("new", 0));
    // The fence of a reader keeps out no other holder.
    BOOST_TEST(gate.admit("page", 6));
    BOOST_TEST(gate.admit_shared("page", 6));
    BOOST_TEST(gate.greatest() == 6U);
    BOOST_TEST(gate.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_reader_of_a_key_that_may_be_forgotten_needs_a_fence_above_the_floor) {
    holdfast::fence_gate gate(1);
    BOOST_TEST(gate.admit("a", 5));
    BOOST_TEST(gate.admit("b", 7)); // `a` is forgotten
    BOOST_TEST(gate.floor() == 5U);
    BOOST_TEST(!gate.admit_shared("a", 4));
    BOOST_TEST(!gate.admit_shared("new", 4));
    BOOST_TEST(gate.admit_shared("a", 5));
    BOOST_TEST(gate.size() == 1U);
    holdfast::fence_gate const later(1, 100);
    BOOST_TEST(!later.admit_shared("a", 99));
    BOOST_TEST(later.admit_shared("a", 100));
}

BOOST_AUTO_TEST_CASE(keys_have_nothing_to_do_with_each_other) {
    holdfast::fence_gate gate(10);
    BOOST_TEST(gate.admit("a", 100));
    BOOST_TEST(gate.admit("b", 1));
    BOOST_TEST(gate.admit("c", 50));
    BOOST_TEST(!gate.admit("a", 99));
    BOOST_TEST(gate.admit("b", 2));
    BOOST_TEST(!gate.admit("b", 1));
    BOOST_TEST(!gate.admit("c", 49));
    BOOST_TEST(gate.size() == 3U);
}

BOOST_AUTO_TEST_CASE(zero_is_never_admitted) {
    holdfast::fence_gate gate(1);
    BOOST_TEST(!gate.admit("seat", 0));
    BOOST_TEST(gate.size() == 0U);
    BOOST_TEST(gate.admit("seat", 1));
    BOOST_TEST(!gate.admit("seat", 0));
    BOOST_TEST(!gate.admit("other", 0));
    BOOST_TEST(gate.size() == 1U);
    BOOST_TEST(gate.floor() == 0U);
}

BOOST_AUTO_TEST_CASE(every_other_fence_can_be_admitted) {
    holdfast::fence_gate gate(2);
    BOOST_TEST(gate.admit("seat", 1));
    BOOST_TEST(gate.admit("seat", std::uint64_t(1) << 63));
    BOOST_TEST(!gate.admit("seat", (std::uint64_t(1) << 63) - 1));
    BOOST_TEST(gate.admit("seat", most));
    BOOST_TEST(gate.admit("seat", most));
    BOOST_TEST(!gate.admit("seat", most - 1));
    BOOST_TEST(gate.greatest() == most);
}

BOOST_AUTO_TEST_CASE(a_gate_for_no_keys_is_refused_and_the_value_named) {
    auto const wrong = [](holdfast::system_error const& e) {
        return e.code() == errc::invalid_options &&
               std::string_view(e.what()).find("max_keys is 0") != std::string_view::npos;
    };
    BOOST_CHECK_EXCEPTION(holdfast::fence_gate(0), holdfast::system_error, wrong);
    BOOST_CHECK_EXCEPTION(holdfast::fence_gate(0, 7), holdfast::system_error, wrong);
}

BOOST_AUTO_TEST_CASE(a_gate_for_one_key_works) {
    holdfast::fence_gate gate(1);
    BOOST_TEST(gate.admit("a", 5));
    BOOST_TEST(gate.admit("b", 6));
    BOOST_TEST(gate.size() == 1U);
    BOOST_TEST(gate.floor() == 5U);
    BOOST_TEST(!gate.admit("a", 4));
    BOOST_TEST(!gate.admit("b", 5));
    BOOST_TEST(gate.admit("a", 7));
    BOOST_TEST(gate.floor() == 6U);
    BOOST_TEST(!gate.admit("b", 5));
}

BOOST_AUTO_TEST_CASE(a_gate_for_any_number_of_keys_takes_no_memory_for_them_beforehand) {
    holdfast::fence_gate gate(std::numeric_limits<std::size_t>::max());
    BOOST_TEST(gate.admit("a", 2));
    BOOST_TEST(gate.admit("b", 1));
    BOOST_TEST(!gate.admit("a", 1));
    BOOST_TEST(gate.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_new_gate_knows_nothing) {
    holdfast::fence_gate const gate(10);
    BOOST_TEST(gate.floor() == 0U);
    BOOST_TEST(gate.greatest() == 0U);
    BOOST_TEST(gate.size() == 0U);
}

BOOST_AUTO_TEST_CASE(a_rejected_request_changes_nothing) {
    auto gate = gate_after_three_keys();
    BOOST_TEST(!gate.admit("a", 9));   // this key is forgotten
    BOOST_TEST(!gate.admit("b", 19));  // this key is remembered
    BOOST_TEST(!gate.admit("new", 9)); // this key is new
    BOOST_TEST(!gate.admit("c", 0));
    BOOST_TEST(gate.size() == 2U);
    BOOST_TEST(gate.floor() == 10U);
    BOOST_TEST(gate.greatest() == 30U);
    BOOST_TEST(gate.admit("b", 20));
    BOOST_TEST(gate.admit("c", 30));
}

BOOST_AUTO_TEST_CASE(greatest_is_that_of_all_keys_and_outlives_them) {
    holdfast::fence_gate gate(2);
    BOOST_TEST(gate.admit("a", 10));
    BOOST_TEST(gate.greatest() == 10U);
    BOOST_TEST(gate.admit("b", 5));
    BOOST_TEST(gate.greatest() == 10U);
    BOOST_TEST(gate.admit("b", 11));
    BOOST_TEST(gate.greatest() == 11U);
    BOOST_TEST(gate.admit("c", 12));
    BOOST_TEST(gate.admit("d", 13));
    BOOST_TEST(gate.greatest() == 13U);
}

BOOST_AUTO_TEST_CASE(when_it_is_full_the_key_with_the_smallest_fence_is_forgotten) {
    holdfast::fence_gate gate(3);
    BOOST_REQUIRE(gate.admit("a", 10));
    BOOST_REQUIRE(gate.admit("b", 20));
    BOOST_REQUIRE(gate.admit("c", 30));
    BOOST_REQUIRE(gate.admit("a", 40)); // the oldest key, and no longer the smallest fence
    BOOST_TEST(gate.floor() == 0U);
    BOOST_TEST(gate.admit("d", 50));
    BOOST_TEST(gate.size() == 3U);
    BOOST_TEST(gate.floor() == 20U);
    // The gate remembers the other keys: it rejects fences between the floor and theirs.
    BOOST_TEST(!gate.admit("a", 39));
    BOOST_TEST(!gate.admit("c", 29));
    BOOST_TEST(!gate.admit("d", 49));
}

BOOST_AUTO_TEST_CASE(a_known_key_makes_nobody_forgotten) {
    holdfast::fence_gate gate(2);
    BOOST_REQUIRE(gate.admit("a", 10));
    BOOST_REQUIRE(gate.admit("b", 20));
    for (std::uint64_t fence = 30; fence != 40; ++fence) {
        BOOST_TEST(gate.admit("b", fence));
    }
    BOOST_TEST(gate.floor() == 0U);
    BOOST_TEST(!gate.admit("a", 9));
    BOOST_TEST(gate.admit("a", 10));
}

BOOST_AUTO_TEST_CASE(a_forgotten_key_is_admitted_from_the_floor_on) {
    auto gate = gate_after_three_keys();
    BOOST_REQUIRE(gate.floor() == 10U);
    BOOST_TEST(!gate.admit("a", 9)); // smaller than the fence admitted last
    BOOST_TEST(gate.admit("a", 10)); // the fence admitted last
    BOOST_TEST(!gate.admit("a", 9));
    BOOST_TEST(gate.admit("a", 11)); // a later lease
    BOOST_TEST(!gate.admit("a", 10));
}

BOOST_AUTO_TEST_CASE(a_holder_older_than_what_was_forgotten_is_kept_out) {
    auto gate = gate_after_three_keys();
    BOOST_TEST(!gate.admit("rightful", 9));
    BOOST_TEST(gate.admit("rightful", 40)); // the holder of a new lease
    BOOST_TEST(gate.floor() == 20U);
}

BOOST_AUTO_TEST_CASE(a_new_key_with_the_smallest_fence_raises_the_floor_to_its_own) {
    for (std::uint64_t const fence : {11U, 15U, 20U}) { // 20 is the smallest fence remembered
        BOOST_TEST_CONTEXT(fence) {
            auto gate = gate_after_three_keys();
            BOOST_REQUIRE(gate.floor() == 10U);
            BOOST_TEST(gate.admit("new", fence));
            BOOST_TEST(gate.size() == 2U);
            BOOST_TEST(gate.floor() == fence);
            BOOST_TEST(!gate.admit("new", fence - 1));
            BOOST_TEST(gate.admit("new", fence));
            BOOST_TEST(!gate.admit("a", fence - 1));
            BOOST_TEST(!gate.admit("b", 19));
            BOOST_TEST(!gate.admit("c", 29));
            BOOST_TEST(gate.admit("b", 20));
            BOOST_TEST(gate.admit("c", 30));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_new_key_at_the_floor_is_admitted_and_leaves_the_floor) {
    auto gate = gate_after_three_keys();
    for (std::string_view const key : {"x", "y", "a", "z", "x"}) {
        BOOST_TEST(gate.admit(key, 10));
        BOOST_TEST(gate.floor() == 10U);
        BOOST_TEST(!gate.admit(key, 9));
    }
    BOOST_TEST(!gate.admit("b", 19));
    BOOST_TEST(!gate.admit("c", 29));
}

BOOST_AUTO_TEST_CASE(keys_with_one_fence_are_forgotten_as_safely) {
    holdfast::fence_gate gate(2);
    for (std::string_view const key : {"a", "b", "c", "d"}) {
        BOOST_TEST(gate.admit(key, 10));
    }
    BOOST_TEST(gate.size() == 2U);
    BOOST_TEST(gate.floor() == 10U);
    for (std::string_view const key : {"a", "b", "c", "d"}) {
        BOOST_TEST(!gate.admit(key, 9));
        BOOST_TEST(gate.admit(key, 10));
    }
}

BOOST_AUTO_TEST_CASE(a_rightful_holder_is_kept_out_only_after_more_than_max_keys_others) {
    constexpr std::size_t max_keys = 100;
    holdfast::fence_gate gate(max_keys);
    BOOST_REQUIRE(gate.admit("rightful", 5));
    for (std::size_t i = 0; i != max_keys; ++i) {
        BOOST_REQUIRE(gate.admit("other " + std::to_string(i), 10 + i));
    }
    BOOST_TEST(gate.admit("rightful", 5));
    BOOST_TEST(gate.admit("other 7", 1'000)); // a later lease on a known key
    BOOST_TEST(gate.admit("rightful", 5));
    BOOST_TEST(gate.admit("one more", 1'001));
    BOOST_TEST(!gate.admit("rightful", 5));
}

BOOST_AUTO_TEST_CASE(a_floor_to_begin_with_holds_for_every_key) {
    holdfast::fence_gate gate(10, 100);
    BOOST_TEST(gate.floor() == 100U);
    BOOST_TEST(gate.greatest() == 100U);
    BOOST_TEST(gate.size() == 0U);
    BOOST_TEST(!gate.admit("a", 99));
    BOOST_TEST(!gate.admit("a", 0));
    BOOST_TEST(gate.admit("a", 100));
    BOOST_TEST(gate.admit("b", 101));
    BOOST_TEST(!gate.admit("b", 100));
    BOOST_TEST(gate.floor() == 100U);
    BOOST_TEST(gate.greatest() == 101U);
}

BOOST_AUTO_TEST_CASE(a_floor_of_the_greatest_fence_admits_nothing_smaller) {
    holdfast::fence_gate gate(10, most);
    BOOST_TEST(!gate.admit("a", most - 1));
    BOOST_TEST(gate.admit("a", most));
}

BOOST_AUTO_TEST_CASE(what_was_late_before_a_restart_is_late_after_it) {
    holdfast::fence_gate before(10);
    BOOST_REQUIRE(before.admit("a", 10));
    BOOST_REQUIRE(before.admit("b", 20));
    holdfast::fence_gate after(10, before.greatest());
    BOOST_TEST(!after.admit("a", 9));
    BOOST_TEST(!after.admit("b", 19));
    BOOST_TEST(after.admit("b", 20));
    BOOST_TEST(after.admit("a", 21));
}

BOOST_AUTO_TEST_CASE(a_moved_gate_goes_on_as_it_was) {
    static_assert(std::is_nothrow_move_constructible_v<holdfast::fence_gate>);
    static_assert(std::is_nothrow_move_assignable_v<holdfast::fence_gate>);
    static_assert(!std::is_copy_constructible_v<holdfast::fence_gate>);
    static_assert(!std::is_copy_assignable_v<holdfast::fence_gate>);
    static_assert(!std::is_convertible_v<std::size_t, holdfast::fence_gate>);

    auto first = gate_after_three_keys();
    holdfast::fence_gate second(std::move(first));
    BOOST_TEST(!second.admit("b", 19));
    BOOST_TEST(second.floor() == 10U);
    BOOST_TEST(second.greatest() == 30U);
    BOOST_TEST(second.size() == 2U);

    holdfast::fence_gate third(10, 1'000);
    BOOST_REQUIRE(third.admit("z", 1'001));
    third = std::move(second);
    BOOST_TEST(third.size() == 2U);
    BOOST_TEST(!third.admit("c", 29));
    BOOST_TEST(third.admit("d", 40)); // the gate keeps max_keys across the move, so it forgets b
    BOOST_TEST(third.size() == 2U);
    BOOST_TEST(third.floor() == 20U);

    first = holdfast::fence_gate(5);
    BOOST_TEST(first.admit("a", 1));
}

BOOST_AUTO_TEST_CASE(a_key_is_any_bytes) {
    using namespace std::string_view_literals;
    std::string all;
    for (int c = 0; c != 256; ++c) all += static_cast<char>(c);
    std::vector<std::string> const keys = {"",
                                           std::string("\0"sv),
                                           std::string("\0\0"sv),
                                           std::string("a\0b"sv),
                                           std::string("a\0c"sv),
                                           "a",
                                           "a ",
                                           "A",
                                           "\xff",
                                           "\xff\xfe",
                                           "\x7f",
                                           "\x80",
                                           all,
                                           all + "x",
                                           "\r\n{}"};
    holdfast::fence_gate gate(keys.size());
    for (std::size_t i = 0; i != keys.size(); ++i) {
        BOOST_TEST(gate.admit(keys[i], 100 + i));
    }
    BOOST_TEST(gate.size() == keys.size());
    for (std::size_t i = 0; i != keys.size(); ++i) {
        BOOST_TEST(!gate.admit(keys[i], 99 + i));
        BOOST_TEST(gate.admit(keys[i], 100 + i));
    }
    BOOST_TEST(gate.admit(std::string_view(), 200)); // the empty key needs no buffer
    BOOST_TEST(!gate.admit("", 199));
    BOOST_TEST(gate.size() == keys.size());
}

BOOST_AUTO_TEST_CASE(a_key_is_copied) {
    holdfast::fence_gate gate(10);
    for (std::size_t const size : {3U, 100U}) {
        std::string buffer(size, 'a');
        BOOST_TEST(gate.admit(buffer, 10));
        buffer.assign(size, 'b');
        BOOST_TEST(gate.admit(buffer, 5));
        BOOST_TEST(!gate.admit(std::string(size, 'a'), 9));
    }
}

BOOST_AUTO_TEST_CASE(a_long_key_is_told_from_one_that_differs_in_its_last_byte) {
    std::string const a(1'000'000, 'x');
    auto b = a;
    b.back() = 'y';
    holdfast::fence_gate gate(10);
    BOOST_TEST(gate.admit(a, 10));
    BOOST_TEST(gate.admit(b, 5));
    BOOST_TEST(!gate.admit(a, 9));
    BOOST_TEST(gate.admit(b, 6));
}

BOOST_AUTO_TEST_CASE(with_room_for_every_key_it_decides_as_one_that_never_forgets) {
    for (traffic const t :
         {traffic{1, 1, 10}, {7, 7, 20}, {1'000, 1'000, 3'000}, {50'000, 50'000, 10'000}}) {
        BOOST_TEST_CONTEXT(t.keys << " keys") {
            holdfast::fence_gate gate(t.max_keys);
            unbounded reference;
            requests random(1, t.keys, t.lateness);
            std::size_t rejected = 0;
            for (int i = 0; i != 100'000; ++i) {
                auto const [key, fence] = random.next();
                auto const expected = reference.admit(key, fence);
                rejected += expected ? 0 : 1;
                BOOST_REQUIRE_MESSAGE(gate.admit(key, fence) == expected,
                                      key << " with " << fence << " in step " << i);
            }
            BOOST_TEST(gate.size() == reference.size());
            BOOST_TEST(gate.floor() == 0U);
            BOOST_TEST(rejected > 100U); // otherwise the comparison shows nothing
        }
    }
}

BOOST_AUTO_TEST_CASE(what_one_that_never_forgets_rejects_is_rejected_whatever_was_forgotten) {
    for (traffic const t : {traffic{2, 1, 10},
                            {7, 3, 20},
                            {20, 15, 100},
                            {1'000, 1, 3'000},
                            {1'000, 100, 3'000},
                            {50'000, 1'000, 5'000}}) {
        BOOST_TEST_CONTEXT(t.max_keys << " of " << t.keys << " keys") {
            holdfast::fence_gate gate(t.max_keys);
            unbounded reference;
            requests random(2, t.keys, t.lateness);
            std::size_t late = 0, kept_out = 0;
            std::uint64_t floor = 0, greatest = 0;
            for (int i = 0; i != 100'000; ++i) {
                auto const [key, fence] = random.next();
                auto const may = reference.admit(key, fence);
                auto const said = gate.admit(key, fence);
                BOOST_REQUIRE_MESSAGE(may || !said, key << " with " << fence << " in step " << i);
                late += may ? 0 : 1;
                kept_out += may && !said ? 1 : 0;
                if (said) greatest = std::max(greatest, fence);
                BOOST_REQUIRE(gate.floor() >= floor);
                BOOST_REQUIRE(gate.greatest() == greatest);
                BOOST_REQUIRE(gate.size() <= t.max_keys);
                floor = gate.floor();
            }
            BOOST_TEST(gate.size() == t.max_keys);
            BOOST_TEST(late > 100U); // otherwise the comparison shows nothing
            // More than max_keys other keys can shut out a holder with a current lease.
            if (t.keys > t.max_keys + 1)
                BOOST_TEST(kept_out > 100U);
            else
                BOOST_TEST(kept_out == 0U);
        }
    }
}

// The gate forgets no more than it must: the floor is the greatest fence for which max_keys leaves
// no room.
BOOST_AUTO_TEST_CASE(the_floor_is_the_greatest_fence_for_which_there_is_no_room) {
    for (traffic const t :
         {traffic{1, 1, 10}, {2, 1, 10}, {7, 3, 20}, {20, 15, 100}, {100, 40, 150}}) {
        BOOST_TEST_CONTEXT(t.max_keys << " of " << t.keys << " keys") {
            holdfast::fence_gate gate(t.max_keys);
            unbounded admitted;
            requests random(3, t.keys, t.lateness);
            for (int i = 0; i != 100'000; ++i) {
                auto const [key, fence] = random.next();
                auto const expected = fence != 0 && fence >= admitted.greatest_of(key) &&
                                      (admitted.above(fence) <= t.max_keys);
                BOOST_REQUIRE_MESSAGE(gate.admit(key, fence) == expected,
                                      key << " with " << fence << " in step " << i);
                if (expected) admitted.admit(key, fence);
                BOOST_REQUIRE(gate.floor() == admitted.nth_greatest(t.max_keys));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_is_late_is_rejected_through_any_number_of_restarts) {
    for (traffic const t : {traffic{2, 1, 10}, {7, 7, 20}, {1'000, 100, 3'000}}) {
        BOOST_TEST_CONTEXT(t.max_keys << " of " << t.keys << " keys") {
            holdfast::fence_gate gate(t.max_keys);
            unbounded reference;
            requests random(4, t.keys, t.lateness);
            std::size_t late = 0, admitted = 0, restarts = 0;
            for (int i = 0; i != 100'000; ++i) {
                if (random.below(200) == 0) {
                    gate = holdfast::fence_gate(t.max_keys, gate.greatest());
                    ++restarts;
                }
                auto const [key, fence] = random.next();
                auto const may = reference.admit(key, fence);
                auto const said = gate.admit(key, fence);
                BOOST_REQUIRE_MESSAGE(may || !said, key << " with " << fence << " in step " << i);
                late += may ? 0 : 1;
                admitted += said ? 1 : 0;
            }
            BOOST_TEST(late > 100U);
            BOOST_TEST(admitted > 100U);
            BOOST_TEST(restarts > 100U);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
