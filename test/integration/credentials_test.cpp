// Credentials of a source: asked for before each connection and before they end, and given to the
// server on the open connection.
#include "redis/server/server_link.hpp"
#include "redis/wire/lock_command.hpp"

#include "integration/restricted.hpp"
#include "integration/run.hpp"
#include "support/fake_server.hpp"
#include "support/lone_owner.hpp"
#include "support/proxy.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

std::string const password(access::password);

/// Gets the answers to commands on keys.
class asker final : public redis::reply_handler {
public:
    struct result {
        std::uint32_t round;
        verdict said;
    };
    explicit asker(std::string key)
        : key_(std::move(key)) {}

    redis::command_args arguments(command) const noexcept override {
        return {.key = key_, .token = "0123456789abcdef0123456789abcdef", .ttl = 60s};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t round, redis::answer const& a) override {
        answers.push_back({round, a.verdict});
    }
    std::vector<result> answers;

private:
    void recycle() noexcept override {}
    std::string key_;
};

/// One instance with a source, and no client around it.
class world final : public lone_owner {
public:
    world(std::string const& server, credentials_source source,
          std::chrono::milliseconds connect_timeout = 20s)
        : connection_(std::make_shared<redis::server_link>(
              context_.get_executor(), 0U,
              redis::connection_options{.address = address(server),
                                        .instance_timeout = 20s,
                                        .connect_timeout = connect_timeout,
                                        .max_reconnect_delay = 50ms,
                                        .max_ttl = 60s,
                                        .on_restart = restart_policy::off,
                                        .detect_clock_jumps = false,
                                        .max_pending_releases = 100,
                                        .name = "test",
                                        .source = std::move(source)},
              static_cast<redis::instance_owner&>(*this))) {
        redis::in_turn(*this, [this] { connection_->start(); });
    }
    ~world() {
        if (!connection_) return;
        redis::in_turn(*this, [this] { connection_->stop(); });
        connection_.reset();
        context_.restart();
        context_.poll();
    }

    instance_status status() const { return connection_->status(); }
    bool is_up() const { return status().state == instance_state::up; }
    template <class Predicate>
    [[nodiscard]] bool until(Predicate happened) {
        return run_until(context_, happened, 30s);
    }
    void submit(command c, asker& a, std::uint32_t round) {
        redis::in_turn(*this, [&] {
            encoder_.start(c, a);
            BOOST_TEST(connection_->submit(encoder_, redis::reply_handler_ptr(&a), round));
        });
    }
    /// A lock of this key is acquired and released.
    void check_cycle(std::string const& key) {
        asker a(key);
        submit(command::acquire, a, 1);
        submit(command::release, a, 2);
        BOOST_REQUIRE(until([&] { return a.answers.size() == 2; }));
        BOOST_TEST((a.answers[0].said == verdict::yes));
        BOOST_TEST((a.answers[1].said == verdict::yes));
    }
    std::string lack(degradation d) const {
        for (auto const& found : status().degradations) {
            if (found.kind == d) return found.message;
        }
        return {};
    }
    void end() {
        connection_->abandon();
        connection_.reset();
    }

private:
    void in_turn(turn_work& work) override {
        if (std::exchange(in_turn_, true)) return work.run();
        now_ = lease_clock::now();
        work.run();
        BOOST_TEST(connection_->flush());
        in_turn_ = false;
    }
    lease_clock::time_point time() const noexcept override { return now_; }

    asio::io_context context_{1};
    redis::encoder encoder_;
    lease_clock::time_point now_ = lease_clock::now();
    bool in_turn_ = false;
    std::shared_ptr<redis::server_link> connection_;
};

auto in_a_while(std::chrono::milliseconds d) {
    return std::chrono::system_clock::now() + d;
}

/// Says which users have a connection by the name "test", by number of the connection.
std::vector<std::pair<std::string, std::string>> users_of(redis_cli& admin) {
    std::vector<std::pair<std::string, std::string>> all;
    auto const list = admin.command({"CLIENT", "LIST"}).string();
    auto const field = [](std::string const& line, std::string const& name) {
        auto const at = line.find(' ' + name + '=');
        if (at == line.npos) return std::string();
        auto const begin = at + name.size() + 2;
        return line.substr(begin, line.find(' ', begin) - begin);
    };
    for (std::size_t at = 0; at < list.size();) {
        auto const end = std::min(list.find('\n', at), list.size());
        auto const line = ' ' + list.substr(at, end - at);
        if (field(line, "name") == "test") all.emplace_back(field(line, "id"), field(line, "user"));
        at = end + 1;
    }
    return all;
}

/// Another user with the same rights.
void add_user(restricted& r, std::string const& name) {
    BOOST_REQUIRE(r.admin.command(access::set_user(name, r.redis.rules())).is_ok());
}

} // namespace

BOOST_AUTO_TEST_SUITE(credentials)

BOOST_AUTO_TEST_CASE(a_source_is_asked_before_each_connection) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        add_user(r, "second");
        auto asked = 0;
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            ++asked;
            reply({}, {.user = asked == 1 ? "app" : "second", .password = password});
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        BOOST_TEST(asked == 1);
        w.check_cycle("k");
        BOOST_REQUIRE(users_of(r.admin).size() == 1U);
        BOOST_TEST(users_of(r.admin)[0].second == "app");
        r.admin.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        BOOST_REQUIRE(w.until([&] { return w.status().connections == 2 && w.is_up(); }));
        BOOST_TEST(asked == 2);
        BOOST_TEST(users_of(r.admin)[0].second == "second");
        w.check_cycle("k");
    });
}

// The same connection, and all that was on it goes on.
BOOST_AUTO_TEST_CASE(before_their_end_new_ones_are_given_to_the_open_connection) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        add_user(r, "second");
        auto asked = 0;
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            // Asked again after 36 % at the earliest, and after a second.
            reply({}, {.user = ++asked == 1 ? "app" : "second",
                       .password = password,
                       .valid_until = in_a_while(asked == 1 ? 2s : 1h)});
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        asker held("k");
        w.submit(command::acquire, held, 1);
        BOOST_REQUIRE(w.until([&] { return held.answers.size() == 1; }));
        auto const before = users_of(r.admin);
        BOOST_REQUIRE(before.size() == 1U);
        BOOST_TEST(before[0].second == "app");
        BOOST_REQUIRE(w.until([&] { return users_of(r.admin)[0].second == "second"; }));
        BOOST_TEST(users_of(r.admin)[0].first == before[0].first);
        BOOST_TEST(w.status().connections == 1U);
        BOOST_TEST(asked == 2);
        BOOST_TEST(w.status().degradations.empty());
        w.submit(command::release, held, 2);
        BOOST_REQUIRE(w.until([&] { return held.answers.size() == 2; }));
        BOOST_TEST((held.answers[1].said == verdict::yes));
    });
}

BOOST_AUTO_TEST_CASE(a_source_that_fails_leaves_the_old_ones_and_that_is_told) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        auto asked = 0;
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            switch (++asked) {
            case 1:
                return reply({},
                             {.user = "app", .password = password, .valid_until = in_a_while(1s)});
            case 2:
                return reply(asio::error::connection_refused, {});
            case 3:
                throw std::runtime_error(password);
            default:
                return reply({}, {.user = "app", .password = password});
            }
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        auto const told = [&] { return w.lack(degradation::old_credentials); };
        BOOST_REQUIRE(w.until([&] { return !told().empty(); }));
        BOOST_TEST(contains(told(), "credentials_source: Connection refused"), told());
        w.check_cycle("k");
        BOOST_REQUIRE(w.until([&] { return told().empty(); })); // 1 s, and then 2 s later
        BOOST_TEST(asked == 4);
        BOOST_TEST(w.status().connections == 1U);
        w.check_cycle("k");
    });
}

BOOST_AUTO_TEST_CASE(credentials_that_the_server_refuses_leave_the_old_ones_and_that_is_told) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        auto asked = 0;
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            ++asked;
            reply({}, {.user = "app",
                       .password = asked == 2 ? "not-the-password" : password,
                       .valid_until = in_a_while(asked == 1 ? 1s : 1h)});
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        auto const told = [&] { return w.lack(degradation::old_credentials); };
        BOOST_REQUIRE(w.until([&] { return !told().empty(); }));
        BOOST_TEST(contains(told(), "AUTH: WRONGPASS"), told());
        w.check_cycle("k");
        BOOST_TEST(w.is_up());
        BOOST_REQUIRE(w.until([&] { return told().empty(); }));
        BOOST_TEST(asked == 3);
        BOOST_TEST(w.status().connections == 1U);
    });
}

BOOST_AUTO_TEST_CASE(without_any_credentials_there_is_no_connection) {
    restricted r(*find_server(default_server().name));
    proxy way(r.redis);
    auto works = false;
    auto asked = 0;
    world w(way.address(), [&](credentials_reply const& reply) {
        ++asked;
        if (!works) return reply(asio::error::host_not_found, {});
        reply({}, {.user = "app", .password = password});
    });
    BOOST_REQUIRE(w.until([&] { return w.status().state == instance_state::down; }));
    BOOST_TEST((w.status().reason == errc::access_denied));
    BOOST_TEST(contains(w.status().message, "no credentials: credentials_source: "),
               w.status().message);
    BOOST_REQUIRE(w.until([&] { return asked > 3; }));
    BOOST_TEST(way.accepted() == 0U);
    works = true;
    BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
    w.check_cycle("k");
}

BOOST_AUTO_TEST_CASE(an_empty_password_of_a_source_is_a_failure) {
    restricted r(*find_server(default_server().name));
    std::string given;
    auto asked = 0;
    world w(r.redis.address(), [&](credentials_reply const& reply) {
        ++asked;
        reply({}, {.user = "app",
                   .password = given,
                   .valid_until = std::chrono::system_clock::now() + 1s});
    });
    BOOST_REQUIRE(w.until([&] { return w.status().state == instance_state::down; }));
    BOOST_TEST((w.status().reason == errc::access_denied));
    BOOST_TEST(w.status().message == "no credentials: credentials_source: the password is empty");
    BOOST_TEST(w.status().connections == 0U);
    given = password;
    BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
    // The earlier ones stay.
    given.clear();
    BOOST_REQUIRE(w.until([&] { return !w.lack(degradation::old_credentials).empty(); }));
    BOOST_TEST(w.lack(degradation::old_credentials) == "credentials_source: the password is empty");
    w.check_cycle("k");
    auto const before = asked;
    BOOST_REQUIRE(w.until([&] { return asked > before; }));
    BOOST_TEST(w.status().connections == 1U);
}

BOOST_AUTO_TEST_CASE(a_source_that_throws_is_told_as_such) {
    restricted r(*find_server(default_server().name));
    world w(r.redis.address(),
            [](credentials_reply const&) { throw std::runtime_error("a secret"); });
    BOOST_REQUIRE(w.until([&] { return w.status().state == instance_state::down; }));
    BOOST_TEST(w.status().message == "no credentials: credentials_source: it threw an exception");
}

BOOST_AUTO_TEST_CASE(a_reply_counts_once_from_any_thread_and_not_after_the_end) {
    restricted r(*find_server(default_server().name));
    std::vector<credentials_reply> replies;
    std::vector<std::jthread> threads;
    {
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            replies.push_back(reply);
            for (auto n = 0; n < 4; ++n) {
                threads.emplace_back([reply] { reply({}, {.user = "app", .password = password}); });
            }
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        threads.clear();
        replies.front()(asio::error::access_denied, {});
        w.check_cycle("k");
        BOOST_TEST(replies.size() == 1U);
        BOOST_TEST(w.lack(degradation::old_credentials) == "");
    }
    replies.front()({}, {.user = "late", .password = "late"});
    // Nor after a context that was destroyed.
    std::vector<credentials_reply> unanswered;
    {
        world w(r.redis.address(),
                [&](credentials_reply const& reply) { unanswered.push_back(reply); });
        BOOST_TEST(unanswered.size() == 1U);
        w.end();
    }
    unanswered.front()({}, {.user = "late", .password = "late"});
}

BOOST_AUTO_TEST_CASE(a_source_that_is_silent_has_failed_after_the_time_to_connect) {
    restricted r(*find_server(default_server().name));
    auto asked = 0;
    credentials_reply first;
    world w(
        r.redis.address(),
        [&](credentials_reply const& reply) {
            if (++asked == 1) {
                first = reply;
            } else {
                reply({}, {.user = "app", .password = password});
            }
        },
        100ms);
    BOOST_REQUIRE(w.until([&] { return w.status().state == instance_state::down; }));
    BOOST_TEST(contains(w.status().message, "no reply in time"), w.status().message);
    first({}, {.user = "late", .password = "late"});
    BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
    w.check_cycle("k");
}

// After a refusal the server is left alone for longer and longer, but not with other credentials.
BOOST_AUTO_TEST_CASE(new_credentials_connect_at_once) {
    restricted r(*find_server(default_server().name));
    proxy way(r.redis);
    auto right = false;
    world w(way.address(), [&](credentials_reply const& reply) {
        reply({}, {.user = "app", .password = right ? password : "not-the-password"});
    });
    // The pauses are 1, 2, 4, 8 s, as the random bits are zero.
    BOOST_REQUIRE(w.until([&] { return way.accepted() == 4; }));
    BOOST_REQUIRE(w.until([&] { return w.status().state == instance_state::down; }));
    right = true;
    BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
    BOOST_TEST(way.accepted() == 5U);
}

// No reply is taken for that of another command.
BOOST_AUTO_TEST_CASE(a_reauthentication_amid_commands_shifts_no_reply) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        add_user(r, "second");
        auto asked = 0;
        world w(r.redis.address(), [&](credentials_reply const& reply) {
            ++asked;
            auto const wrong = asked % 3 == 0;
            reply({}, {.user = asked % 2 == 0 ? "app" : "second",
                       .password = wrong ? "not-the-password" : password,
                       .valid_until = in_a_while(1s)});
        });
        BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
        // Each key is acquired, refused to a second, and released.
        constexpr std::size_t keys = 250;
        std::deque<asker> all;
        auto const enough = [&] { return asked >= 5; };
        for (std::size_t batch = 0; !enough(); ++batch) {
            for (std::size_t n = 0; n < keys; ++n) {
                auto& a = all.emplace_back("k" + std::to_string(batch) + '.' + std::to_string(n));
                for (std::uint32_t round = 0; round < 4; ++round) {
                    w.submit(round < 2 ? command::acquire : command::release, a, round);
                }
            }
            BOOST_REQUIRE(w.until([&] { return all.back().answers.size() == 4; }));
            for (; !all.empty(); all.pop_front()) {
                auto const& a = all.front().answers;
                BOOST_REQUIRE(a.size() == 4U);
                for (std::uint32_t round = 0; round < 4; ++round) {
                    BOOST_REQUIRE(a[round].round == round);
                    auto const expected = round % 2 == 0 ? verdict::yes : verdict::no;
                    BOOST_REQUIRE((a[round].said == expected));
                }
            }
        }
        BOOST_TEST(w.status().connections == 1U);
    });
}

// The password of the address was masked, and no other.
BOOST_AUTO_TEST_CASE(no_password_of_the_session_is_in_a_message) {
    auto asked = 0;
    std::vector<std::string> const passwords{"first-secret", "second-secret", "third-secret"};
    // Quotes all that it was ever told.
    std::string told;
    fake_server fake([&](command_line const& words) {
        for (auto const& w : words) told += ' ' + w;
        if (is_command(words, "HELLO")) return resp::map({resp::bulk("proto"), resp::integer(3)});
        if (is_command(words, "AUTH")) return resp::error("WRONGPASS" + told);
        if (is_command(words, "INFO")) {
            return resp::bulk("redis_version:7.0.15\r\nrun_id:a\r\nrole:master\r\n");
        }
        if (is_command(words, "EVALSHA")) return resp::error("NOSCRIPT no");
        if (is_command(words, "SET")) return resp::error("NOPERM" + told);
        return resp::error("NOPERM" + told);
    });
    world w("redis://app:address-secret@" + fake.address(), [&](credentials_reply const& reply) {
        auto const n = std::min<std::size_t>(static_cast<std::size_t>(asked++), 2);
        reply({}, {.user = "app", .password = passwords[n], .valid_until = in_a_while(1s)});
    });
    BOOST_REQUIRE(w.until([&] { return w.is_up(); }));
    BOOST_REQUIRE(w.until([&] { return fake.count("AUTH") >= 2; }));
    asker a("k");
    w.submit(command::acquire, a, 1);
    BOOST_REQUIRE(w.until([&] { return a.answers.size() == 1; }));
    BOOST_REQUIRE(!w.status().degradations.empty());
    auto const check = [&](std::string const& text) {
        for (auto const& p : passwords) BOOST_TEST(!contains(text, p), text);
        BOOST_TEST(!contains(text, "address-secret"), text);
    };
    for (auto const& found : w.status().degradations) check(found.message);
    BOOST_TEST(w.lack(degradation::old_credentials) == "AUTH: WRONGPASS");
    BOOST_TEST(contains(w.lack(degradation::no_acquire), "***"));
}

BOOST_AUTO_TEST_SUITE_END()
