// The scripts for permits, on real servers.
#include "redis/wire/kinds/permit_scripts.hpp"

#include "integration/script_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

std::string const key = "workers", until = "{workers}:until", fences = "{workers}:fences";

class permit_client : public script_client {
public:
    using script_client::script_client;

    reply take(std::string const& token, unsigned start = 0, unsigned permits = 4,
               milliseconds ttl = 20s) {
        return run(redis::permit_take_script,
                   {token, ms(ttl), std::to_string(permits), std::to_string(start), "from"});
    }
    /// A heal, or the second round of a try.
    reply take_only(std::string const& token, unsigned slot, unsigned permits = 4,
                    milliseconds ttl = 20s) {
        return run(redis::permit_take_script,
                   {token, ms(ttl), std::to_string(permits), std::to_string(slot), "only"});
    }
    reply fenced_take(std::string const& token, unsigned start, std::string const& hint,
                      std::string const& how = "from", milliseconds fence_ttl = 60s) {
        return run(redis::permit_fenced_take_script,
                   {token, "20000", "4", std::to_string(start), how, hint, ms(fence_ttl)}, true);
    }
    reply extend(std::string const& token, unsigned slot, milliseconds ttl = 20s) {
        return run(redis::permit_extend_script, {token, ms(ttl), std::to_string(slot)});
    }
    reply raise(std::string const& token, unsigned slot, std::string const& number,
                milliseconds ttl = 60s) {
        return run(redis::permit_raise_script, {token, number, ms(ttl), std::to_string(slot)},
                   true);
    }
    reply leave(std::string const& token) { return run(redis::permit_release_script, {token}); }
    reply peek(unsigned permits = 4) {
        return run(redis::permit_peek_script, {"me", std::to_string(permits), "64"});
    }

    /// The tokens by their slots.
    std::map<std::string, unsigned> slots() {
        std::map<std::string, unsigned> all;
        for (auto const& [token, score] : scores(key))
            all[token] = static_cast<unsigned>(std::stoul(score));
        return all;
    }
    std::optional<milliseconds> time_of(std::string const& token) { return time_in(until, token); }
    void end_time_of(std::string const& token) { end_time_in(until, token); }
    std::string counter_of(unsigned slot) {
        auto const score = admin.command({"ZSCORE", fences, std::to_string(slot)});
        return score.is_nil() ? "none" : score.string();
    }
    std::vector<std::pair<std::string, std::string>> scores(std::string const& name) {
        std::vector<std::pair<std::string, std::string>> all;
        auto const found = admin.command({"ZRANGE", name, "0", "-1", "WITHSCORES"});
        for (std::size_t i = 0; i + 1 < found.elements().size(); i += 2)
            all.emplace_back(found.elements()[i].string(), found.elements()[i + 1].string());
        return all;
    }

    /// What holds after each script: both sets have the same members, each in a slot of its own,
    /// they do not expire before a deadline, and nothing stays for good.
    void check_sound() {
        auto const all = slots();
        auto const deadlines = scores(until);
        BOOST_TEST(all.size() == deadlines.size());
        std::vector<unsigned> taken;
        for (auto const& [token, slot] : all) {
            taken.push_back(slot);
            auto const left = time_of(token);
            BOOST_REQUIRE(left.has_value());
            for (auto const& name : {key, until})
                BOOST_TEST((life(name) + 50ms >= *left), name << ' ' << token);
        }
        std::ranges::sort(taken);
        BOOST_TEST((std::ranges::adjacent_find(taken) == taken.end()));
        for (auto const& name : left()) BOOST_TEST((life(name) > 0ms), name);
    }

private:
    reply run(std::string_view script, texts const& args, bool counts = false) {
        texts keys{key, until};
        if (counts) keys.push_back(fences);
        return cli.command(eval(script, keys, args));
    }
};

void check_fenced(reply const& r, std::int64_t slot, std::int64_t number) {
    BOOST_TEST(r.is_array(), r);
    if (!r.is_array()) return;
    BOOST_REQUIRE(r.elements().size() == 2U);
    check_number(r.elements()[0], slot);
    check_number(r.elements()[1], number);
}

void check_peek(reply const& r, milliseconds least, milliseconds most, std::string const& text,
                std::string const& type = "zset") {
    BOOST_TEST(r.is_array(), r);
    if (!r.is_array()) return;
    BOOST_REQUIRE(r.elements().size() == 3U);
    check_refused(r.elements()[0], least, most);
    BOOST_TEST(r.elements()[1].string() == text);
    BOOST_TEST(r.elements()[2].string() == type);
}
void check_peek_free(reply const& r) {
    BOOST_TEST(r.is_array(), r);
    if (r.is_array()) check_number(r.elements().at(0), 0);
}

using slots_of = std::map<std::string, unsigned>;

void check_slots(permit_client& c, slots_of const& expected) {
    BOOST_TEST((c.slots() == expected));
    c.check_sound();
}

template <class Test>
void with_each(Test test) {
    on_each_server([&](server_kind const& kind) {
        permit_client c(kind);
        test(c);
    });
}

} // namespace

BOOST_AUTO_TEST_SUITE(permit_scripts)

//
// Takes
//

BOOST_AUTO_TEST_CASE(a_take_gets_the_first_free_slot_round_from_its_start) {
    with_each([](permit_client& c) {
        check_number(c.take("a", 2), 2);
        check_keys(c, {key, until});
        BOOST_TEST((*c.time_of("a") > 15s && *c.time_of("a") <= 20s + 1ms));
        // The keys live for longer than the token.
        BOOST_TEST((c.life(key) > 25s && c.life(key) <= 30s));
        check_number(c.take("b", 2, 4, 40s), 3);
        BOOST_TEST((*c.time_of("b") > 35s));
        BOOST_TEST((c.life(key) > 55s));
        check_number(c.take("c", 2), 0);
        check_slots(c, {{"a", 2}, {"b", 3}, {"c", 0}});
        check_number(c.take("d", 0), 1);
        check_slots(c, {{"a", 2}, {"b", 3}, {"c", 0}, {"d", 1}});
        // Full: until the first deadline.
        (void)c.leave("c");
        check_number(c.take("c", 3, 4, 10s), 0);
        for (auto start = 0U; start < 4; ++start) check_refused(c.take("e", start), 5s, 10s + 1ms);
        check_refused(c.fenced_take("e", 1, "1"), 5s, 10s + 1ms);
        check_slots(c, {{"a", 2}, {"b", 3}, {"c", 0}, {"d", 1}});
        // A start beyond the slots is one of them, too.
        (void)c.leave("d");
        check_number(c.take("e", 9), 1);
        c.check_sound();
    });
}

BOOST_AUTO_TEST_CASE(a_single_permit) {
    with_each([](permit_client& c) {
        check_number(c.take("a", 0, 1), 0);
        check_refused(c.take("b", 0, 1), 15s, 20s + 1ms);
        check_refused(c.take_only("b", 0, 1), 15s, 20s + 1ms);
        check_number(c.leave("a"), 1);
        check_number(c.take("b", 0, 1), 0);
        check_slots(c, {{"b", 0}});
    });
}

// From each start, with each set of taken slots.
BOOST_AUTO_TEST_CASE(the_first_free_slot_is_found_wherever_it_is) {
    on_two_servers([](server_kind const& kind) {
        permit_client c(kind);
        constexpr unsigned permits = 6;
        for (auto taken = 0U; taken < (1U << permits); ++taken) {
            c.admin.flush();
            for (auto slot = 0U; slot < permits; ++slot) {
                if ((taken >> slot & 1U) != 0)
                    check_number(c.take_only("t" + std::to_string(slot), slot, permits), slot);
            }
            for (auto start = 0U; start < permits; ++start) {
                std::optional<unsigned> expected;
                for (auto i = 0U; i < permits && !expected; ++i) {
                    auto const slot = (start + i) % permits;
                    if ((taken >> slot & 1U) == 0) expected = slot;
                }
                auto const r = c.take("me", start, permits);
                if (!expected) {
                    check_refused(r, 10s, 21s);
                    continue;
                }
                check_number(r, *expected);
                check_number(c.leave("me"), 1);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(a_token_keeps_its_slot) {
    with_each([](permit_client& c) {
        check_number(c.take("a", 1), 1);
        // A second try, also one that begins elsewhere, or that finds no free slot.
        check_number(c.take("a", 3), 1);
        check_number(c.take_only("a", 1), 1);
        for (auto const* const token : {"b", "c", "d"}) BOOST_TEST(c.take(token).integer() >= 0);
        check_number(c.take("a", 3), 1);
        check_slots(c, {{"a", 1}, {"b", 0}, {"c", 2}, {"d", 3}});
        // A try with fewer permits does not take it away.
        check_number(c.take("d", 0, 2), 3);
    });
}

BOOST_AUTO_TEST_CASE(tokens_whose_time_has_passed_do_not_count) {
    with_each([](permit_client& c) {
        for (auto const* const token : {"a", "b", "c", "d"}) BOOST_TEST(c.take(token).is_integer());
        c.end_time_of("b");
        c.end_time_of("d");
        check_number(c.take("e", 2), 3);
        check_slots(c, {{"a", 0}, {"c", 2}, {"e", 3}});
        // Our own time has passed: we come anew.
        c.end_time_of("a");
        check_number(c.take("a", 1), 1);
        check_slots(c, {{"a", 1}, {"c", 2}, {"e", 3}});
        // Slots of the dead are free, whoever asks for one.
        c.end_time_of("c");
        check_number(c.take_only("f", 2), 2);
        check_slots(c, {{"a", 1}, {"f", 2}, {"e", 3}});
        // A refusal drops the dead as well.
        (void)c.take("g", 0);
        c.end_time_of("g");
        check_refused(c.take_only("h", 2), 15s, 21s);
        check_slots(c, {{"a", 1}, {"f", 2}, {"e", 3}});
        // A release as well, so the last one deletes the keys.
        c.end_time_of("a");
        c.end_time_of("f");
        check_number(c.leave("e"), 1);
        BOOST_TEST(c.left().empty());
    });
}

// Lua has no room for them all at once.
BOOST_AUTO_TEST_CASE(thousands_that_have_died_are_dropped) {
    with_each([](permit_client& c) {
        command_line slots{"ZADD", key}, deadlines{"ZADD", until};
        for (auto i = 0; i < 10'000; ++i) {
            auto const n = std::to_string(i);
            slots.insert(slots.end(), {n, "t" + n});
            deadlines.insert(deadlines.end(), {"5", "t" + n});
        }
        for (auto const& words : {slots, deadlines}) (void)c.admin.command(words);
        for (auto const& name : {key, until}) (void)c.admin.command({"PEXPIRE", name, "20000"});
        check_number(c.take("me", 7'000, 10'000), 7'000);
        check_slots(c, {{"me", 7'000}});
    });
}

BOOST_AUTO_TEST_CASE(a_permit_of_a_dead_holder_returns_after_its_ttl) {
    with_each([](permit_client& c) {
        check_number(c.take("dead", 0, 1, 100ms), 0);
        auto const end = std::chrono::steady_clock::now() + 10s;
        auto r = c.take("me", 0, 1);
        check_refused(r, 0ms, 101ms);
        while (r.is_integer() && r.integer() < 0 && std::chrono::steady_clock::now() < end)
            r = c.take("me", 0, 1);
        check_number(r, 0);
        check_slots(c, {{"me", 0}});
    });
}

//
// One slot and no other
//

BOOST_AUTO_TEST_CASE(a_token_asks_for_one_slot) {
    with_each([](permit_client& c) {
        check_number(c.take_only("a", 2), 2);
        check_number(c.take_only("a", 2), 2);
        check_slots(c, {{"a", 2}});
        // It moves, and gives its other slot back.
        check_number(c.take_only("a", 0), 0);
        check_slots(c, {{"a", 0}});
        check_number(c.take("b", 2), 2);
        // A slot beyond the number of permits: of a lease that has it elsewhere.
        check_number(c.take_only("c", 9), 9);
        check_slots(c, {{"a", 0}, {"b", 2}, {"c", 9}});
        // It is another's: until the deadline of that one.
        check_number(c.extend("b", 2, 40s), 1);
        check_refused(c.take_only("d", 2), 35s, 41s);
        check_slots(c, {{"a", 0}, {"b", 2}, {"c", 9}});
    });
}

// Two tokens with each other's slot at a minority would keep each other out for good.
BOOST_AUTO_TEST_CASE(who_finds_its_slot_taken_gives_back_the_other_one) {
    with_each([](permit_client& c) {
        check_number(c.take_only("a", 1), 1);
        check_number(c.take_only("b", 0), 0);
        // a belongs to slot 0, b to slot 1.
        check_refused(c.take_only("a", 0), 15s, 21s);
        check_slots(c, {{"b", 0}});
        check_number(c.take_only("b", 1), 1);
        check_number(c.take_only("a", 0), 0);
        check_slots(c, {{"a", 0}, {"b", 1}});
    });
}

//
// Numbers of permits
//

BOOST_AUTO_TEST_CASE(clients_may_differ_in_the_number_of_permits) {
    with_each([](permit_client& c) {
        for (auto const* const token : {"a", "b", "c", "d"}) BOOST_TEST(c.take(token).is_integer());
        // Slots beyond ours are not given, and do not count.
        check_refused(c.take("e", 0, 2), 15s, 21s);
        check_number(c.leave("c"), 1);
        check_refused(c.take("e", 0, 2), 15s, 21s);
        check_number(c.leave("b"), 1);
        check_number(c.take("e", 0, 2), 1);
        check_refused(c.take("f", 1, 2), 15s, 21s);
        check_slots(c, {{"a", 0}, {"d", 3}, {"e", 1}});
        // More permits count at once.
        check_number(c.take("f", 1, 6), 2);
        check_number(c.take("g", 3, 6), 4);
        check_number(c.take("h", 3, 6), 5);
        check_refused(c.take("i", 3, 6), 15s, 21s);
        check_number(c.leave("a"), 1);
        check_number(c.take("i", 3, 6), 0);
        c.check_sound();
    });
}

//
// Held leases
//

BOOST_AUTO_TEST_CASE(an_extension_is_for_the_slot_that_the_tenure_has) {
    with_each([](permit_client& c) {
        check_number(c.extend("a", 0), 0);
        BOOST_TEST(c.left().empty());
        check_number(c.take("a", 3), 3);
        check_number(c.extend("a", 3, 40s), 1);
        BOOST_TEST((*c.time_of("a") > 35s));
        BOOST_TEST((c.life(key) > 55s));
        // Our token has another slot, which stays as it is.
        check_number(c.extend("a", 0, 80s), -4);
        BOOST_TEST((*c.time_of("a") < 41s));
        check_number(c.take("z", 0), 0);
        check_number(c.extend("z", 3, 80s), -1);
        check_number(c.extend("b", 3), 0);
        check_slots(c, {{"a", 3}, {"z", 0}});
        c.end_time_of("a");
        check_number(c.extend("a", 3), 0);
        BOOST_TEST((*c.time_of("a") < 0s));
    });
}

BOOST_AUTO_TEST_CASE(the_key_is_written_once_in_half_a_ttl) {
    with_each([](permit_client& c) {
        check_number(c.take("a", 0, 4, 40s), 0);
        auto const written = [&](auto call) {
            for (auto const& name : {key, until}) (void)c.admin.command({"PEXPIRE", name, "50000"});
            call();
            c.check_sound();
            return c.life(key) > 50s;
        };
        BOOST_TEST(!written([&] { check_number(c.extend("a", 0, 40s), 1); }));
        BOOST_TEST(!written([&] { check_number(c.take("a", 0, 4, 40s), 0); }));
        BOOST_TEST(!written([&] { check_number(c.take("b", 0, 4, 40s), 1); }));
        BOOST_TEST(written([&] { check_number(c.extend("a", 0, 50s), 1); }));
        BOOST_TEST(written([&] { check_number(c.take("c", 0, 4, 50s), 2); }));
    });
}

BOOST_AUTO_TEST_CASE(no_command_shortens_a_life) {
    with_each([](permit_client& c) {
        check_number(c.take("a", 0, 4, 60s), 0);
        auto const last = [&] {
            BOOST_TEST((*c.time_of("a") > 50s));
            BOOST_TEST((c.life(key) > 75s));
            BOOST_TEST((c.life(until) > 75s));
            c.check_sound();
        };
        check_number(c.extend("a", 0, 1s), 1);
        last();
        check_number(c.take("a", 2, 4, 1s), 0);
        check_number(c.take_only("a", 0, 4, 1s), 0);
        last();
        check_number(c.take("b", 0, 4, 1s), 1);
        check_number(c.leave("b"), 1);
        last();
        // It moves with the time that it had.
        check_number(c.take_only("a", 3, 4, 1s), 3);
        last();
        // A key without an end gets one.
        for (auto const& name : {key, until}) (void)c.admin.command({"PERSIST", name});
        check_number(c.extend("a", 3, 60s), 1);
        last();
    });
}

BOOST_AUTO_TEST_CASE(a_release_is_for_whatever_slot_the_token_has) {
    with_each([](permit_client& c) {
        check_number(c.leave("a"), 0);
        BOOST_TEST(c.left().empty());
        check_number(c.take("a", 3), 3);
        check_number(c.take("b", 0), 0);
        check_number(c.leave("c"), 0);
        check_slots(c, {{"a", 3}, {"b", 0}});
        check_number(c.leave("a"), 1);
        check_number(c.leave("a"), 0);
        check_slots(c, {{"b", 0}});
        check_number(c.leave("b"), 1);
        BOOST_TEST(c.left().empty());
        // Its time had passed, so the lease was over.
        check_number(c.take("a"), 0);
        check_number(c.take("b"), 1);
        c.end_time_of("a");
        check_number(c.leave("a"), 0);
        check_slots(c, {{"b", 1}});
        // The counters stay: they are those of the next holders.
        check_fenced(c.fenced_take("c", 0, "1"), 0, 1);
        (void)c.leave("c");
        (void)c.leave("b");
        check_keys(c, {fences});
        c.check_sound();
    });
}

//
// A look at the key
//

BOOST_AUTO_TEST_CASE(a_look_shows_when_the_first_permit_is_free) {
    with_each([](permit_client& c) {
        check_peek_free(c.peek());
        check_number(c.take("a", 0, 2, 40s), 0);
        check_peek_free(c.peek(2));
        check_number(c.take("b", 0, 2, 20s), 1);
        check_peek(c.peek(2), 15s, 20s + 1ms, "b");
        check_peek(c.peek(1), 15s, 20s + 1ms, "b");
        check_peek_free(c.peek(3));
        // It changes nothing.
        c.end_time_of("a");
        check_peek_free(c.peek(2));
        BOOST_TEST(c.slots().size() == 2U);
        // A value of another kind.
        c.admin.flush();
        c.admin.set(key, "other", 20s);
        check_peek(c.peek(), 15s, 20s, "other", "string");
        c.admin.set(key, std::string(500, 'x'));
        check_peek(c.peek(), -1ms, -1ms, std::string(65, 'x'), "string");
        c.admin.flush();
        (void)c.admin.command({"RPUSH", key, "x"});
        check_peek(c.peek(), -1ms, -1ms, "", "list");
    });
}

//
// Keys that are gone, or are another program's
//

// An evicting server may take one of the sets alone. Who has which slot is then unknown.
BOOST_AUTO_TEST_CASE(without_one_of_its_keys_a_semaphore_admits_nobody) {
    with_each([](permit_client& c) {
        for (auto const& lost : {key, until}) {
            BOOST_TEST_CONTEXT(lost) {
                c.admin.flush();
                check_number(c.take("a", 0, 4, 40s), 0);
                check_number(c.take("b", 0, 4, 20s), 1);
                BOOST_TEST(c.admin.del(lost));
                // Until the longest deadline, or the end of the key.
                auto const least = lost == key ? 35s : 55s, most = least + 6s;
                for (auto const* const token : {"a", "new"}) {
                    check_refused(c.take(token, 2), least, most);
                    check_refused(c.take_only(token, 0), least, most);
                    check_refused(c.take_only(token, 3), least, most);
                    check_refused(c.fenced_take(token, 0, "1"), least, most);
                }
                check_number(c.extend("a", 0), 0);
                check_number(c.raise("a", 0, "9"), 0);
                check_number(c.leave("a"), 0);
                check_refused(c.take("new", 2), 15s, most);
                BOOST_TEST(c.left().size() == 1U);
                (void)c.leave("b");
                BOOST_TEST(c.left().empty());
                check_number(c.take("new", 2), 2);
                c.check_sound();
            }
        }
        // The deadlines have passed.
        c.admin.flush();
        check_number(c.take("a"), 0);
        c.end_time_of("a");
        BOOST_TEST(c.admin.del(key));
        check_number(c.take("new"), 0);
        check_slots(c, {{"new", 0}});
        // A key without an end.
        (void)c.admin.command({"PERSIST", key});
        BOOST_TEST(c.admin.del(until));
        check_number(c.take("a"), -2);
    });
}

BOOST_AUTO_TEST_CASE(a_lock_of_another_kind_refuses_permits) {
    with_each([](permit_client& c) {
        c.admin.set(key, "other", 20s);
        check_refused(c.take("me"), 15s, 20s);
        check_refused(c.take_only("me", 1), 15s, 20s);
        check_refused(c.fenced_take("me", 0, "1"), 15s, 20s);
        check_error(c.extend("me", 0), "WRONGTYPE");
        check_error(c.raise("me", 0, "9"), "WRONGTYPE");
        check_error(c.leave("me"), "WRONGTYPE");
        check_keys(c, {key});
        BOOST_TEST(c.admin.get(key).value_or("") == "other");
        c.admin.set(key, "other");
        check_number(c.take("me"), -2);
        c.admin.flush();
        (void)c.admin.command({"RPUSH", key, "x"});
        check_number(c.take("me"), -2);
        check_keys(c, {key});
        // And permits refuse locks of other kinds.
        c.admin.flush();
        check_number(c.take("me"), 0);
        BOOST_TEST(!c.admin.set_if_absent(key, "other", 20s));
        // It has taken the key by force. The token goes from where it still is.
        c.admin.set(key, "other", 20s);
        check_error(c.leave("me"), "WRONGTYPE");
        check_keys(c, {key});
    });
}

BOOST_AUTO_TEST_CASE(a_key_beside_it_of_another_type_is_an_error_and_stays) {
    with_each([](permit_client& c) {
        constexpr std::string_view wrong = "WRONGTYPE";
        (void)c.admin.command({"RPUSH", until, "x"});
        check_error(c.take("me"), wrong);
        check_error(c.take_only("me", 0), wrong);
        check_error(c.fenced_take("me", 0, "1"), wrong);
        check_keys(c, {until});
        check_number(c.admin.command({"ZADD", key, "0", "me", "1", "other"}), 2);
        check_error(c.take("me"), wrong);
        check_error(c.extend("me", 0), wrong);
        check_error(c.raise("me", 0, "9"), wrong);
        check_error(c.peek(2), wrong);
        BOOST_TEST(c.slots().size() == 2U);
        check_error(c.leave("me"), wrong);
        BOOST_TEST((c.slots() == slots_of{{"other", 1}}));
        check_keys(c, {key, until});
    });
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(each_slot_has_a_counter) {
    with_each([](permit_client& c) {
        check_fenced(c.fenced_take("a", 0, "1"), 0, 1);
        BOOST_TEST((c.life(fences) > 50s));
        check_number(c.leave("a"), 1);
        check_fenced(c.fenced_take("b", 0, "1"), 0, 2);
        check_fenced(c.fenced_take("c", 3, "1"), 3, 1);
        BOOST_TEST(c.counter_of(0) == "2");
        BOOST_TEST(c.counter_of(3) == "1");
        // A slot that is ours keeps its number, but for a larger hint.
        check_fenced(c.fenced_take("b", 3, "1"), 0, 2);
        check_fenced(c.fenced_take("b", 0, "1", "only"), 0, 2);
        check_fenced(c.fenced_take("b", 0, "7", "only"), 0, 7);
        // A slot to which a token moves gets the next.
        check_fenced(c.fenced_take("c", 1, "1", "only"), 1, 1);
        check_fenced(c.fenced_take("c", 3, "1", "only"), 3, 2);
        check_slots(c, {{"b", 0}, {"c", 3}});
        // The counters were lost.
        c.admin.del(fences);
        check_fenced(c.fenced_take("b", 0, "7", "only"), 0, 7);
        c.admin.del(fences);
        check_fenced(c.fenced_take("b", 0, "0"), 0, 1);
        c.check_sound();
    });
}

BOOST_AUTO_TEST_CASE(a_hint_lifts_the_counter) {
    with_each([](permit_client& c) {
        check_fenced(c.fenced_take("a", 0, "500"), 0, 500);
        BOOST_TEST(c.counter_of(0) == "500");
        (void)c.leave("a");
        check_fenced(c.fenced_take("a", 0, "500"), 0, 501);
        // One that is far ahead counts only if it is near the clock of the server.
        auto const of_clock = [](std::time_t ahead) {
            return std::to_string((std::time(nullptr) + ahead) * 10'000);
        };
        (void)c.leave("a");
        check_fenced(c.fenced_take("a", 0, of_clock(3'600)), 0, 502);
        (void)c.leave("a");
        auto const hint = of_clock(-3'600);
        check_fenced(c.fenced_take("a", 0, hint), 0, std::stoll(hint));
        (void)c.leave("a");
        check_fenced(c.fenced_take("a", 0, "1"), 0, std::stoll(hint) + 1);
        // A refusal leaves the counter.
        check_refused(c.fenced_take("b", 0, std::to_string(std::stoll(hint) + 50), "only"), 15s,
                      21s);
        check_fenced(c.fenced_take("a", 0, "1"), 0, std::stoll(hint) + 1);
    });
}

BOOST_AUTO_TEST_CASE(no_command_shortens_the_life_of_the_counters) {
    with_each([](permit_client& c) {
        check_fenced(c.fenced_take("a", 0, "1", "from", 90s), 0, 1);
        check_fenced(c.fenced_take("b", 0, "1", "from", 1s), 1, 1);
        check_number(c.raise("a", 0, "9", 1s), 1);
        BOOST_TEST((c.life(fences) > 80s));
        check_fenced(c.fenced_take("c", 0, "1", "from", 200s), 2, 1);
        BOOST_TEST((c.life(fences) > 190s));
    });
}

BOOST_AUTO_TEST_CASE(a_counter_that_no_fence_can_follow_leaves_nothing) {
    with_each([](permit_client& c) {
        for (auto const* const odd : {"90071992547408", "1.5", "-1", "inf"}) {
            c.admin.flush();
            (void)c.admin.command({"ZADD", fences, odd, "0"});
            check_error(c.fenced_take("me", 0, "1"), "FENCE ");
            check_error(c.fenced_take("me", 0, "1", "only"), fences);
            check_keys(c, {fences});
            // The counters of other slots are as good as ever.
            check_fenced(c.fenced_take("me", 1, "1"), 1, 1);
        }
        c.admin.flush();
        (void)c.admin.command({"RPUSH", fences, "x"});
        check_error(c.fenced_take("me", 0, "1"), "FENCE ");
        check_keys(c, {fences});
        check_number(c.take("other", 0), 0);
        check_error(c.fenced_take("me", 0, "1"), "FENCE ");
        BOOST_TEST((c.slots() == slots_of{{"other", 0}}));
    });
}

BOOST_AUTO_TEST_CASE(a_holder_lifts_the_counter_of_its_slot) {
    with_each([](permit_client& c) {
        check_number(c.raise("a", 0, "9"), 0);
        check_fenced(c.fenced_take("a", 2, "1"), 2, 1);
        check_number(c.raise("a", 2, "17"), 1);
        BOOST_TEST(c.counter_of(2) == "17");
        check_number(c.raise("a", 2, "9"), 1);
        BOOST_TEST(c.counter_of(2) == "17");
        check_number(c.raise("a", 2, "17", 90s), 1);
        BOOST_TEST((c.life(fences) > 80s));
        check_number(c.raise("a", 0, "50"), -3);
        check_number(c.raise("b", 2, "50"), 0);
        BOOST_TEST(c.counter_of(0) == "none");
        BOOST_TEST(c.counter_of(2) == "17");
        c.admin.del(fences);
        check_number(c.raise("a", 2, "17"), 1);
        BOOST_TEST(c.counter_of(2) == "17");
        c.check_sound();
        c.end_time_of("a");
        check_number(c.raise("a", 2, "50"), 0);
    });
}

//
// Waking
//

namespace {

/// A client that was refused, and hears of the key.
class waiting_client {
public:
    explicit waiting_client(permit_client& c)
        : cli(c.r.redis) {
        c.log_in(cli);
        (void)cli.command({"HELLO", "3"});
        BOOST_TEST(cli.command({"CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"}).is_ok());
    }
    void asks(std::string_view script, texts const& arguments) {
        (void)cli.take_pushes();
        command_line words{"EVALSHA", cli.command({"SCRIPT", "LOAD", std::string(script)}).string(),
                           "2", key, until};
        words.insert(words.end(), arguments.begin(), arguments.end());
        BOOST_TEST(cli.command({"CLIENT", "CACHING", "YES"}).is_ok());
        auto const r = cli.command(words);
        BOOST_TEST(!r.is_error(), r);
    }
    /// Refused, by a take as its last argument has it.
    void takes(std::string const& token, std::string const& slot, std::string const& how) {
        asks(redis::permit_take_script, {token, "20000", "2", slot, how});
    }
    void peeks() { asks(redis::permit_peek_script, {"waiter", "2", "64"}); }
    /// Pushes for the keys beside it come as well, and the client does not mind.
    bool hears_of_the_key() {
        (void)cli.command({"PING"}); // the server sends pushes before the replies to later commands
        auto found = false;
        for (auto const& push : cli.take_pushes()) {
            auto const& names = push.elements().at(1);
            if (!names.is_array()) continue; // all keys of the server are gone
            for (auto const& name : names.elements()) found = found || name.string() == key;
        }
        return found;
    }

    redis_cli cli;
};

} // namespace

BOOST_AUTO_TEST_CASE(who_waits_hears_of_the_key) {
    with_each([](permit_client& c) {
        waiting_client taker(c), watcher(c);
        auto const hear = [&](bool expected) {
            BOOST_TEST(taker.hears_of_the_key() == expected);
            BOOST_TEST(watcher.hears_of_the_key() == expected);
        };
        auto const wait = [&] {
            taker.takes("waiter", "0", "from");
            watcher.peeks();
            hear(false);
        };
        check_number(c.take("a", 0, 2), 0);
        check_number(c.take("b", 0, 2), 1);
        wait();
        // Extensions wake nobody.
        check_number(c.extend("a", 0, 15s), 1);
        hear(false);
        check_number(c.leave("a"), 1);
        hear(true);
        // Another drops a token that has died.
        check_number(c.take("a", 0, 2), 0);
        wait();
        c.end_time_of("a");
        check_refused(c.take_only("other", 1, 2), 15s, 21s);
        hear(true);
        // A token moves.
        check_number(c.take("a", 0, 2), 0);
        check_number(c.take_only("d", 2, 2), 2);
        wait();
        check_number(c.take_only("d", 3, 2), 3);
        hear(true);
        // One gives back a slot, because the other is taken.
        wait();
        check_refused(c.take_only("d", 0, 2), 15s, 21s);
        hear(true);
        check_slots(c, {{"a", 0}, {"b", 1}});
        // A refusal that writes the key: what it reads comes last.
        check_number(c.take_only("dead", 5, 2), 5);
        c.end_time_of("dead");
        taker.takes("waiter", "0", "from");
        check_number(c.leave("a"), 1);
        BOOST_TEST(taker.hears_of_the_key());
        check_number(c.take("a", 0, 2), 0);
        check_number(c.take_only("waiter", 5, 2), 5);
        taker.takes("waiter", "0", "only");
        BOOST_TEST(!taker.hears_of_the_key());
        check_slots(c, {{"a", 0}, {"b", 1}});
        check_number(c.leave("a"), 1);
        BOOST_TEST(taker.hears_of_the_key());
        // While one of the keys is missing.
        check_number(c.take("a", 0, 2), 0);
        BOOST_TEST(c.admin.del(until));
        wait();
        check_number(c.leave("a"), 0);
        hear(true);
    });
}

//
// Cost
//

// The number of commands, not the time: servers count what scripts call.
BOOST_AUTO_TEST_CASE(the_cost_of_a_take_grows_by_a_logarithm_at_most) {
    with_each([](permit_client& c) {
        auto const calls = [&] {
            std::uint64_t all = 0;
            auto const text = c.admin.command({"INFO", "commandstats"}).string();
            for (auto at = text.find("cmdstat_z"); at != text.npos;
                 at = text.find("cmdstat_z", at + 1))
                all += std::stoull(text.substr(text.find("calls=", at) + 6));
            return all;
        };
        auto const cost_of = [&](auto call) {
            auto const before = calls();
            call();
            return calls() - before;
        };
        auto const fill = [&](unsigned permits, unsigned but) {
            c.admin.flush();
            command_line slots{"ZADD", key}, deadlines{"ZADD", until};
            for (auto i = 0U; i < permits; ++i) {
                if (i == but) continue;
                auto const n = std::to_string(i);
                slots.insert(slots.end(), {n, "t" + n});
                deadlines.insert(deadlines.end(), {"99999999999999", "t" + n});
            }
            for (auto const& words : {slots, deadlines}) (void)c.admin.command(words);
            for (auto const& name : {key, until}) (void)c.admin.command({"PEXPIRE", name, "60000"});
        };
        constexpr std::uint64_t sure = 9; // without the search
        auto const free = cost_of([&] { check_number(c.take("me", 3, 10'000), 3); });
        BOOST_TEST(free <= sure);
        BOOST_TEST(cost_of([&] { check_number(c.extend("me", 3), 1); }) <= 3U);
        BOOST_TEST(cost_of([&] { check_number(c.leave("me"), 1); }) <= 4U);
        struct size {
            unsigned permits, steps;
        };
        for (auto const& each : {size{10, 4}, size{100, 7}, size{1'000, 10}, size{10'000, 14}}) {
            auto const permits = each.permits, steps = each.steps;
            BOOST_TEST_CONTEXT(permits) {
                // The last slot that the search comes to: up from the start, round, and back.
                fill(permits, permits / 2 - 1);
                auto const worst = cost_of(
                    [&] { check_number(c.take("me", permits / 2, permits), permits / 2 - 1); });
                BOOST_TEST(worst <= sure + 4U * steps);
                fill(permits, permits);
                auto const full = cost_of([&] { (void)c.take("me", 1, permits); });
                BOOST_TEST(full <= sure);
                // Half of them are free, as is most often so.
                fill(permits / 2, permits);
                auto const usual =
                    cost_of([&] { check_number(c.take("me", permits - 1, permits), permits - 1); });
                BOOST_TEST(usual <= sure);
            }
        }
    });
}

//
// Commands that the server refuses within a script
//

BOOST_AUTO_TEST_CASE(the_rights_of_the_documents_are_enough) {
    on_each_server([](server_kind const& kind) {
        permit_client c(kind);
        auto rules = access::keys(key);
        for (auto const& more : {access::permit_keys(key), access::locks, access::permits})
            rules.insert(rules.end(), more.begin(), more.end());
        c.r.give(rules);
        check_fenced(c.fenced_take("a", 0, "1"), 0, 1);
        check_number(c.take("b", 0), 1);
        c.end_time_of("b");
        check_number(c.take("c", 0), 1);
        check_number(c.take_only("c", 3), 3);
        check_refused(c.take_only("c", 0), 15s, 21s);
        check_refused(c.take("d", 0, 1), 15s, 21s);
        check_number(c.raise("a", 0, "5"), 1);
        check_number(c.extend("a", 0, 40s), 1);
        check_peek(c.peek(1), 35s, 41s, "a");
        check_number(c.admin.command({"DEL", until}), 1);
        check_refused(c.take("d", 0), 50s, 61s);
        check_number(c.leave("a"), 0);
        check_keys(c, {fences});
        BOOST_TEST(c.r.redis.refusals() == texts{}, boost::test_tools::per_element());
        // A look at another kind of key shows what TYPE and GETRANGE may show.
        c.admin.set(key, "other", 20s);
        check_peek(c.peek(), 15s, 20s, "", "");
        for (auto const& right : access::reports) c.r.change(right);
        check_peek(c.peek(), 15s, 20s, "other", "string");
    });
}

BOOST_AUTO_TEST_CASE(without_a_right_that_is_needed_nothing_is_left) {
    on_each_server([](server_kind const& kind) {
        for (auto const* const missing :
             {"+time", "+zscore", "+zrangebyscore", "+zcard", "+pttl", "+zadd", "+pexpire"}) {
            BOOST_TEST_CONTEXT(missing) {
                permit_client c(kind, {missing});
                check_denied(c.take("me"));
                check_denied(c.take_only("me", 1));
                check_denied(c.fenced_take("me", 0, "1"));
                BOOST_TEST(c.left().empty());
                // Permits of others stay as they are.
                c.r.change(missing);
                check_number(c.take("other", 0, 4, 20s), 0);
                c.r.change('-' + std::string(missing).substr(1));
                check_denied(c.take("me", 1, 4, 40s));
                check_slots(c, {{"other", 0}});
                if (std::string_view(missing) == "+zcard") continue;
                if (std::string_view(missing) == "+zrangebyscore") continue;
                check_denied(c.extend("other", 0, 40s));
                BOOST_TEST((*c.time_of("other") <= 20s + 1ms));
                check_slots(c, {{"other", 0}});
            }
        }
        permit_client c(kind, {"+zcount", "+zrange"});
        check_number(c.take("other", 0, 1), 0);
        check_denied(c.take("me", 0, 1));
        check_denied(c.take("me", 0, 2));
        check_slots(c, {{"other", 0}});
        check_number(c.take_only("me", 1), 1);
        c.r.change("-zrem");
        check_denied(c.leave("me"));
        check_slots(c, {{"other", 0}, {"me", 1}});
        // A user who has no right to one of the keys.
        c.r.change("+zrem");
        c.admin.flush();
        c.r.change("resetkeys");
        c.r.change("~" + key);
        check_denied(c.take("me"));
        BOOST_TEST(c.left().empty());
        c.r.change("~" + until);
        check_denied(c.fenced_take("me", 0, "1"));
        BOOST_TEST(c.left().empty());
        check_number(c.take("me"), 0);
    });
}

// A rule may allow a command on some keys only, so that the script fails in the middle.
BOOST_AUTO_TEST_CASE(a_refusal_in_the_middle_leaves_nothing) {
    on_each_server([](server_kind const& kind) {
        permit_client c(kind, {"+zadd", "+pexpire"});
        auto const may = [&](texts const& rules) {
            command_line words{"ACL", "SETUSER", std::string(access::user), "clearselectors"};
            words.insert(words.end(), rules.begin(), rules.end());
            return c.admin.command(words).is_ok();
        };
        auto const some = [](std::string const& command, std::string const& name) {
            return "(+" + command + " ~" + name + ")";
        };
        if (!may({some("zadd", key)})) return; // a server without selectors
        check_denied(c.take("me"));
        BOOST_TEST(c.left().empty());
        auto const both = some("zadd", key + " ~" + until);
        for (auto const& rules : {texts{both}, texts{both, some("pexpire", key)}}) {
            BOOST_REQUIRE(may(rules));
            check_denied(c.take("me"));
            check_denied(c.take_only("me", 1));
            BOOST_TEST(c.left().empty());
        }
        // The counters come last.
        auto const lives = some("pexpire", key + " ~" + until);
        BOOST_REQUIRE(may({both, lives}));
        check_number(c.take("other", 3), 3);
        check_denied(c.fenced_take("me", 0, "1"));
        check_slots(c, {{"other", 3}});
        check_keys(c, {key, until});
        BOOST_REQUIRE(may({both, lives, some("zadd", fences)}));
        check_denied(c.fenced_take("me", 0, "1"));
        check_slots(c, {{"other", 3}});
        check_keys(c, {key, until});
        // A slot that was ours stays ours.
        check_denied(c.fenced_take("other", 3, "1"));
        check_slots(c, {{"other", 3}});
    });
}

BOOST_AUTO_TEST_CASE(a_full_server_admits_nobody) {
    with_each([](permit_client& c) {
        auto const full = [&](bool is) { c.admin.config("maxmemory", is ? "1" : "0"); };
        full(true);
        check_error(c.take("me"), "OOM");
        check_error(c.fenced_take("me", 0, "1"), "OOM");
        full(false);
        BOOST_TEST(c.left().empty());
        check_number(c.take("me", 0, 1, 40s), 0);
        full(true);
        check_error(c.take("other", 0, 2), "OOM");
        check_refused(c.take("other", 0, 1), 30s, 41s);
        check_error(c.extend("me", 0, 50s), "OOM");
        BOOST_TEST((*c.time_of("me") < 41s));
        // A script that has prolonged the keys may go on.
        check_number(c.extend("me", 0, 60s), 1);
        check_number(c.leave("me"), 1);
        full(false);
        BOOST_TEST(c.left().empty());
    });
}

//
// All together
//

// Any order of commands, each of which may be late: no slot has two tokens, nothing stays for good,
// and no command ends the lease of another, or shortens it.
BOOST_AUTO_TEST_CASE(after_each_of_many_commands_the_keys_are_sound) {
    with_each([](permit_client& c) {
        texts const tokens{"a", "b", "c", "d", "e"};
        std::mt19937_64 random(7);
        unsigned grants = 0, refusals = 0, others = 0;
        for (auto step = 0; step < 600; ++step) {
            auto const token = tokens[random() % tokens.size()];
            auto const slot = static_cast<unsigned>(random() % 4);
            auto const permits = 2 + static_cast<unsigned>(random() % 3);
            milliseconds const ttl = 10s * (1 + static_cast<int>(random() % 5));
            std::map<std::string, milliseconds> before;
            for (auto const& each : tokens) {
                auto const left = c.time_of(each);
                if (left && *left > 0ms) before[each] = *left;
            }
            auto const slots = c.slots();
            auto ends = false;
            reply r;
            switch (random() % 8) {
            case 0:
            case 1:
                r = c.take(token, slot, permits, ttl);
                break;
            case 2:
                r = c.take_only(token, slot, permits, ttl);
                ends = r.is_integer() && r.integer() < 0; // it has given its slot back
                break;
            case 3:
                r = c.fenced_take(token, slot, "1");
                if (r.is_array()) {
                    auto const number = r.elements()[0]; // r owns it
                    r = number;
                }
                break;
            case 4:
            case 5:
                r = c.extend(token, slot, ttl);
                others += r.is_integer() && r.integer() < 0 ? 1 : 0;
                break;
            case 6:
                r = c.raise(token, slot, "3");
                break;
            default:
                r = c.leave(token);
                ends = true;
            }
            BOOST_TEST(r.is_integer(), r);
            if (r.is_integer() && r.integer() >= 0) ++grants;
            if (r.is_integer() && r.integer() < -2) ++refusals;
            if (random() % 8 == 0 && c.time_of(token)) c.end_time_of(token), ends = true;
            auto const now = c.slots();
            std::vector<unsigned> taken;
            for (auto const& each : now) taken.push_back(each.second);
            std::ranges::sort(taken);
            BOOST_TEST((std::ranges::adjacent_find(taken) == taken.end()));
            BOOST_TEST(c.scores(until).size() == now.size());
            for (auto const& name : c.left()) BOOST_TEST((c.life(name) > 0ms), name);
            for (auto const& [each, left] : before) {
                if (ends && each == token) continue;
                BOOST_TEST_REQUIRE(now.count(each) == 1U, each);
                if (each != token) BOOST_TEST(now.at(each) == slots.at(each));
                BOOST_TEST((*c.time_of(each) > left - 2s), each);
                BOOST_TEST((c.life(key) >= *c.time_of(each) - 1s));
            }
        }
        BOOST_TEST(grants > 100U);
        BOOST_TEST(refusals > 20U);
        BOOST_TEST(others > 10U);
    });
}

BOOST_AUTO_TEST_SUITE_END()
