// The order of one process among locks on several keys, and how one of them takes its keys.
#include "protocol/waiting/key_line.hpp"
#include "protocol/waiting/set_approach.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace holdfast::protocol;

namespace {

/// The lines of a process, as the runtime keeps them.
struct lines {
    struct turn : key_turn {
        std::unique_ptr<key_place[]> places;
        std::string keys;
    };

    turn& make(std::string const& keys) {
        auto& t = *turns.emplace_back(std::make_unique<turn>());
        t.keys = keys;
        t.places = std::make_unique<key_place[]>(keys.size());
        return t;
    }
    auto line_of(turn& t) {
        return [this, &t](std::size_t i) -> key_line& { return all[t.keys[i]]; };
    }
    auto uses() {
        return [this](key_line& l) { return in_use.contains(name_of(l)); };
    }
    turn& enter(std::string const& keys) {
        auto& t = make(keys);
        t.key_turn::enter({t.places.get(), keys.size()}, line_of(t), uses());
        return t;
    }
    turn& overtake(std::string const& keys) {
        auto& t = make(keys);
        t.key_turn::overtake({t.places.get(), keys.size()}, line_of(t), uses(),
                             [&](key_turn& o) { overtaken += static_cast<turn&>(o).keys + ' '; });
        return t;
    }
    /// Returns the keys of the turns that are first everywhere since.
    std::string leave(turn& t) {
        std::string ready;
        t.leave([&](key_line& l) { called += name_of(l); },
                [&](key_turn& next) { ready += static_cast<turn&>(next).keys + ' '; });
        return ready;
    }
    /// Those that are called join the queue of their key.
    void join(char key) {
        while (all[key].has_called()) all[key].take_called();
        in_use.insert(key);
    }
    std::string freed(char key) {
        in_use.erase(key);
        auto* const next = key_turn::freed(all[key]);
        return next == nullptr ? "" : static_cast<turn&>(*next).keys;
    }
    char name_of(key_line const& l) {
        for (auto const& [name, line] : all)
            if (&line == &l) return name;
        return '?';
    }

    std::map<char, key_line> all;
    std::set<char> in_use;
    std::string called, overtaken;
    std::vector<std::unique_ptr<turn>> turns;
};

} // namespace

BOOST_AUTO_TEST_SUITE(key_lines)

BOOST_AUTO_TEST_CASE(the_earliest_is_first_everywhere) {
    lines l;
    auto& ab = l.enter("ab");
    auto& bc = l.enter("bc");
    auto& ca = l.enter("ca");
    BOOST_TEST(ab.first_everywhere());
    BOOST_TEST(!bc.first_everywhere());
    BOOST_TEST(!ca.first_everywhere());
    BOOST_TEST(l.leave(ab) == "bc ");
    BOOST_TEST(l.leave(bc) == "ca ");
    BOOST_TEST(ca.first_everywhere());
    BOOST_TEST(l.leave(ca).empty());
}

BOOST_AUTO_TEST_CASE(one_that_leaves_before_its_time_lets_the_others_up) {
    lines l;
    auto& ab = l.enter("ab");
    auto& bc = l.enter("bc");
    auto& cd = l.enter("cd");
    BOOST_TEST(l.leave(bc) == "cd ");
    BOOST_TEST(cd.first_everywhere());
    BOOST_TEST(ab.first_everywhere());
    l.leave(ab);
    l.leave(cd);
}

BOOST_AUTO_TEST_CASE(a_key_in_use_must_become_free_first) {
    lines l;
    l.in_use = {'b'};
    auto& ab = l.enter("ab");
    BOOST_TEST(!ab.first_everywhere());
    BOOST_TEST(l.freed('b') == "ab");
    BOOST_TEST(ab.first_everywhere());
    BOOST_TEST(l.freed('b').empty()); // heard of twice
    BOOST_TEST(ab.first_everywhere());
    l.leave(ab);
}

BOOST_AUTO_TEST_CASE(acquires_of_one_key_wait_behind_and_go_before_those_that_come_later) {
    lines l;
    waiter one, two;
    auto& ab = l.enter("ab");
    l.all['a'].wait_behind(one);
    auto& ac = l.enter("ac");
    l.all['a'].wait_behind(two);
    // `one` comes next for the key `a`.
    BOOST_TEST(l.leave(ab).empty());
    BOOST_TEST(l.called == "a");
    BOOST_TEST(!ac.first_everywhere());
    BOOST_TEST(l.freed('a').empty()); // it has not joined the queue yet
    l.join('a');
    BOOST_TEST(!ac.first_everywhere());
    BOOST_TEST(two.is_linked());
    BOOST_TEST(l.freed('a') == "ac");
    l.leave(ac);
    BOOST_TEST(l.called == "aa");
    l.join('a');
    BOOST_TEST(!two.is_linked());
}

BOOST_AUTO_TEST_CASE(a_place_that_is_given_up_leaves_its_waiters_behind_the_one_before) {
    lines l;
    waiter one, two;
    auto& ab = l.enter("ab");
    auto& ac = l.enter("ac");
    l.all['a'].wait_behind(one);
    auto& ad = l.enter("ad");
    l.all['a'].wait_behind(two);
    l.leave(ac);
    l.leave(ad);
    BOOST_TEST(one.is_linked());
    key_line::leave(one); // cancelled
    BOOST_TEST(!one.is_linked());
    BOOST_TEST(two.is_linked());
    BOOST_TEST(l.leave(ab).empty());
    BOOST_TEST(l.called == "a");
    l.join('a');
}

BOOST_AUTO_TEST_CASE(a_lease_goes_on_to_the_same_keys_right_behind) {
    lines l;
    auto& one = l.enter("ab");
    auto& two = l.enter("ab");
    auto& other = l.enter("b");
    auto& three = l.enter("ab");
    BOOST_TEST(one.is_followed_by(two));
    BOOST_TEST(!one.is_followed_by(three));
    BOOST_TEST(!two.is_followed_by(three)); // `other` is between
    one.hand_over_to(two);
    BOOST_TEST(two.first_everywhere());
    l.leave(other);
    BOOST_TEST(two.is_followed_by(three));
    waiter w;
    l.all['b'].wait_behind(w); // behind the third
    BOOST_TEST(two.is_followed_by(three));
    two.hand_over_to(three);
    BOOST_TEST(three.first_everywhere());
    BOOST_TEST(l.leave(three).empty());
    l.join('b');
    BOOST_TEST(!w.is_linked());
}

// The queue of `c` belongs to an acquire that is in no line.
BOOST_AUTO_TEST_CASE(a_place_that_was_never_ready_leaves_none_ready_behind_it) {
    lines l;
    l.in_use = {'c'};
    auto& one = l.enter("ac");
    auto& two = l.enter("bc");
    BOOST_TEST(l.leave(one).empty());
    BOOST_TEST(!two.first_everywhere());
    BOOST_TEST(l.freed('c') == "bc");
    l.leave(two);
}

BOOST_AUTO_TEST_CASE(one_that_is_called_goes_before_all_that_come_later) {
    lines l;
    waiter one, two;
    auto& ab = l.enter("ab");
    l.all['a'].wait_behind(one);
    l.leave(ab);
    l.all['a'].wait_behind(two);
    auto& ac = l.enter("ac");
    BOOST_TEST(!ac.first_everywhere());
    BOOST_TEST(&l.all['a'].take_called() == &one);
    BOOST_TEST(&l.all['a'].take_called() == &two);
    l.in_use.insert('a');
    BOOST_TEST(!ac.first_everywhere());
    BOOST_TEST(l.freed('a') == "ac");
    l.leave(ac);
}

BOOST_AUTO_TEST_CASE(a_waiter_for_one_key_is_not_passed_by_a_hand_over) {
    lines l;
    auto& one = l.enter("ab");
    waiter w;
    l.all['b'].wait_behind(w);
    auto& two = l.enter("ab");
    BOOST_TEST(!one.is_followed_by(two));
    l.leave(one);
    BOOST_TEST(!two.first_everywhere());
    l.join('b');
    l.leave(two);
}

BOOST_AUTO_TEST_CASE(one_that_overtakes_is_first_everywhere_and_the_others_wait_behind) {
    lines l;
    auto& ab = l.enter("ab");
    auto& bc = l.enter("bc");
    auto& cd = l.overtake("cd");
    BOOST_TEST(l.overtaken.empty()); // `bc` has waited
    BOOST_TEST(cd.first_everywhere());
    BOOST_TEST(ab.first_everywhere());
    auto& bd = l.overtake("bd");
    BOOST_TEST(l.overtaken == "ab ");
    BOOST_TEST(bd.first_everywhere());
    BOOST_TEST(cd.first_everywhere());
    BOOST_TEST(!ab.first_everywhere());
    auto& a = l.overtake("a");
    BOOST_TEST(l.overtaken == "ab "); // once
    BOOST_TEST(l.leave(bd).empty());
    BOOST_TEST(!ab.first_everywhere());
    BOOST_TEST(l.leave(a) == "ab ");
    BOOST_TEST(l.leave(cd).empty());
    BOOST_TEST(l.leave(ab) == "bc ");
    l.leave(bc);
}

// What is in use was before it, and stays before those behind it.
BOOST_AUTO_TEST_CASE(one_that_overtakes_a_queue_leaves_the_queue_before_the_others) {
    for (auto const free_first : {false, true}) {
        lines l;
        l.in_use = {'b'};
        auto& first = l.overtake("ab");
        BOOST_TEST(first.first_everywhere());
        auto& next = l.enter("ab");
        BOOST_TEST(!first.is_followed_by(next));
        if (free_first) {
            BOOST_TEST(l.freed('b').empty());
            BOOST_TEST(first.is_followed_by(next));
        }
        BOOST_TEST(l.leave(first) == (free_first ? "ab " : ""));
        BOOST_TEST(next.first_everywhere() == free_first);
        if (!free_first) BOOST_TEST(l.freed('b') == "ab");
        l.leave(next);
    }
}

// It has become first everywhere before, and may have acquires of its own in the queue of a key.
BOOST_AUTO_TEST_CASE(one_that_was_overtaken_waits_for_no_queue_afterwards) {
    lines l;
    auto& next = l.enter("ab");
    l.in_use = {'b'};
    auto& first = l.overtake("bc");
    BOOST_TEST(first.is_followed_by(next) == false);
    auto& same = l.overtake("ab");
    BOOST_TEST(l.overtaken == "ab ");
    BOOST_TEST(l.leave(first).empty());
    BOOST_TEST(same.is_followed_by(next));
    same.hand_over_to(next);
    BOOST_TEST(next.first_everywhere());
    l.leave(next);
}

// Its servers have answered before it could call off its try.
BOOST_AUTO_TEST_CASE(one_that_has_won_although_it_was_overtaken_hands_nothing_on) {
    lines l;
    auto& won = l.enter("ab");
    auto& next = l.enter("ab");
    auto& first = l.overtake("bc");
    BOOST_TEST(!won.is_followed_by(next));
    BOOST_TEST(l.leave(won).empty());
    BOOST_TEST(!next.first_everywhere());
    BOOST_TEST(l.leave(first) == "ab ");
    // Neither does one that has overtaken, behind another one.
    auto& other = l.overtake("bc");
    auto& same = l.overtake("ab");
    BOOST_TEST(same.first_everywhere());
    BOOST_TEST(!same.is_followed_by(next));
    BOOST_TEST(l.leave(other).empty());
    BOOST_TEST(same.is_followed_by(next));
    same.hand_over_to(next);
    BOOST_TEST(next.first_everywhere());
    l.leave(next);
}

BOOST_AUTO_TEST_CASE(waiters_for_one_key_come_next_when_one_that_overtook_leaves) {
    lines l;
    waiter one;
    auto& first = l.overtake("ab");
    l.all['a'].wait_behind(one);
    auto& next = l.enter("ac");
    BOOST_TEST(l.leave(first).empty());
    BOOST_TEST(l.called == "a");
    auto& second = l.overtake("ab"); // before it has joined the queue
    BOOST_TEST(second.first_everywhere());
    l.join('a');
    BOOST_TEST(l.leave(second).empty());
    BOOST_TEST(!next.first_everywhere());
    BOOST_TEST(l.freed('a') == "ac");
    l.leave(next);
}

BOOST_AUTO_TEST_CASE(after_its_patience_it_goes_in_order) {
    set_approach a(3, 2);
    a.refused();
    BOOST_TEST((a.step() == set_step::together));
    a.refused();
    BOOST_TEST((a.step() == set_step::in_order));
    for (unsigned i = 0; i < 3; ++i) {
        BOOST_TEST(a.next_key() == i);
        BOOST_TEST((a.step() == set_step::in_order));
        a.took_key();
    }
    BOOST_TEST((a.step() == set_step::conversion));
    BOOST_TEST((a.pause(~std::uint64_t{0}) == duration::zero()));
    // Its patience is over already. The pauses grow.
    a.refused();
    BOOST_TEST((a.pause(~std::uint64_t{0}) > duration::zero()));
    BOOST_TEST((a.step() == set_step::together));
    a.refused();
    BOOST_TEST((a.step() == set_step::in_order));
    a.took_key();
    a.start_over();
    BOOST_TEST(a.next_key() == 0U);
}

BOOST_AUTO_TEST_CASE(without_patience_it_goes_in_order_at_once) {
    set_approach a(2, 0);
    BOOST_TEST((a.step() == set_step::in_order));
    a.took_key();
    a.start_over();
    a.refused();
    BOOST_TEST((a.step() == set_step::in_order));
}

BOOST_AUTO_TEST_SUITE_END()
