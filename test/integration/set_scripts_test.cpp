// The scripts of a lock on several keys, on real servers.
#include "redis/wire/kinds/lock_scripts.hpp"

#include "integration/script_client.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

texts const keys{"a", "b", "c"};
texts const counters{"{a}:fence", "{b}:fence", "{c}:fence"};

class set_client : public script_client {
public:
    using script_client::script_client;

    reply acquire(texts const& args, texts const& of = keys) {
        return run(redis::set_acquire_script, of, args);
    }
    reply fenced(texts const& args) {
        return run(redis::set_fenced_acquire_script, with_counters(), args);
    }
    reply raise(texts const& args) { return run(redis::set_raise_script, with_counters(), args); }
    reply raise_two_with_one_counter(texts const& args) {
        return run(redis::set_raise_script, {"a", "{a}", "{a}:fence", "{a}:fence"}, args);
    }
    reply extend(texts const& args) { return run(redis::set_extend_script, keys, args); }
    reply release(std::string const& token) {
        return run(redis::set_release_script, keys, {token});
    }
    reply inspect(std::string const& token) {
        return run(redis::set_inspect_script, keys, {token, "65"});
    }
    reply run(std::string_view script, texts const& of, texts const& args) {
        return cli.command(eval(script, of, args));
    }
    bool all_hold(std::string const& token) {
        for (auto const& key : keys) {
            if (admin.get(key) != token) return false;
        }
        return true;
    }

private:
    static texts with_counters() {
        auto all = keys;
        all.insert(all.end(), counters.begin(), counters.end());
        return all;
    }
};

template <class Test>
void with_each(Test test) {
    on_each_server([&](server_kind const& kind) {
        set_client c(kind);
        test(c, c.admin);
    });
}

} // namespace

BOOST_AUTO_TEST_SUITE(set_scripts)

BOOST_AUTO_TEST_CASE(all_keys_are_taken_or_none) {
    with_each([](set_client& c, redis_cli& admin) {
        check_number(c.acquire({"me", "20000"}), 1);
        BOOST_TEST(c.all_hold("me"));
        for (auto const& key : keys) BOOST_TEST((admin.pttl(key) > 15s));
        check_number(c.acquire({"you", "20000"}), -1);
        BOOST_TEST(c.all_hold("me"));
        for (std::size_t i = 0; i < keys.size(); ++i) {
            admin.flush();
            // A lock on one key, of this library or another.
            BOOST_TEST(admin.set_if_absent(keys[i], "other", 20s));
            check_number(c.acquire({"me", "20000"}), -static_cast<std::int64_t>(i + 1));
            BOOST_TEST(c.left() == texts{keys[i]}, boost::test_tools::per_element());
            BOOST_TEST(admin.del_if_equal(keys[i], "other"));
            check_number(c.acquire({"me", "20000"}), 1);
            BOOST_TEST(!admin.set_if_absent(keys[i], "other", 20s));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_stands_in_the_way) {
    with_each([](set_client& c, redis_cli& admin) {
        (void)admin.command({"HSET", "b", "field", "x"});
        check_number(c.acquire({"me", "20000"}), -2);
        check_number(c.fenced({"me", "20000", "1", "60000"}), -2);
        check_number(c.acquire({"me", "20000", "me", "me", "me"}), -2);
        check_number(c.extend({"me", "20000"}), -1);
        BOOST_TEST(c.left() == texts{"b"}, boost::test_tools::per_element());
        for (auto const* const key : {"a", "c"}) admin.set(key, "me", 20s);
        check_number(c.extend({"me", "20000"}), -2);
        check_number(c.raise({"me", "1", "60000"}), -2);
        check_number(c.release("me"), 0);
        BOOST_TEST(c.left() == texts{"b"}, boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(a_key_with_its_own_token_of_before_counts_as_free) {
    with_each([](set_client& c, redis_cli& admin) {
        for (auto const fenced : {false, true}) {
            auto const acquire = [&](texts const& before) {
                texts args{"me", "20000"};
                if (fenced) args.insert(args.end(), {"1", "60000"});
                args.insert(args.end(), before.begin(), before.end());
                return fenced ? c.fenced(args) : c.acquire(args);
            };
            auto const holds = [&] {
                admin.flush();
                admin.set("a", "first", 20s);
                admin.set("b", "second", 20s);
            };
            holds();
            check_number(acquire({"first", "second", "third"}), 1);
            BOOST_TEST(c.all_hold("me"));
            holds();
            check_number(acquire({"second", "first", "third"}), -1);
            holds();
            check_number(acquire({"first", "", ""}), -2);
            BOOST_TEST(c.at("a") == "first");
            BOOST_TEST(c.at("c") == "none");
            // No token is empty: this is a value of another program.
            admin.flush();
            admin.set("b", "", 20s);
            check_number(acquire({"", "", ""}), -2);
        }
    });
}

// Each command may be executed long after a later one.
BOOST_AUTO_TEST_CASE(no_command_shortens_a_key_that_is_ours) {
    with_each([](set_client& c, redis_cli& admin) {
        check_number(c.acquire({"me", "60000"}), 1);
        auto const last = [&](std::chrono::milliseconds longer_than) {
            for (auto const& key : keys) BOOST_TEST((admin.pttl(key) > longer_than), key);
        };
        check_number(c.acquire({"me", "1000"}), 1);
        check_number(c.extend({"me", "1000"}), 1);
        last(50s);
        // One of them is shorter than the others, and one is gone.
        (void)admin.command({"PEXPIRE", "b", "2000"});
        admin.del("c");
        check_number(c.extend({"me", "30000"}), -3);
        BOOST_TEST((admin.pttl("b") <= 2s));
        check_number(c.acquire({"me", "30000"}), 1);
        last(25s);
        BOOST_TEST((admin.pttl("a") > 50s));
        // A key without an end gets one.
        (void)admin.command({"PERSIST", "a"});
        check_number(c.extend({"me", "30000"}), 1);
        last(25s);
        check_number(c.fenced({"me", "1000", "1", "60000"}), 1);
        last(20s);
    });
}

BOOST_AUTO_TEST_CASE(an_extension_creates_nothing) {
    with_each([](set_client& c, redis_cli& admin) {
        check_number(c.extend({"me", "20000"}), -1);
        admin.set("a", "me", 20s);
        admin.set("b", "other", 20s);
        check_number(c.extend({"me", "60000"}), -2);
        BOOST_TEST((admin.pttl("a") <= 20s));
        BOOST_TEST(c.left() == (texts{"a", "b"}), boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(the_set_has_one_number_and_every_counter_gets_it) {
    with_each([](set_client& c, redis_cli& admin) {
        auto const count = [&](std::string const& number) {
            for (auto const& counter : counters) {
                BOOST_TEST(c.count_at(counter) == number);
                BOOST_TEST((admin.pttl(counter) > 50s));
            }
            c.release("me");
        };
        check_number(c.fenced({"me", "20000", "1", "60000"}), 1);
        count("1");
        set_counter(admin, "{b}:fence", "41", 60s);
        check_number(c.fenced({"me", "20000", "7", "60000"}), 42);
        count("42");
        check_number(c.fenced({"me", "20000", "500", "60000"}), 500);
        count("500");
        // A hint far ahead counts only if it is near the clock of the server.
        auto const of_clock = [](std::time_t ahead) {
            return std::to_string((std::time(nullptr) + ahead) * 10'000);
        };
        check_number(c.fenced({"me", "20000", of_clock(3'600), "60000"}), 501);
        count("501");
        auto const hint = of_clock(-3'600);
        check_number(c.fenced({"me", "20000", hint, "60000"}), std::stoll(hint));
        count(hint);
        // A refusal leaves the counters.
        admin.set("b", "other", 20s);
        check_number(c.fenced({"me", "20000", "1", "60000"}), -2);
        count(hint);
    });
}

BOOST_AUTO_TEST_CASE(a_counter_that_no_fence_can_follow_leaves_nothing) {
    with_each([](set_client& c, redis_cli& admin) {
        for (auto const* const odd : {"90071992547408", "x", "1.5", "-1"}) {
            for (auto const& counter : counters) {
                admin.flush();
                set_counter(admin, counter, odd);
                check_error(c.fenced({"me", "20000", "1", "60000"}), "FENCE ");
                check_error(c.fenced({"me", "20000", "1", "60000"}), counter);
                BOOST_TEST(c.left() == texts{counter}, boost::test_tools::per_element());
            }
        }
        admin.flush();
        (void)admin.command({"RPUSH", "{c}:fence", "x"});
        check_error(c.fenced({"me", "20000", "1", "60000"}), "FENCE ");
        BOOST_TEST(c.left() == texts{"{c}:fence"}, boost::test_tools::per_element());
    });
}

// One raised counter of a set that is not ours any more would refuse the writes of its holder.
BOOST_AUTO_TEST_CASE(a_raise_needs_all_keys) {
    with_each([](set_client& c, redis_cli& admin) {
        check_number(c.fenced({"me", "20000", "1", "60000"}), 1);
        set_counter(admin, "{b}:fence", "90", 90s);
        check_number(c.raise({"me", "17", "60000"}), 0); // one of the counters was not lifted
        BOOST_TEST(c.count_at("{a}:fence") == "17");
        BOOST_TEST(c.count_at("{b}:fence") == "90");
        BOOST_TEST(c.count_at("{c}:fence") == "17");
        BOOST_TEST((admin.pttl("{b}:fence") > 80s));
        for (auto const& key : keys) {
            admin.set(key, "other", 20s);
            auto const r = c.raise({"me", "50", "60000"});
            BOOST_TEST((r.is_integer() && r.integer() < 0), r);
            BOOST_TEST(c.count_at("{a}:fence") == "17");
            BOOST_TEST(c.count_at("{c}:fence") == "17");
            admin.set(key, "me", 20s);
        }
        // Counters that were deleted come back.
        for (auto const& counter : counters) admin.del(counter);
        check_number(c.raise({"me", "17", "60000"}), 1);
        for (auto const& counter : counters) BOOST_TEST(c.count_at(counter) == "17");
        check_number(c.raise({"me", "17", "60000"}), 0);
    });
}

BOOST_AUTO_TEST_CASE(keys_that_share_a_counter_are_raised_together) {
    with_each([](set_client& c, redis_cli& admin) {
        admin.set("a", "me", 20s);
        admin.set("{a}", "me", 20s);
        check_number(c.raise_two_with_one_counter({"me", "17", "60000"}), 1);
        BOOST_TEST(c.count_at("{a}:fence") == "17");
        check_number(c.raise_two_with_one_counter({"me", "17", "60000"}), 0);
    });
}

BOOST_AUTO_TEST_CASE(a_release_deletes_the_keys_that_are_ours) {
    with_each([](set_client& c, redis_cli& admin) {
        check_number(c.acquire({"me", "20000"}), 1);
        check_number(c.release("other"), 0);
        BOOST_TEST(c.all_hold("me"));
        check_number(c.release("me"), 1);
        BOOST_TEST(c.left().empty());
        check_number(c.release("me"), 0);
        for (auto const& key : keys) {
            check_number(c.acquire({"me", "20000"}), 1);
            admin.set(key, "other", 20s);
            check_number(c.release("me"), 0);
            BOOST_TEST(c.left() == texts{key}, boost::test_tools::per_element());
            admin.flush();
        }
    });
}

BOOST_AUTO_TEST_CASE(an_inspection_shows_the_first_key_that_is_anothers) {
    with_each([](set_client& c, redis_cli& admin) {
        auto const parts = [&] {
            auto const r = c.inspect("me");
            BOOST_REQUIRE(r.is_array());
            return r.elements();
        };
        BOOST_REQUIRE(parts().size() == 1U);
        check_number(parts()[0], 0);
        admin.set("a", "me", 20s);
        admin.set("b", std::string(1'000, 'x'), 20s);
        admin.set("c", "other", 20s);
        auto found = parts();
        BOOST_REQUIRE(found.size() == 4U);
        check_number(found[0], 2);
        BOOST_TEST((found[1].integer() > 15'000 && found[1].integer() <= 20'000));
        BOOST_TEST(found[2].string() == "string");
        BOOST_TEST(found[3].string() == std::string(65, 'x'));
        admin.del("b");
        (void)admin.command({"HSET", "b", "field", "x"});
        found = parts();
        BOOST_REQUIRE(found.size() == 4U);
        check_number(found[0], 2);
        check_number(found[1], -1);
        BOOST_TEST(found[2].string() == "hash");
        BOOST_TEST(found[3].string().empty());
    });
}

// As contend and track do. Other keys of the set that change send nothing.
BOOST_AUTO_TEST_CASE(only_the_watched_key_is_pushed) {
    with_each([](set_client& c, redis_cli& admin) {
        (void)c.cli.command({"HELLO", "3"});
        BOOST_TEST(c.cli.command({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}).is_ok());
        for (auto const& key : keys) admin.set(key, "other", 20s);
        check_number(c.acquire({"me", "20000"}), -1);
        BOOST_TEST(c.cli.command({"CLIENT", "CACHING", "YES"}).is_ok());
        (void)c.cli.command({"PTTL", "b"});
        admin.del("a");
        admin.del("c");
        BOOST_TEST(c.cli.command({"GET", "b"}).string() == "other");
        BOOST_TEST(c.cli.take_pushes().empty());
        admin.del("b");
        BOOST_TEST(c.cli.has_input(5s));
        check_number(c.acquire({"me", "20000"}), 1);
        BOOST_TEST(c.cli.take_pushes().size() == 1U);
    });
}

BOOST_AUTO_TEST_CASE(sixty_four_long_keys) {
    with_each([](set_client& c, redis_cli& admin) {
        texts many;
        for (auto i = 0; i < 64; ++i) many.push_back(std::to_string(i) + std::string(1'022, 'k'));
        check_number(c.acquire({"me", "20000"}, many), 1);
        BOOST_TEST(c.left().size() == many.size());
        check_number(c.run(redis::set_release_script, many, {"me"}), 1);
        admin.set(many.back(), "other", 20s);
        check_number(c.acquire({"me", "20000"}, many), -64);
        BOOST_TEST(c.left().size() == 1U);
    });
}

//
// Commands that the server refuses within a script
//

BOOST_AUTO_TEST_CASE(the_rights_of_the_documents_are_enough) {
    on_each_server([](server_kind const& kind) {
        set_client c(kind);
        auto rules = access::keys({});
        auto const add = [&](access::rules const& more) {
            rules.insert(rules.end(), more.begin(), more.end());
        };
        add(access::locks);
        add(access::fences);
        add(access::several_keys);
        add({"+pttl", "+type"});
        c.r.give(rules);
        check_number(c.fenced({"me", "20000", "1", "60000"}), 1);
        check_number(c.acquire({"me", "30000"}), 1);
        check_number(c.extend({"me", "40000"}), 1);
        check_number(c.raise({"me", "5", "60000"}), 1);
        (void)c.admin.command({"DEL", "c"});
        (void)c.admin.command({"HSET", "c", "field", "x"});
        BOOST_TEST(c.inspect("me").elements().size() == 4U);
        check_number(c.release("me"), 0);
        BOOST_TEST(c.r.redis.refusals() == texts{}, boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_can_be_done_without) {
    on_each_server([](server_kind const& kind) {
        set_client c(kind, {"+pttl", "+time", "+type", "+getrange", "+exists", "+mget"});
        check_number(c.acquire({"me", "20000"}), 1);
        check_number(c.extend({"me", "40000"}), 1);
        check_number(c.acquire({"me", "60000"}), 1);
        BOOST_TEST((c.admin.pttl("b") > 50s));
        // The clock of the server is not known, so no hint far ahead counts.
        check_number(c.fenced({"me", "60000", "9000000000", "60000"}), 1);
        check_number(c.raise({"me", "5", "60000"}), 1);
        (void)c.admin.command({"DEL", "b", "c"});
        (void)c.admin.command({"SET", "c", "other"});
        auto found = c.inspect("me").elements();
        BOOST_REQUIRE(found.size() == 4U);
        check_number(found[0], 3);
        check_denied(found[1]);
        BOOST_TEST(found[3].string() == "other");
        (void)c.admin.command({"HSET", "b", "field", "x"});
        found = c.inspect("me").elements();
        BOOST_REQUIRE(found.size() == 4U);
        check_number(found[0], 2);
        check_denied(found[2]);
        check_number(c.release("me"), 0);
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_is_needed_nothing_is_changed) {
    on_each_server([](server_kind const& kind) {
        // Without EXISTS and MGET, GET looks at each key.
        auto const no_look = texts{"+get", "+exists", "+mget"};
        for (auto const& missing : {no_look, texts{"+set"}}) {
            set_client c(kind, missing);
            check_denied(c.acquire({"me", "20000"}));
            check_denied(c.fenced({"me", "20000", "1", "60000"}));
            BOOST_TEST(c.left().empty());
        }
        set_client c(kind, no_look);
        for (auto const& key : keys) c.admin.set(key, "me", 20s);
        check_denied(c.extend({"me", "40000"}));
        check_denied(c.raise({"me", "5", "60000"}));
        check_denied(c.release("me"));
        check_denied(c.inspect("me"));
        BOOST_TEST(c.left() == keys, boost::test_tools::per_element());
        // A user who has no right to one of the keys gets none of them.
        c.r.change("resetkeys");
        c.r.change("~a");
        c.r.change("~b");
        check_denied(c.acquire({"me", "20000"}));
    });
}

// A rule may allow a command on some keys only, so that the script fails in the middle.
BOOST_AUTO_TEST_CASE(a_refusal_in_the_middle_leaves_nothing) {
    on_each_server([](server_kind const& kind) {
        set_client c(kind, {"+set", "+zadd"});
        if (!c.admin
                 .command(
                     {"ACL", "SETUSER", std::string(access::user), "(+set +zadd ~a ~b ~{a}:fence)"})
                 .is_ok()) {
            return; // a server without selectors
        }
        check_number(c.acquire({"me", "20000"}, {"a", "b"}), 1);
        c.admin.flush();
        check_denied(c.acquire({"me", "20000"}));
        BOOST_TEST(c.left().empty());
        // The keys that were ours before the command stay.
        c.admin.set("a", "me", 20s);
        check_denied(c.acquire({"me", "20000"}));
        BOOST_TEST(c.left() == texts{"a"}, boost::test_tools::per_element());
        // A counter in the middle.
        c.admin.flush();
        c.admin.set("c", "me", 20s);
        check_denied(c.fenced({"me", "20000", "1", "60000"}));
        BOOST_TEST(c.left() == (texts{"c", "{a}:fence"}), boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(a_full_server_takes_none_of_the_keys) {
    with_each([](set_client& c, redis_cli& admin) {
        admin.config("maxmemory", "1");
        check_error(c.acquire({"me", "20000"}), "OOM");
        check_error(c.fenced({"me", "20000", "1", "60000"}), "OOM");
        admin.config("maxmemory", "0");
        BOOST_TEST(c.left().empty());
        check_number(c.fenced({"me", "20000", "1", "60000"}), 1);
        admin.config("maxmemory", "1");
        check_number(c.extend({"me", "40000"}), 1);
        check_error(c.raise({"me", "7", "60000"}), "OOM");
        check_number(c.release("me"), 1);
        admin.config("maxmemory", "0");
    });
}

BOOST_AUTO_TEST_SUITE_END()
