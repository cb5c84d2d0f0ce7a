// The releases that are kept for an instance: their number, their life, and the order in which they
// leave.
#include "protocol/rules.hpp"
#include "redis/server/pending_releases.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::lease_clock;
using holdfast::protocol::command;

namespace {

class lock final : public reply_handler {
public:
    lock(char name, std::chrono::milliseconds ttl)
        : name_(name)
        , ttl_(ttl) {}

    command_args arguments(command) const noexcept override {
        return {.key = {&name_, 1}, .token = "t", .ttl = ttl_};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const&) override {}

private:
    void recycle() noexcept override {}
    char name_;
    std::chrono::milliseconds ttl_;
};

struct counted {
    instance_counts counts;
    std::size_t shown = 77;
};

/// With the count of those that it dropped, and the number that it has shown last.
struct release_store : counted, holdfast::redis::pending_releases {
    explicit release_store(std::size_t most)
        : pending_releases(most, counts, [this](std::size_t count) { shown = count; }) {}
    std::uint64_t dropped() const { return counts.releases_dropped; }
};

lease_clock::time_point const t0{1h};
constexpr lease_clock::duration tick{1};
constexpr auto ttl = 1'000ms;
/// The longest life of a key: its ttl and the drift of the clocks.
auto const life = ttl + holdfast::protocol::redlock_rules::drift(ttl);

std::string taken(release_store& k) {
    std::string names;
    k.take([&](reply_handler_ptr owner, lease_clock::time_point) {
        names += owner->arguments(command::release).key;
    });
    BOOST_TEST(k.size() == 0U);
    BOOST_TEST(k.shown == 0U);
    return names;
}

} // namespace

BOOST_AUTO_TEST_SUITE(pending_releases)

BOOST_AUTO_TEST_CASE(they_leave_in_the_order_in_which_they_came) {
    lock a('a', ttl), b('b', ttl), c('c', ttl);
    release_store k(3);
    for (auto* l : {&b, &c, &a}) k.keep(l, t0);
    BOOST_TEST(k.size() == 3U);
    BOOST_TEST(k.shown == 3U);
    BOOST_TEST(k.dropped() == 0U);
    BOOST_TEST(taken(k) == "bca");
    BOOST_TEST(taken(k).empty());
}

BOOST_AUTO_TEST_CASE(the_oldest_goes_for_one_too_many) {
    lock a('a', ttl), b('b', ttl), c('c', ttl);
    release_store k(2);
    k.keep(&a, t0);
    k.keep(&b, t0);
    BOOST_TEST(k.dropped() == 0U);
    k.keep(&c, t0);
    BOOST_TEST(k.dropped() == 1U);
    BOOST_TEST(k.size() == 2U);
    BOOST_TEST(k.shown == 2U);
    BOOST_TEST(taken(k) == "bc");
}

BOOST_AUTO_TEST_CASE(a_release_goes_when_its_key_has_expired_at_the_latest) {
    lock a('a', ttl), b('b', 2 * ttl), c('c', ttl);
    release_store k(3);
    k.keep(&a, t0);
    k.keep(&b, t0);
    k.keep(&c, t0 + tick);
    k.drop_expired(t0 + life - tick);
    BOOST_TEST(k.size() == 3U);
    k.drop_expired(t0 + life);
    BOOST_TEST(k.size() == 2U);
    BOOST_TEST(k.shown == 2U);
    k.drop_expired(t0 + life + tick);
    BOOST_TEST(taken(k) == "b");
}

// A SET that was under way at the end of the connection may have set the key as late as that.
BOOST_AUTO_TEST_CASE(a_key_may_be_as_young_as_the_end_of_the_session) {
    lock a('a', ttl), b('b', ttl);
    release_store k(2);
    k.keep(&a, t0);
    k.session_ended(t0 + 5s);
    k.keep(&b, t0 + 6s);
    k.drop_expired(t0 + 5s + life - tick);
    BOOST_TEST(k.size() == 2U);
    k.drop_expired(t0 + 5s + life);
    BOOST_TEST(k.size() == 1U);
    k.drop_expired(t0 + 6s + life - tick);
    BOOST_TEST(taken(k) == "b");
}

BOOST_AUTO_TEST_CASE(a_release_that_cannot_be_sent_stays) {
    lock a('a', ttl), b('b', ttl), c('c', ttl);
    release_store k(3);
    for (auto* l : {&a, &b, &c}) k.keep(l, t0);
    std::string sent;
    auto const send = [&](reply_handler_ptr owner, lease_clock::time_point) {
        if (owner.get() == &b) throw 1;
        sent += owner->arguments(command::release).key;
    };
    BOOST_CHECK_THROW(k.take(send), int);
    BOOST_TEST(sent == "a");
    BOOST_TEST(k.shown == 2U);
    BOOST_TEST(taken(k) == "bc");
}

BOOST_AUTO_TEST_CASE(since_when_it_is_kept_travels_with_it) {
    lock a('a', ttl);
    release_store k(1);
    k.keep(&a, t0 + 7s);
    k.take(
        [&](reply_handler_ptr, lease_clock::time_point since) { BOOST_TEST((since == t0 + 7s)); });
    for (auto const passed : {0ms, 1ms, 3'600'000ms}) {
        for (auto const from : {t0, t0 + 24h * 49, t0 + 24h * 50}) {
            BOOST_TEST((time_of(short_time(from), from + passed) == from));
        }
    }
}

BOOST_AUTO_TEST_CASE(refused_ones_are_due_after_pauses_that_grow_until_one_is_accepted) {
    lock a('a', ttl);
    release_store k(9);
    BOOST_TEST(!k.due(t0));
    BOOST_TEST(k.keep_refused(&a, t0, t0));
    auto const first = k.retry_at() - t0;
    BOOST_TEST(!k.keep_refused(&a, t0, t0)); // one pause for all
    BOOST_TEST(!k.due(t0 + first - tick));
    BOOST_TEST(k.due(t0 + first));
    BOOST_TEST(k.keep_refused(&a, t0, t0 + first));
    BOOST_TEST((k.retry_at() == t0 + 3 * first));
    k.accepted();
    BOOST_TEST(k.keep_refused(&a, t0, t0 + 3 * first));
    BOOST_TEST((k.retry_at() == t0 + 4 * first));
    BOOST_TEST(k.size() == 4U);
}

BOOST_AUTO_TEST_CASE(after_the_end_none_is_kept_and_none_counts_as_dropped) {
    lock a('a', ttl), b('b', ttl);
    release_store k(3);
    k.keep(&a, t0);
    k.stop();
    k.keep(&b, t0);
    BOOST_TEST(k.dropped() == 0U);
    BOOST_TEST(taken(k).empty());
}

BOOST_AUTO_TEST_SUITE_END()
