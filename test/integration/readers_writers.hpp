// Helpers for the tests of readers and writers: locks on the key "k", the keys beside it, and a
// ledger of who is inside.
#ifndef HOLDFAST_TEST_INTEGRATION_READERS_WRITERS_HPP
#define HOLDFAST_TEST_INTEGRATION_READERS_WRITERS_HPP

#include <holdfast/read_write_lock.hpp>

#include "integration/attempt.hpp"
#include "integration/nothing_left.hpp"
#include "integration/sections.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

inline std::string const readers_of_k = "{k}:readers", intent_on_k = "{k}:intent",
                         turn_on_k = "{k}:turn";

inline read_write_lock page(test_client& c, lock_options const& options = long_lived,
                            std::string_view key = "k") {
    return c.locks.make_read_write_lock(key, options);
}

/// The result of an acquire that does not wait.
inline std::pair<error, lease> try_to(test_client& c, lock const& on) {
    attempt a;
    a.start_try(on);
    BOOST_REQUIRE(c.until([&] { return a.done; }));
    return {std::move(a.how), std::move(a.held)};
}

inline lease hold(test_client& c, lock const& on) {
    attempt a;
    a.start(on);
    return wait_for_lease(c, a);
}
inline lease reads(test_client& c, lock_options const& options = long_lived) {
    return hold(c, page(c, options).read());
}
inline lease writes(test_client& c, lock_options const& options = long_lived) {
    return hold(c, page(c, options).write());
}

inline std::pair<error, lease> adopt(test_client& c, lock const& of, lease_token const& token) {
    auto done = false;
    std::pair<error, lease> got;
    c.locks.adopt(of, token, [&](error e, lease l) {
        got.first = std::move(e);
        got.second = std::move(l);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return got;
}

inline error downgrade(test_client& c, lease& held) {
    auto done = false;
    error result;
    held.downgrade([&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return result;
}

inline error extend(test_client& c, lease& held, std::chrono::milliseconds ttl) {
    auto done = false;
    error result;
    held.extend(ttl, [&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return result;
}

/// The number of members of the readers' set.
inline std::int64_t readers_at(server const& on) {
    return redis_cli(on).command({"ZCARD", readers_of_k}).integer();
}

/// Waits until all servers have the lease. One that has just learned the script, and answers last,
/// gets it with an extension.
inline lease everywhere(test_client& c, fleet const& servers, lease held) {
    BOOST_TEST(!c.extend(held));
    BOOST_REQUIRE(c.sees(servers, "k", true));
    return held;
}
inline lease reads_everywhere(test_client& c, fleet const& servers,
                              lock_options const& options = long_lived) {
    return everywhere(c, servers, reads(c, options));
}
inline lease writes_everywhere(test_client& c, fleet const& servers,
                               lock_options const& options = long_lived) {
    return everywhere(c, servers, writes(c, options));
}

/// The servers learn the scripts, also the one that answers last. Else it has no note of the first
/// writer that waits.
inline void teach(test_client& c, fleet const& servers) {
    for (auto const writer : {true, false}) {
        auto held = writer ? writes_everywhere(c, servers) : reads_everywhere(c, servers);
        BOOST_TEST(c.releases(held));
        BOOST_REQUIRE(c.sees(servers, "k", false));
    }
}

/// Waits until each server has a note of a writer that waits.
[[nodiscard]] inline bool is_noted(test_client& c, fleet const& servers) {
    return c.sees(servers, intent_on_k, true);
}

/// Asks the only server. All earlier answers come before this one.
inline void catch_up(test_client& c) {
    auto done = false;
    c.locks.inspect("k", [&](error const& e, key_report const&) {
        BOOST_TEST(!e, e.what());
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
}

/// A writer of `c` began to wait when the client had made so many rounds. Waits until it is quiet:
/// it has left its note at the only server, and waits there again. Before that it asks by itself.
inline void waits_quietly(test_client& c, std::uint64_t rounds_before) {
    BOOST_REQUIRE(c.until([&] { return c.locks.stats().rounds >= rounds_before + 4; }));
    catch_up(c);
}

inline std::string joined(std::vector<std::string> const& names) {
    std::string all;
    for (auto const& name : names) all += name + ' ';
    return all;
}

/// The keys that never expire, which there may not be.
inline std::string lasting_keys(redis_cli& cli) {
    auto all = cli.keys();
    std::erase_if(all, [&](std::string const& key) { return cli.pttl(key).count() != -1; });
    return joined(all);
}

/// Checks that no lease is left, and no key but the readers' turn, which goes with its ttl: readers
/// that have waited for a lock of another kind leave it behind. Nothing is without a ttl.
template <class Clients>
void check_only_turns_left(Clients& clients, fleet const& servers) {
    BOOST_TEST(clients.idle());
    for (server& instance : servers) {
        if (!instance.running()) continue;
        redis_cli cli(instance);
        std::vector<std::string> left;
        auto const none = [&] {
            left = lock_names(cli);
            std::erase_if(left, [](std::string const& key) { return key.ends_with(":turn"); });
            return left.empty();
        };
        auto const gone = clients.until(none);
        BOOST_TEST(gone, instance.address() << " has " << joined(left));
        BOOST_TEST(lasting_keys(cli) == "");
    }
}

inline void forget_turns(fleet const& servers) {
    for (server& each : servers) redis_cli(each).del(turn_on_k);
}

/// Who is inside, at this moment. A writer is alone.
class read_write_ledger {
public:
    void reader_enters() {
        if (++readers_ > most_readers_) most_readers_ = readers_.load();
        if (writers_ != 0) ++overlaps_;
        ++reads_;
    }
    void reader_leaves() {
        if (writers_ != 0) ++overlaps_;
        --readers_;
    }
    void writer_enters() {
        if (++writers_ != 1 || readers_ != 0) ++overlaps_;
        ++writes_;
    }
    void writer_leaves() {
        if (writers_ != 1 || readers_ != 0) ++overlaps_;
        --writers_;
    }
    std::size_t reads() const { return reads_; }
    std::size_t writes() const { return writes_; }
    std::size_t overlaps() const { return overlaps_; }
    int most_readers() const { return most_readers_; }

private:
    std::atomic<int> readers_ = 0, writers_ = 0, most_readers_ = 0;
    std::atomic<std::size_t> reads_ = 0, writes_ = 0, overlaps_ = 0;
};

} // namespace holdfast::test

#endif
