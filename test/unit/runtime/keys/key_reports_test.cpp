// What the answers of all instances say together about a key with readers and writers, or with
// permits.
#include "runtime/keys/surveyor.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;
using runtime::evaluate;
using runtime::shows_change;

namespace {

using time = std::optional<std::chrono::milliseconds>;

key_user user(std::string digest, time left = 5s) {
    return {.digest = digest, .holder = "label-" + digest, .ttl_left = left};
}

key_answer shared(std::string address, std::vector<key_user> readers) {
    auto const count = readers.size();
    return {.address = std::move(address),
            .found = key_answer::kind::readers,
            .digest = "mark",
            .holder = "readers",
            .ttl_left = 15s,
            .ttl_known = true,
            .readers = std::move(readers),
            .reader_count = count};
}
key_user permit(std::string digest, unsigned slot, time left = 5s) {
    auto u = user(std::move(digest), left);
    u.slot = slot;
    return u;
}
key_answer counted(std::string address, std::vector<key_user> permits) {
    auto const count = permits.size();
    return {.address = std::move(address),
            .found = key_answer::kind::permits,
            .digest = "permits",
            .holder = "permits",
            .ttl_left = 15s,
            .ttl_known = true,
            .permits = std::move(permits),
            .permit_count = count};
}
key_answer absent(std::string address) {
    return {.address = std::move(address), .found = key_answer::kind::absent};
}
key_answer held(std::string address, std::string digest) {
    return {.address = std::move(address),
            .found = key_answer::kind::present,
            .digest = std::move(digest),
            .holder = "web-7",
            .ttl_left = 9s,
            .ttl_known = true};
}

key_report of(std::vector<key_answer> all) {
    key_report r;
    r.key = "k";
    r.quorum = static_cast<unsigned>(all.size() / 2 + 1);
    r.instances = std::move(all);
    evaluate(r);
    return r;
}

std::vector<std::string> digests(key_report const& r) {
    std::vector<std::string> all;
    for (auto const& each : r.readers) all.push_back(each.digest);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_reports)

// Each reader has a quorum of its own. One that too few instances know does not hold the lock.
BOOST_AUTO_TEST_CASE(the_readers_are_those_that_a_quorum_knows) {
    auto const r = of({shared("a", {user("x", 9s), user("y", 1s)}),
                       shared("b", {user("x", 8s), user("z", 9s)}),
                       shared("c", {user("z", 7s), user("failed", 9s)})});
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(r.shared());
    BOOST_TEST(r.holder == "readers");
    BOOST_TEST((digests(r) == std::vector<std::string>{"x", "z"}));
    BOOST_TEST((r.readers[0].ttl_left == 8s));
    BOOST_TEST((r.readers[1].ttl_left == 7s));
    BOOST_TEST(r.readers[0].holder == "label-x");
    BOOST_TEST((r.reader_count == 2U));
    BOOST_TEST((r.ttl_left == 15s));
    BOOST_TEST(!r.since.has_value());
}

BOOST_AUTO_TEST_CASE(a_reader_whose_time_one_instance_hides_has_none) {
    auto const r = of({shared("a", {user("x", 9s)}), shared("b", {user("x", {})}), absent("c")});
    BOOST_REQUIRE(r.readers.size() == 1U);
    BOOST_TEST(!r.readers[0].ttl_left.has_value());
}

BOOST_AUTO_TEST_CASE(a_writer_and_readers_on_one_half_each_are_no_holder) {
    auto const r = of({shared("a", {user("x")}), held("b", "t"), absent("c")});
    BOOST_TEST((r.state == key_state::split), r);
    BOOST_TEST(!r.shared());
    BOOST_TEST(r.readers.empty());
    auto const written = of({shared("a", {user("x")}), held("b", "t"), held("c", "t")});
    BOOST_TEST((written.state == key_state::held), written);
    BOOST_TEST(!written.shared());
    BOOST_TEST(written.holder == "web-7");
}

// The key outlives the last reader, if nobody releases it. A set that is missing says nothing.
BOOST_AUTO_TEST_CASE(a_key_whose_readers_have_expired_is_left_over) {
    auto const expired = of({shared("a", {}), shared("b", {}), shared("c", {})});
    BOOST_TEST((expired.state == key_state::split), expired);
    BOOST_TEST((of({shared("a", {})}).state == key_state::split));
    auto lost = shared("c", {});
    lost.reader_count.reset();
    auto const one = of({shared("a", {user("x")}), shared("b", {}), lost});
    BOOST_TEST((one.state == key_state::held), one);
    BOOST_TEST(!one.reader_count.has_value());
    BOOST_TEST(one.readers.empty());
}

BOOST_AUTO_TEST_CASE(of_more_readers_than_are_shown_a_quorum_tells_the_number) {
    std::vector<key_answer> all;
    for (auto const& [address, count] :
         {std::pair<char const*, std::uint64_t>{"a", 100}, {"b", 300}, {"c", 200}}) {
        all.push_back(shared(address, {user("x")}));
        all.back().reader_count = count;
    }
    auto r = of(all);
    BOOST_TEST((r.reader_count == 200U));
    all[0].reader_count = all[1].reader_count = std::nullopt;
    r = of(all);
    BOOST_TEST(!r.reader_count.has_value());
    BOOST_TEST(r.readers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_writer_is_the_one_that_most_instances_name) {
    auto all = std::vector{absent("a"), absent("b"), absent("c")};
    BOOST_TEST(!of(all).writer.has_value());
    all[0].writer = user("", 9s);
    all[1].writer = all[2].writer = {.digest = {}, .holder = "w", .ttl_left = 3s};
    all[2].writer->ttl_left = 4s;
    auto const r = of(all);
    BOOST_TEST((r.state == key_state::free), r);
    BOOST_REQUIRE(r.writer.has_value());
    BOOST_TEST(r.writer->holder == "w");
    BOOST_TEST((r.writer->ttl_left == 4s));
}

BOOST_AUTO_TEST_CASE(those_who_come_and_go_are_a_change_and_their_times_are_none) {
    auto const before = of({shared("a", {user("x", 9s), user("y", 1s)}), absent("b"), absent("c")});
    auto same = before;
    std::swap(same.instances[0].readers[0], same.instances[0].readers[1]);
    same.instances[0].readers[0].ttl_left = 10s;
    same.instances[0].turn = readers_turn::open;
    BOOST_TEST(!shows_change(before, same));
    for (auto const change : {+[](key_answer& a) { a.readers[0].digest = "z"; },
                              +[](key_answer& a) { a.readers.pop_back(), a.reader_count = 1; },
                              +[](key_answer& a) { a.reader_count.reset(); },
                              +[](key_answer& a) { a.found = key_answer::kind::present; },
                              +[](key_answer& a) { a.writer = key_user{}; }}) {
        auto other = before;
        change(other.instances[0]);
        BOOST_TEST(shows_change(before, other));
    }
    auto many = before, later = before;
    many.instances[0].reader_count = later.instances[0].reader_count = 100;
    later.instances[0].readers[0].digest = "z";
    BOOST_TEST(!shows_change(many, later));
    later.instances[0].reader_count = 101;
    BOOST_TEST(shows_change(many, later));
}

//
// Permits
//

// A token that a minority has in another slot has a quorum in one.
BOOST_AUTO_TEST_CASE(the_permits_are_those_that_a_quorum_has_in_one_slot) {
    auto const r = of({counted("a", {permit("x", 0, 9s), permit("y", 1, 1s)}),
                       counted("b", {permit("z", 0), permit("y", 1, 2s), permit("w", 2)}),
                       counted("c", {permit("w", 4), permit("x", 0, 7s)})});
    BOOST_TEST((r.state == key_state::held), r);
    BOOST_TEST(r.counted());
    BOOST_TEST(!r.shared());
    BOOST_TEST(r.holder == "permits");
    BOOST_TEST((r.permit_count == 2U));
    BOOST_REQUIRE(r.permits.size() == 2U);
    BOOST_TEST(r.permits[0].digest == "x");
    BOOST_TEST((r.permits[0].slot == 0U));
    BOOST_TEST((r.permits[0].ttl_left == 7s));
    BOOST_TEST(r.permits[1].digest == "y");
    BOOST_TEST((r.permits[1].slot == 1U));
    BOOST_TEST((r.permits[1].ttl_left == 1s));
    BOOST_TEST((r.ttl_left == 15s));
    BOOST_TEST(!r.since.has_value());
    BOOST_TEST(r.readers.empty());
    BOOST_TEST(!r.reader_count.has_value());
    BOOST_TEST(r.to_string() ==
               "lock \"k\": held by 2 permits (0 label-x, 1 label-y), 15.0 s left (3 of 3 "
               "instances): a 2 permits, 15.0 s left; b 3 permits, 15.0 s left; c 2 permits, 15.0 "
               "s left");
    auto const one = of({counted("a", {permit("x", 3)})});
    BOOST_TEST(one.to_string() == "lock \"k\": held by a permit (3 label-x), 15.0 s left (1 of 1 "
                                  "instance): a a permit, 15.0 s left");
}

BOOST_AUTO_TEST_CASE(without_a_permit_that_a_quorum_has_nobody_holds_one) {
    for (auto const& all :
         {std::vector{counted("a", {permit("x", 0)}), counted("b", {permit("y", 0)}),
                      counted("c", {})},
          std::vector{counted("a", {}), counted("b", {}), counted("c", {})},
          std::vector{counted("a", {permit("x", 0)}), held("b", "t"), absent("c")}}) {
        auto const r = of(all);
        BOOST_TEST((r.state == key_state::split), r);
        BOOST_TEST(!r.counted());
        BOOST_TEST(r.permits.empty());
        BOOST_TEST(!r.permit_count.has_value());
        BOOST_TEST(r.digest.empty());
    }
    auto const free = of({counted("a", {permit("x", 0)}), absent("b"), absent("c")});
    BOOST_TEST((free.state == key_state::free), free);
}

BOOST_AUTO_TEST_CASE(of_more_permits_than_are_shown_a_quorum_tells_the_number) {
    std::vector<key_answer> all;
    for (auto const& [address, count] :
         {std::pair<char const*, std::uint64_t>{"a", 100}, {"b", 300}, {"c", 200}}) {
        all.push_back(counted(address, {permit("x", 0)}));
        all.back().permit_count = count;
    }
    BOOST_TEST((of(all).permit_count == 200U));
}

BOOST_AUTO_TEST_CASE(permits_that_come_and_go_are_a_change_and_their_times_are_none) {
    auto const before = of({counted("a", {permit("x", 0), permit("y", 1)})});
    auto same = before;
    same.instances[0].permits[0].ttl_left = 10s;
    BOOST_TEST(!shows_change(before, same));
    for (auto const change : {+[](key_answer& a) { a.permits[0].digest = "z"; },
                              +[](key_answer& a) { a.permits[0].slot = 7; },
                              +[](key_answer& a) { a.permits.clear(), a.permit_count = 0; },
                              +[](key_answer& a) { a.permit_count = 70; }}) {
        auto after = before;
        change(after.instances[0]);
        BOOST_TEST(shows_change(before, after));
    }
}

BOOST_AUTO_TEST_SUITE_END()
