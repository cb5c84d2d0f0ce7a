// The scripts for readers and writers, on real servers.
#include "redis/wire/kinds/read_write_scripts.hpp"

#include "integration/script_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

std::string const key = "page:7", readers = "{page:7}:readers", intent = "{page:7}:intent",
                  turn = "{page:7}:turn", counter = "{page:7}:fence";
std::string const mark(redis::readers_value);

// The names of clients, and what a try does if it is refused.
std::string const us = "us", others = "others";
std::string const waits = "wait", only_tries = "try", heals = "heal";

class rw_client : public script_client {
public:
    using script_client::script_client;

    reply read(std::string const& token, milliseconds ttl = 20s,
               std::string const& how = only_tries, std::string const& who = us) {
        return run(redis::read_acquire_script, false, {token, ms(ttl), who, how});
    }
    reply fenced_read(std::string const& token, std::string const& hint, milliseconds ttl = 20s,
                      std::string const& how = only_tries) {
        return run(redis::read_fenced_acquire_script, true,
                   {token, ms(ttl), hint, "60000", us, how});
    }
    reply extend(std::string const& token, milliseconds ttl = 20s) {
        return execute(eval(redis::read_extend_script, {key, readers}, {token, ms(ttl)}));
    }
    reply raise(std::string const& token, std::string const& number,
                std::string const& ttl = "60000") {
        return run(redis::read_raise_script, true, {token, number, ttl});
    }
    reply leave(std::string const& token, milliseconds its_turn = 15s) {
        return run(redis::read_release_script, false, {token, ms(its_turn)});
    }
    reply write(std::string const& token, milliseconds ttl = 20s,
                std::string const& how = only_tries, std::string const& who = us) {
        return run(redis::write_acquire_script, false, {token, ms(ttl), who, how});
    }
    reply fenced_write(std::string const& token, std::string const& hint, milliseconds ttl = 20s,
                       std::string const& how = only_tries) {
        return run(redis::write_fenced_acquire_script, true,
                   {token, ms(ttl), hint, "60000", us, how});
    }
    reply end_write(std::string const& token, milliseconds its_turn = 15s,
                    std::string const& who = us) {
        return run(redis::write_release_script, false, {token, ms(its_turn), who});
    }

    bool is_shared() { return at(key) == mark; }
    texts members() {
        texts all;
        auto const found = admin.command({"ZRANGE", readers, "0", "-1"});
        for (auto const& each : found.elements()) all.push_back(each.string());
        return all;
    }
    std::optional<milliseconds> time_of(std::string const& token) {
        return time_in(readers, token);
    }
    void end_time_of(std::string const& token) { end_time_in(readers, token); }
    /// As an evicting server does.
    void evict() { BOOST_TEST(admin.del(readers)); }

    /// What holds after each script: the key is the mark if and only if there are readers, whose
    /// set does not expire first, and nothing stays for good.
    void check_sound() {
        BOOST_TEST(is_shared() == admin.exists(readers));
        for (auto const& name : left()) BOOST_TEST((life(name) > 0ms), name);
        if (!is_shared()) return;
        auto const of_readers = life(readers); // first: what is asked later has less left
        // A script sets one after the other, so they differ by no more than it took.
        BOOST_TEST((of_readers + longest_script_ + 1ms >= life(key)));
    }

private:
    reply run(std::string_view script, bool counts, texts const& args) {
        texts keys{key};
        if (counts) keys.push_back(counter);
        keys.insert(keys.end(), {readers, intent, turn});
        return execute(eval(script, keys, args));
    }
    reply execute(command_line const& words) {
        auto const began = std::chrono::steady_clock::now();
        auto answer = cli.command(words);
        longest_script_ =
            std::max(longest_script_,
                     std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - began));
        return answer;
    }

    milliseconds longest_script_{0};
};

template <class Test>
void with_each(Test test) {
    on_each_server([&](server_kind const& kind) {
        rw_client c(kind);
        test(c);
    });
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_scripts)

//
// Readers
//

BOOST_AUTO_TEST_CASE(readers_share_a_key) {
    with_each([](rw_client& c) {
        check_number(c.read("first"), 1);
        BOOST_TEST(c.is_shared());
        check_number(c.read("second", 40s, only_tries, others), 1);
        check_number(c.read("third", 10s), 1);
        BOOST_TEST(c.members() == (texts{"third", "first", "second"}),
                   boost::test_tools::per_element());
        BOOST_TEST((*c.time_of("first") > 15s && *c.time_of("first") <= 20s + 1ms));
        BOOST_TEST((*c.time_of("second") > 35s && *c.time_of("second") <= 40s + 1ms));
        // The key lives for longer than the longest of them.
        BOOST_TEST((c.life(key) > 45s));
        check_keys(c, {key, readers});
        c.check_sound();
        // Other locks on the key are refused, those of other libraries as well.
        BOOST_TEST(!c.admin.set_if_absent(key, "foreign", 20s));
        BOOST_TEST(!c.admin.del_if_equal(key, "foreign"));
        check_refused(c.write("writer"), 35s, 41s);
    });
}

BOOST_AUTO_TEST_CASE(a_holder_of_the_key_refuses_readers) {
    with_each([](rw_client& c) {
        c.admin.set(key, "other", 20s);
        for (auto const& how : {only_tries, heals}) check_refused(c.read("me", 20s, how), 15s, 20s);
        check_refused(c.fenced_read("me", "1"), 15s, 20s);
        check_keys(c, {key});
        check_refused(c.read("me", 10s, waits), 15s, 20s);
        BOOST_TEST(c.at(turn) == "wait");
        BOOST_TEST((c.life(turn) > 5s && c.life(turn) <= 10s));
        check_refused(c.read("me", 40s, waits), 10s, 20s);
        BOOST_TEST((c.life(turn) > 35s));
        check_refused(c.read("me", 10s, waits), 10s, 20s);
        BOOST_TEST((c.life(turn) > 30s));
        BOOST_TEST(c.at(key) == "other");
        // A value of another program, without an end.
        for (auto const& words : {command_line{"SET", key, "other"}, {"SET", key, ""}}) {
            (void)c.admin.command(words);
            check_number(c.read("me"), -2);
        }
        c.admin.del(key);
        (void)c.admin.command({"HSET", key, "field", "x"});
        check_number(c.read("me", 20s, waits), -2);
        check_number(c.write("me", 20s, waits), -2);
        check_number(c.extend("me"), 0);
        check_number(c.leave("me"), 0);
        check_number(c.end_write("me"), 0);
        check_keys(c, {key, turn});
    });
}

BOOST_AUTO_TEST_CASE(a_writer_that_waits_refuses_new_readers) {
    with_each([](rw_client& c) {
        check_number(c.read("first", 40s), 1);
        check_refused(c.write("writer", 10s, waits, others), 35s, 41s);
        BOOST_TEST(c.at(intent) == others);
        check_refused(c.read("new", 20s), 5s, 10s);
        check_refused(c.fenced_read("new", "1"), 5s, 10s);
        BOOST_TEST(!c.admin.exists(turn));
        check_refused(c.read("new", 20s, waits), 5s, 10s);
        BOOST_TEST(c.at(turn) == "wait");
        BOOST_TEST((c.life(turn) > 15s && c.life(turn) <= 20s));
        BOOST_TEST(c.members() == texts{"first"}, boost::test_tools::per_element());
        // Those who are readers already go on; the client's own readers know of its writer.
        check_number(c.extend("first", 40s), 1);
        check_number(c.read("first", 40s, heals), 1);
        check_number(c.read("healed", 20s, heals), 1);
        check_number(c.read("own", 20s, only_tries, others), 1);
        // A turn of the readers.
        (void)c.admin.command({"SET", turn, "open", "PX", "20000"});
        check_number(c.read("new", 20s, waits), 1);
        BOOST_TEST(c.at(turn) == "open");
        c.check_sound();
        // The key may be free meanwhile.
        for (auto const* const token : {"first", "healed", "own", "new"}) (void)c.leave(token);
        c.admin.del(turn);
        check_refused(c.read("new", 20s, waits), 1s, 10s);
        BOOST_TEST(!c.admin.exists(key));
        check_number(c.write("writer", 20s, waits, others), 1);
        BOOST_TEST(!c.admin.exists(intent));
    });
}

BOOST_AUTO_TEST_CASE(the_key_is_written_once_in_half_a_ttl) {
    with_each([](rw_client& c) {
        check_number(c.read("first", 40s), 1);
        auto const written = [&](auto call) {
            (void)c.admin.command({"PEXPIRE", key, "50000"});
            call();
            return c.life(key) > 50s;
        };
        BOOST_TEST(!written([&] { check_number(c.extend("first", 40s), 1); }));
        BOOST_TEST(!written([&] { check_number(c.read("second", 40s), 1); }));
        BOOST_TEST(written([&] { check_number(c.extend("first", 50s), 1); }));
        BOOST_TEST((*c.time_of("first") > 45s));
        c.check_sound();
    });
}

BOOST_AUTO_TEST_CASE(no_command_shortens_the_time_of_a_reader) {
    with_each([](rw_client& c) {
        check_number(c.read("me", 60s), 1);
        auto const last = [&] {
            BOOST_TEST((*c.time_of("me") > 50s));
            BOOST_TEST((c.life(key) > 75s));
            c.check_sound();
        };
        check_number(c.extend("me", 1s), 1);
        last();
        check_number(c.read("me", 1s), 1);
        check_number(c.read("me", 1s, heals), 1);
        check_number(c.fenced_read("me", "1", 1s), 1);
        check_number(c.read("other", 1s), 1);
        last();
        check_number(c.leave("other"), 1);
        last();
        check_number(c.extend("me", 120s), 1);
        BOOST_TEST((*c.time_of("me") > 110s));
        BOOST_TEST((c.life(key) > 120s));
        // A key without an end gets one.
        (void)c.admin.command({"PERSIST", key});
        check_number(c.extend("me", 60s), 1);
        c.check_sound();
    });
}

BOOST_AUTO_TEST_CASE(an_extension_makes_no_reader) {
    with_each([](rw_client& c) {
        check_number(c.extend("me"), 0);
        BOOST_TEST(c.left().empty());
        c.admin.set(key, "other", 20s);
        check_number(c.extend("me"), 0);
        check_keys(c, {key});
        c.admin.flush();
        check_number(c.read("other"), 1);
        check_number(c.extend("me"), 0);
        check_number(c.read("me"), 1);
        c.end_time_of("me");
        check_number(c.extend("me"), 0);
        check_number(c.raise("me", "9"), 0);
        BOOST_TEST(!c.admin.exists(counter));
        BOOST_TEST((*c.time_of("me") < 0s));
        // The key has expired; what is left beside it is no reader's.
        check_number(c.read("me"), 1);
        c.admin.del(key);
        check_number(c.extend("me"), 0);
        check_number(c.raise("me", "9"), 0);
        BOOST_TEST(!c.admin.exists(key));
        c.admin.set(key, "other", 20s);
        check_number(c.extend("me"), 0);
        check_number(c.raise("me", "9"), 0);
        BOOST_TEST(c.at(key) == "other");
    });
}

BOOST_AUTO_TEST_CASE(a_writers_lease_becomes_a_readers) {
    with_each([](rw_client& c) {
        check_number(c.write("me", 60s), 1);
        check_number(c.extend("other", 10s), 0);
        BOOST_TEST(c.at(key) == "me");
        check_number(c.extend("me", 10s), 1);
        BOOST_TEST(c.is_shared());
        BOOST_TEST(c.members() == texts{"me"}, boost::test_tools::per_element());
        // With the life that the key had.
        BOOST_TEST((*c.time_of("me") > 50s));
        BOOST_TEST((c.life(key) > 50s));
        c.check_sound();
        check_number(c.read("other"), 1);
        check_refused(c.write("writer"), 50s, 61s);
        check_number(c.leave("me"), 1);
        check_number(c.leave("other"), 1);
        BOOST_TEST(c.left().empty());
        // What is left of earlier readers is none.
        check_number(c.write("me", 10s), 1);
        (void)c.admin.command({"ZADD", readers, "9000000000000", "ghost"});
        check_number(c.extend("me", 40s), 1);
        BOOST_TEST(c.members() == texts{"me"}, boost::test_tools::per_element());
        BOOST_TEST((c.life(key) > 55s));
        c.check_sound();
        // A reader that has not heard that its lease became one.
        c.admin.flush();
        check_number(c.write("me", 10s), 1);
        check_refused(c.read("new", 10s, waits), 5s, 10s);
        check_number(c.leave("me"), 1);
        check_keys(c, {turn});
        BOOST_TEST(c.at(turn) == "open");
    });
}

BOOST_AUTO_TEST_CASE(the_last_reader_frees_the_key) {
    with_each([](rw_client& c) {
        check_number(c.read("first"), 1);
        check_number(c.read("second", 40s), 1);
        check_number(c.leave("other"), 0);
        check_number(c.leave("first"), 1);
        BOOST_TEST(c.is_shared());
        BOOST_TEST(c.members() == texts{"second"}, boost::test_tools::per_element());
        BOOST_TEST((c.life(key) > 50s));
        check_number(c.leave("first"), 0);
        c.check_sound();
        check_number(c.leave("second"), 1);
        BOOST_TEST(c.left().empty());
        check_number(c.leave("second"), 0);
        // One whose time has passed had it no more, and leaves nothing. It keeps nobody.
        check_number(c.read("first"), 1);
        c.end_time_of("first");
        check_number(c.leave("first"), 0);
        BOOST_TEST(c.left().empty());
        check_number(c.read("first"), 1);
        check_number(c.read("second"), 1);
        c.end_time_of("second");
        check_number(c.leave("first"), 1);
        BOOST_TEST(c.left().empty());
        // The key is another's by now.
        check_number(c.read("first"), 1);
        c.admin.set(key, "other", 20s);
        check_number(c.leave("first"), 0);
        BOOST_TEST(c.at(key) == "other");
        BOOST_TEST(!c.admin.exists(readers));
    });
}

BOOST_AUTO_TEST_CASE(readers_whose_time_has_passed_do_not_count) {
    with_each([](rw_client& c) {
        check_number(c.read("first"), 1);
        check_number(c.read("second"), 1);
        c.end_time_of("first");
        check_refused(c.write("writer"), 15s, 21s);
        // They leave when the next one comes. The key has enough life, so it is not written, and
        // the set must not expire without one.
        c.end_time_of("second");
        check_number(c.read("third", 10s), 1);
        BOOST_TEST(c.members() == texts{"third"}, boost::test_tools::per_element());
        c.check_sound();
        c.end_time_of("third");
        check_number(c.write("writer"), 1);
        BOOST_TEST(c.at(key) == "writer");
        BOOST_TEST((c.life(key) > 15s && c.life(key) <= 20s));
        check_keys(c, {key});
        c.admin.flush();
        check_number(c.read("first"), 1);
        c.end_time_of("first");
        check_number(c.fenced_write("writer", "7"), 7);
        check_keys(c, {key, counter});
    });
}

// A crashed reader blocks writers for its own time, not for that of the key, and for no longer
// because others go on.
BOOST_AUTO_TEST_CASE(a_reader_blocks_writers_for_its_own_ttl) {
    with_each([](rw_client& c) {
        check_number(c.read("crashed", 50ms), 1);
        check_number(c.read("other", 60s), 1);
        check_number(c.leave("other"), 1);
        auto const r = c.write("writer");
        if (r.is_integer() && r.integer() != 1) {
            check_refused(r, 1ms, 51ms);
            std::this_thread::sleep_for(60ms); // the ttl of the reader
            BOOST_TEST((c.life(key) > 60s));
            check_number(c.write("writer"), 1);
        }
        BOOST_TEST(c.at(key) == "writer");
        check_keys(c, {key});
    });
}

//
// Writers
//

BOOST_AUTO_TEST_CASE(a_writer_has_the_key_as_an_exclusive_lock_has_it) {
    with_each([](rw_client& c) {
        check_number(c.write("me"), 1);
        BOOST_TEST(c.at(key) == "me");
        BOOST_TEST((c.life(key) > 15s && c.life(key) <= 20s));
        check_keys(c, {key});
        check_refused(c.write("other", 20s, waits), 15s, 20s);
        check_refused(c.write("me", 20s, waits), 15s, 20s);
        check_refused(c.write("me", 20s, heals), 15s, 20s);
        check_keys(c, {key}); // writers wait for the key as others do, and leave no note
        check_refused(c.read("reader"), 15s, 20s);
        check_number(c.end_write("other"), 0);
        check_number(c.end_write("me"), 1);
        BOOST_TEST(c.left().empty());
        check_number(c.end_write("me"), 0);
        c.admin.set(key, "foreign", 20s);
        check_refused(c.write("me", 20s, waits), 15s, 20s);
        check_number(c.end_write("me"), 0);
        BOOST_TEST(c.at(key) == "foreign");
    });
}

BOOST_AUTO_TEST_CASE(a_writer_that_waits_leaves_a_note) {
    with_each([](rw_client& c) {
        check_number(c.read("reader", 60s), 1);
        for (auto const& how : {only_tries, heals})
            check_refused(c.write("me", 20s, how), 55s, 61s);
        check_refused(c.fenced_write("me", "1"), 55s, 61s);
        BOOST_TEST(!c.admin.exists(intent));
        check_refused(c.fenced_write("me", "1", 20s, waits), 55s, 61s);
        BOOST_TEST(c.at(intent) == us);
        BOOST_TEST((c.life(intent) > 15s && c.life(intent) <= 20s));
        // Its own note lasts for longer, and never for less; that of another stays as it is.
        check_refused(c.write("me", 40s, waits), 55s, 61s);
        BOOST_TEST((c.life(intent) > 35s));
        check_refused(c.write("me", 1s, waits), 55s, 61s);
        BOOST_TEST((c.life(intent) > 30s));
        check_refused(c.write("other", 90s, waits, others), 55s, 61s);
        BOOST_TEST(c.at(intent) == us);
        BOOST_TEST((c.life(intent) <= 40s));
        c.check_sound();
        // A grant takes the client's own note away, and no other.
        check_number(c.leave("reader"), 1);
        check_number(c.write("other", 20s, waits, others), 1);
        BOOST_TEST(c.at(intent) == us);
        check_number(c.end_write("other", 15s, others), 1);
        check_number(c.write("me"), 1);
        check_keys(c, {key});
    });
}

BOOST_AUTO_TEST_CASE(after_a_writer_readers_that_were_refused_have_their_turn) {
    with_each([](rw_client& c) {
        check_number(c.write("writer"), 1);
        check_number(c.end_write("writer"), 1);
        BOOST_TEST(c.left().empty()); // nobody has waited
        check_number(c.write("writer"), 1);
        check_refused(c.read("reader", 20s, waits), 15s, 20s);
        check_number(c.end_write("other"), 0);
        BOOST_TEST(c.at(turn) == "wait");
        check_number(c.end_write("writer"), 1);
        BOOST_TEST(c.at(turn) == "open");
        BOOST_TEST((c.life(turn) > 10s && c.life(turn) <= 15s));
        for (auto const& how : {waits, only_tries})
            check_refused(c.write("writer", 20s, how), 10s, 15s);
        check_refused(c.fenced_write("writer", "1"), 10s, 15s);
        check_keys(c, {turn});
        check_number(c.read("reader", 20s, waits), 1);
        // What a healed lease needs, and the key of readers that are gone, is no new turn.
        check_number(c.leave("reader"), 1);
        check_number(c.write("healed", 20s, heals), 1);
        check_number(c.end_write("healed"), 1);
        check_number(c.read("reader", 20s, waits), 1);
        c.end_time_of("reader");
        BOOST_TEST(c.at(turn) == "open");
        check_number(c.write("writer"), 1);
    });
}

BOOST_AUTO_TEST_CASE(a_writer_that_gives_up_takes_its_note_away) {
    with_each([](rw_client& c) {
        check_number(c.read("reader", 60s), 1);
        check_refused(c.write("writer", 20s, waits), 55s, 61s);
        check_number(c.end_write("fresh", 15s, others), 0);
        BOOST_TEST(c.at(intent) == us);
        auto const before = c.life(key);
        check_number(c.end_write("fresh"), 0);
        BOOST_TEST(!c.admin.exists(intent));
        BOOST_TEST((c.life(key) > before - 5s && c.life(key) <= before));
        check_number(c.read("new"), 1);
        c.check_sound();
        // It touches the key, and does not end one that has no end.
        check_refused(c.write("writer", 20s, waits), 55s, 61s);
        (void)c.admin.command({"PERSIST", key});
        check_number(c.end_write("fresh"), 0);
        BOOST_TEST(c.is_shared());
        // Nor does it make a key.
        c.admin.flush();
        c.admin.set(intent, us, 20s);
        check_number(c.end_write("fresh"), 0);
        BOOST_TEST(c.left().empty());
        // The key of another, and no turn of the readers.
        c.admin.set(key, "other", 20s);
        c.admin.set(intent, us, 20s);
        c.admin.set(turn, "wait", 20s);
        check_number(c.end_write("fresh"), 0);
        check_keys(c, {key, turn});
        BOOST_TEST(c.at(turn) == "wait");
        // A writer that had the key.
        c.admin.set(key, "mine", 20s);
        c.admin.set(intent, us, 20s);
        check_number(c.end_write("mine"), 1);
        check_keys(c, {turn});
    });
}

//
// Keys that are gone, or are another program's
//

// An evicting server may take the set alone. Whose leases still hold is then unknown.
BOOST_AUTO_TEST_CASE(without_its_readers_a_key_admits_nobody_until_it_expires) {
    with_each([](rw_client& c) {
        check_number(c.read("me", 40s), 1);
        c.evict();
        for (auto const& how : {waits, only_tries, heals}) {
            check_refused(c.write("writer", 20s, how), 50s, 60s);
            check_refused(c.read("reader", 20s, how), 50s, 60s);
            check_refused(c.read("me", 20s, how), 50s, 60s);
        }
        check_refused(c.fenced_write("writer", "1"), 50s, 60s);
        check_refused(c.fenced_read("reader", "1"), 50s, 60s);
        check_number(c.extend("me"), 0);
        check_number(c.raise("me", "9"), 0);
        check_number(c.leave("me"), 0);
        check_number(c.end_write("me", 15s, others), 0);
        BOOST_TEST(c.is_shared());
        BOOST_TEST((c.life(key) > 50s));
        check_keys(c, {key, intent});
        // The key has expired.
        c.admin.del(key);
        check_number(c.read("reader"), 1);
        c.check_sound();
    });
}

BOOST_AUTO_TEST_CASE(without_its_key_a_set_has_no_readers) {
    with_each([](rw_client& c) {
        for (auto const fenced : {false, true}) {
            check_number(c.read("old", 40s), 1);
            c.admin.del(key);
            check_number(fenced ? c.fenced_read("new", "1") : c.read("new"), 1);
            BOOST_TEST(c.members() == texts{"new"}, boost::test_tools::per_element());
            check_number(c.extend("old"), 0);
            c.check_sound();
            c.admin.del(key);
            check_number(fenced ? c.fenced_write("writer", "1") : c.write("writer"),
                         fenced ? 2 : 1);
            BOOST_TEST(!c.admin.exists(readers));
            check_number(c.extend("new"), 0);
            c.admin.flush();
        }
    });
}

BOOST_AUTO_TEST_CASE(a_key_beside_it_of_another_type_is_an_error_and_stays) {
    with_each([](rw_client& c) {
        auto const push = [&](std::string const& name) {
            (void)c.admin.command({"RPUSH", name, "x"});
        };
        constexpr std::string_view wrong = "WRONGTYPE";
        // In place of the readers.
        push(readers);
        check_error(c.read("me"), wrong);
        check_error(c.fenced_read("me", "1"), wrong);
        check_error(c.write("me"), wrong);
        check_error(c.fenced_write("me", "1"), wrong);
        check_keys(c, {readers});
        c.admin.set(key, mark, 20s);
        for (auto const& how : {waits, heals}) {
            check_error(c.read("me", 20s, how), wrong);
            check_error(c.write("me", 20s, how), wrong);
        }
        check_error(c.extend("me"), wrong);
        check_error(c.leave("me"), wrong);
        c.admin.set(key, "me", 20s);
        check_error(c.extend("me"), wrong);
        BOOST_TEST(c.at(key) == "me");
        check_number(c.end_write("me"), 1);
        check_keys(c, {readers});
        // In place of the note.
        c.admin.flush();
        push(intent);
        check_error(c.read("me"), wrong);
        check_error(c.write("me"), wrong);
        check_keys(c, {intent});
        check_number(c.read("me", 20s, heals), 1);
        check_error(c.write("writer", 20s, waits), wrong);
        check_error(c.read("new"), wrong);
        check_number(c.extend("me"), 1);
        check_number(c.leave("me"), 1);
        check_number(c.end_write("fresh"), 0);
        check_keys(c, {intent});
        // In place of the turn.
        c.admin.flush();
        push(turn);
        check_error(c.write("me"), wrong);
        check_keys(c, {turn});
        check_number(c.read("me"), 1);
        check_number(c.leave("me"), 1);
        c.admin.set(key, "writer", 20s);
        check_error(c.read("me", 20s, waits), wrong);
        check_number(c.end_write("writer"), 1);
        c.admin.set(key, "me", 20s);
        check_number(c.leave("me"), 1);
        check_keys(c, {turn});
    });
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(a_reader_has_the_number_of_the_last_writer) {
    with_each([](rw_client& c) {
        // The first writer after it must have a larger one.
        check_number(c.fenced_read("first", "1"), 1);
        BOOST_TEST(c.count_at(counter) == "1");
        BOOST_TEST((c.life(counter) > 50s));
        check_number(c.leave("first"), 1);
        check_number(c.fenced_write("writer", "1"), 2);
        check_number(c.end_write("writer"), 1);
        (void)c.admin.command({"PEXPIRE", counter, "20000"});
        check_number(c.fenced_read("first", "1"), 2);
        check_number(c.fenced_read("second", "2"), 2);
        BOOST_TEST(c.count_at(counter) == "2");
        BOOST_TEST((c.life(counter) <= 20s)); // it was not written
        check_number(c.fenced_read("third", "500"), 500);
        BOOST_TEST(c.count_at(counter) == "500");
        BOOST_TEST((c.life(counter) > 50s));
        BOOST_TEST(c.members().size() == 3U);
        c.check_sound();
        // A hint far ahead counts only if it is near the clock of the server.
        auto const of_clock = [](std::time_t ahead) {
            return std::to_string((std::time(nullptr) + ahead) * 10'000);
        };
        check_number(c.fenced_read("first", of_clock(3'600)), 500);
        auto const hint = of_clock(-3'600);
        check_number(c.fenced_read("first", hint), std::stoll(hint));
        BOOST_TEST(c.count_at(counter) == hint);
        // A refusal leaves the counter.
        c.admin.set(key, "other", 20s);
        auto const larger = std::to_string(std::stoll(hint) + 5);
        check_refused(c.fenced_read("me", larger), 15s, 20s);
        check_refused(c.fenced_write("me", larger), 15s, 20s);
        BOOST_TEST(c.count_at(counter) == hint);
    });
}

BOOST_AUTO_TEST_CASE(a_counter_that_no_fence_can_follow_leaves_nothing) {
    with_each([](rw_client& c) {
        for (auto const* const odd : {"90071992547408", "x", "1.5", "-1"}) {
            c.admin.flush();
            set_counter(c.admin, counter, odd);
            check_error(c.fenced_read("me", "1"), "FENCE ");
            check_error(c.fenced_write("me", "1"), counter);
            check_keys(c, {counter});
        }
        c.admin.flush();
        (void)c.admin.command({"RPUSH", counter, "x"});
        check_error(c.fenced_read("me", "1"), "FENCE ");
        check_error(c.fenced_write("me", "1"), "FENCE ");
        check_keys(c, {counter});
        check_number(c.read("other"), 1);
        check_error(c.fenced_read("me", "1"), "FENCE ");
        BOOST_TEST(c.members() == texts{"other"}, boost::test_tools::per_element());
        // The readers are gone, and the writer gets no number: the key is free.
        c.end_time_of("other");
        check_error(c.fenced_write("me", "1"), "FENCE ");
        check_keys(c, {counter});
    });
}

BOOST_AUTO_TEST_CASE(a_reader_lifts_the_counter) {
    with_each([](rw_client& c) {
        check_number(c.raise("me", "9"), 0);
        check_number(c.fenced_read("me", "1"), 1);
        check_number(c.raise("me", "17"), 1);
        BOOST_TEST(c.count_at(counter) == "17");
        check_number(c.raise("me", "9", "1000"), 1);
        BOOST_TEST(c.count_at(counter) == "17");
        BOOST_TEST((c.life(counter) > 50s));
        check_number(c.raise("me", "17", "90000"), 1);
        BOOST_TEST((c.life(counter) > 80s));
        check_number(c.raise("other", "50"), 0);
        c.admin.del(counter);
        check_number(c.raise("me", "17"), 1);
        BOOST_TEST(c.count_at(counter) == "17");
        check_number(c.leave("me"), 1);
        check_number(c.raise("me", "50"), 0);
        // The lease was a writer's, and this instance has not heard that it became a reader's.
        check_number(c.write("me"), 1);
        check_number(c.raise("me", "50"), 1);
        BOOST_TEST(c.count_at(counter) == "50");
        check_number(c.raise("other", "90"), 0);
        BOOST_TEST(c.count_at(counter) == "50");
    });
}

//
// Pushes
//

namespace {

/// A client that was refused, and hears of the key.
class waiting_client {
public:
    explicit waiting_client(rw_client& c)
        : cli(c.r.redis) {
        c.log_in(cli);
        (void)cli.command({"HELLO", "3"});
        BOOST_TEST(cli.command({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}).is_ok());
    }
    void is_refused(std::string_view script, bool whole, std::string const& who) {
        (void)cli.take_pushes();
        BOOST_TEST(cli.command({"CLIENT", "CACHING", "YES"}).is_ok());
        command_line words{"EVAL", std::string(script)};
        if (!whole) {
            words = {"EVALSHA", cli.command({"SCRIPT", "LOAD", std::string(script)}).string()};
            BOOST_TEST(cli.command({"CLIENT", "CACHING", "YES"}).is_ok());
        }
        words.insert(words.end(), {"4", key, readers, intent, turn, "waiter", "20000", who, waits});
        auto const r = cli.command(words);
        BOOST_TEST((r.is_integer() && r.integer() < 0), r);
    }
    /// Pushes for the keys beside it come as well, and the client does not mind.
    bool hears_of_the_key() {
        auto const heard = [&] {
            auto found = false;
            for (auto const& push : cli.take_pushes()) {
                auto const& names = push.elements().at(1);
                if (!names.is_array()) continue; // all keys of the server are gone
                for (auto const& name : names.elements()) found = found || name.string() == key;
            }
            return found;
        };
        (void)cli.command({"PING"}); // the server sends pushes before the replies to later commands
        return heard();
    }

    redis_cli cli;
};

} // namespace

BOOST_AUTO_TEST_CASE(who_waits_hears_of_the_key) {
    with_each([](rw_client& c) {
        for (auto const whole : {true, false}) {
            waiting_client reader(c), writer(c);
            auto const writes = redis::write_acquire_script, reads = redis::read_acquire_script;
            // The last reader leaves.
            check_number(c.read("first"), 1);
            check_number(c.read("second"), 1);
            writer.is_refused(writes, whole, others);
            BOOST_TEST(!writer.hears_of_the_key());
            check_number(c.leave("first"), 1);
            BOOST_TEST(!writer.hears_of_the_key());
            check_number(c.leave("second"), 1);
            BOOST_TEST(writer.hears_of_the_key());
            // A writer takes its note away: while there are readers, and while the key is free.
            check_number(c.read("first", 20s, heals), 1);
            reader.is_refused(reads, whole, us);
            BOOST_TEST(!reader.hears_of_the_key());
            check_number(c.extend("first"), 1);
            BOOST_TEST(!reader.hears_of_the_key());
            check_number(c.end_write("fresh", 15s, others), 0);
            BOOST_TEST(reader.hears_of_the_key());
            check_number(c.leave("first"), 1);
            c.admin.set(intent, others, 20s);
            reader.is_refused(reads, whole, us);
            check_number(c.end_write("fresh", 15s, others), 0);
            BOOST_TEST(reader.hears_of_the_key());
            // A writer releases, and so does one that has become a reader elsewhere.
            for (auto const reader_releases : {false, true}) {
                c.admin.flush();
                check_number(c.write("me"), 1);
                reader.is_refused(reads, whole, others);
                writer.is_refused(writes, whole, others);
                BOOST_TEST(!reader.hears_of_the_key());
                check_number(reader_releases ? c.leave("me") : c.end_write("me"), 1);
                BOOST_TEST(reader.hears_of_the_key());
                BOOST_TEST(writer.hears_of_the_key());
            }
            // A writer's lease becomes a reader's.
            c.admin.flush();
            check_number(c.write("me"), 1);
            reader.is_refused(reads, whole, others);
            check_number(c.extend("me"), 1);
            BOOST_TEST(reader.hears_of_the_key());
            // The reader with the most time leaves, and those that stay may be dead.
            c.admin.flush();
            check_number(c.read("first"), 1);
            check_number(c.read("second", 40s), 1);
            writer.is_refused(writes, whole, others);
            c.admin.set(intent, others, 20s);
            check_number(c.leave("second"), 1);
            BOOST_TEST(writer.hears_of_the_key());
            // The readers take their turn.
            c.admin.flush();
            c.admin.set(turn, "open", 20s);
            writer.is_refused(writes, whole, others);
            check_number(c.read("first"), 1);
            BOOST_TEST(writer.hears_of_the_key());
            c.admin.flush();
        }
    });
}

//
// Commands that the server refuses within a script
//

BOOST_AUTO_TEST_CASE(the_rights_of_the_documents_are_enough) {
    on_each_server([](server_kind const& kind) {
        rw_client c(kind);
        auto rules = access::keys("page:");
        for (auto const& more : {access::fence_keys("page:"), access::reader_keys("page:"),
                                 access::locks, access::readers, access::pushes})
            rules.insert(rules.end(), more.begin(), more.end());
        c.r.give(rules);
        check_number(c.fenced_read("first", "1"), 1);
        check_number(c.read("second"), 1);
        c.end_time_of("second");
        check_number(c.read("third"), 1);
        check_number(c.raise("first", "5"), 1);
        check_number(c.extend("first", 40s), 1);
        check_refused(c.write("writer", 20s, waits), 35s, 41s);
        check_refused(c.read("new", 20s, waits, others), 15s, 20s);
        check_number(c.end_write("fresh"), 0);
        check_number(c.leave("third"), 1);
        check_number(c.leave("first"), 1);
        check_number(c.fenced_write("writer", "1"), 6);
        check_number(c.end_write("writer"), 1);
        check_number(c.fenced_write("writer", "1", 20s, heals), 7);
        check_number(c.extend("writer"), 1);
        BOOST_TEST(c.r.redis.refusals() == texts{}, boost::test_tools::per_element());
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_is_needed_nothing_is_left) {
    on_each_server([](server_kind const& kind) {
        for (auto const* const missing :
             {"+time", "+get", "+set", "+zcard", "+zadd", "+pexpire", "+eval"}) {
            BOOST_TEST_CONTEXT(missing) {
                // Without EXISTS, each key is looked at also if none is there.
                rw_client c(kind, {missing, "+exists"});
                check_denied(c.read("me"));
                check_denied(c.fenced_read("me", "1"));
                auto const left = c.left();
                BOOST_TEST((left.empty() || left == texts{counter}));
                // Readers of others stay as they are.
                c.r.change(missing);
                check_number(c.read("other", 20s), 1);
                auto const right = std::string(missing);
                c.r.change('-' + right.substr(1));
                auto const needs = right != "+set" && right != "+pexpire";
                auto const r = c.read("me", 10s);
                if (needs) check_denied(r);
                BOOST_TEST(c.members().size() == (needs ? 1U : 2U));
                auto const longer = c.read("longer", 40s);
                check_denied(longer);
                BOOST_TEST(!c.time_of("longer").has_value());
                c.check_sound();
                check_number(c.admin.command({"EXISTS", key}), 1);
            }
        }
        for (auto const* const missing : {"+get", "+set", "+zrange"}) {
            BOOST_TEST_CONTEXT(missing) {
                rw_client c(kind, {missing, "+exists"});
                check_denied(c.write("me"));
                check_denied(c.fenced_write("me", "1"));
                BOOST_TEST(c.left().empty());
            }
        }
        // The server has no time for readers.
        rw_client c(kind);
        check_number(c.read("me", 20s), 1);
        c.r.change("-time");
        check_denied(c.extend("me"));
        check_denied(c.raise("me", "5"));
        check_denied(c.leave("me"));
        check_denied(c.write("writer"));
        check_denied(c.read("other"));
        BOOST_TEST(c.members() == texts{"me"}, boost::test_tools::per_element());
        BOOST_TEST((*c.time_of("me") <= 20s + 1ms));
        // A writer's lease stays a writer's.
        c.r.change("+time");
        for (auto const* const missing : {"-zadd", "-pexpire", "-set", "-time"}) {
            c.admin.flush();
            c.admin.set(key, "me", 20s);
            c.r.change(missing);
            check_denied(c.extend("me", 40s));
            BOOST_TEST(c.at(key) == "me");
            check_keys(c, {key});
            c.r.change('+' + std::string(missing).substr(1));
        }
        // A user who has no right to one of the keys.
        c.admin.flush();
        c.r.change("resetkeys");
        c.r.change("~page:*");
        check_denied(c.read("me"));
        check_denied(c.write("me"));
        BOOST_TEST(c.left().empty());
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_can_be_done_without) {
    on_each_server([](server_kind const& kind) {
        rw_client c(kind, {"+zremrangebyscore", "+exists"});
        check_number(c.read("me"), 1);
        c.end_time_of("me");
        check_number(c.read("other"), 1);
        BOOST_TEST(c.members().size() == 2U);
        check_number(c.leave("other"), 1);
        check_number(c.write("writer"), 1);
        check_number(c.end_write("writer"), 1);
        BOOST_TEST(c.left().empty());
    });
}

// A rule may allow a command on some keys only, so that the script fails in the middle.
BOOST_AUTO_TEST_CASE(a_refusal_in_the_middle_leaves_nothing) {
    on_each_server([](server_kind const& kind) {
        rw_client c(kind, {"+set", "+pexpire"});
        auto const may = [&](std::string const& rules) {
            return c.admin
                .command({"ACL", "SETUSER", std::string(access::user), "clearselectors", rules})
                .is_ok();
        };
        if (!may("(+pexpire ~" + readers + ")")) return; // a server without selectors
        check_denied(c.read("me"));
        BOOST_TEST(c.left().empty());
        c.admin.set(key, "me", 20s);
        check_denied(c.extend("me"));
        BOOST_TEST(c.at(key) == "me");
        check_keys(c, {key});
        c.admin.flush();
        BOOST_REQUIRE(may("(+set ~" + key + ")"));
        check_denied(c.read("me"));
        BOOST_TEST(c.left().empty());
        // The counter alone.
        BOOST_REQUIRE(may("(+pexpire ~" + key + ")"));
        check_denied(c.fenced_read("me", "1"));
        BOOST_TEST(c.left().empty());
    });
}

BOOST_AUTO_TEST_CASE(a_full_server_admits_nobody) {
    with_each([](rw_client& c) {
        auto const full = [&](bool is) { c.admin.config("maxmemory", is ? "1" : "0"); };
        full(true);
        check_error(c.read("me"), "OOM");
        check_error(c.fenced_read("me", "1"), "OOM");
        check_error(c.write("me"), "OOM");
        check_error(c.fenced_write("me", "1"), "OOM");
        full(false);
        BOOST_TEST(c.left().empty());
        check_number(c.read("me", 40s), 1);
        full(true);
        check_error(c.read("other"), "OOM");
        check_error(c.extend("me", 60s), "OOM");
        check_refused(c.write("writer", 20s, waits), 30s, 41s);
        check_number(c.leave("me"), 1);
        full(false);
        BOOST_TEST(c.left().empty());
        // It has room again where readers have gone.
        check_number(c.read("me", 40s), 1);
        c.end_time_of("me");
        full(true);
        check_number(c.write("writer"), 1);
        check_number(c.end_write("writer"), 1);
        full(false);
        BOOST_TEST(c.left().empty());
    });
}

//
// All together
//

// Any order of commands, each of which may be late: the key is the mark if and only if there are
// readers, nothing stays for good, and no command ends the lease of another.
BOOST_AUTO_TEST_CASE(after_each_of_many_commands_the_keys_are_sound) {
    with_each([](rw_client& c) {
        texts const tokens{"a", "b", "c"}, names{us, others}, manners{waits, only_tries, heals};
        std::mt19937_64 random(7);
        auto const of = [&](texts const& all) { return all[random() % all.size()]; };
        unsigned grants = 0;
        for (auto step = 0; step < 600; ++step) {
            auto const token = of(tokens), who = of(names), how = of(manners);
            milliseconds const ttl = 10s * (1 + static_cast<int>(random() % 5));
            struct lease {
                std::string token;
                bool writes;
                milliseconds left;
            };
            std::vector<lease> before;
            for (auto const& each : tokens) {
                if (c.at(key) == each) before.push_back({each, true, c.life(key)});
                auto const left = c.is_shared() ? c.time_of(each) : std::nullopt;
                if (left && *left > 0ms) before.push_back({each, false, *left});
            }
            auto released = false;
            reply r;
            switch (random() % 8) {
            case 0:
                r = c.read(token, ttl, how, who);
                break;
            case 1:
                r = c.fenced_read(token, "1", ttl, how);
                break;
            case 2:
                r = c.extend(token, ttl);
                break;
            case 3:
                r = c.raise(token, "3");
                break;
            case 4:
                r = c.leave(token, 50ms);
                released = true;
                break;
            case 5:
                r = c.write(token, ttl, how, who);
                break;
            case 6:
                r = c.fenced_write(token, "1", ttl, how);
                break;
            default:
                r = c.end_write(token, 50ms, who);
                released = true;
            }
            BOOST_TEST(r.is_integer(), r);
            if (r.is_integer() && r.integer() > 0) ++grants;
            if (random() % 8 == 0 && c.time_of(token)) c.end_time_of(token), released = true;
            BOOST_TEST(c.is_shared() == c.admin.exists(readers));
            for (auto const& name : c.left()) BOOST_TEST((c.life(name) != -1ms), name);
            for (auto const& each : before) {
                if (released && each.token == token) continue;
                auto const is_reader = c.is_shared() && c.time_of(each.token).has_value();
                auto const left = is_reader ? *c.time_of(each.token) : c.life(key);
                BOOST_TEST((is_reader || (each.writes && c.at(key) == each.token)), each.token);
                BOOST_TEST((left > each.left - 2s), each.token);
                if (is_reader) BOOST_TEST((c.life(key) >= left - 1s));
            }
        }
        BOOST_TEST(grants > 100U);
    });
}

BOOST_AUTO_TEST_SUITE_END()
