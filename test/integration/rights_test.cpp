// A right that is missing, one at a time: the client does without, or says access_denied and the
// command; instances() shows it. See doc/production.md for the rights.
#include "integration/attempt.hpp"
#include "integration/guards.hpp"
#include "integration/restricted.hpp"
#include "support/cluster_group.hpp"
#include "support/documents.hpp"
#include "support/proxy.hpp"

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options fenced{.ttl = 60s, .fencing = true};

/// The call was refused for want of a right to this command, and says so.
template <class Result>
void check_denied(Result const& r, std::string_view command) {
    BOOST_TEST((r == errc::access_denied), r.what());
    BOOST_REQUIRE(r.report() != nullptr);
    auto const& told = r.report()->instances.at(0);
    BOOST_TEST((told.outcome == instance_outcome::rejected), r.what());
    BOOST_TEST(contains(told.message, command), told.message);
    BOOST_TEST(contains(r.what(), command), r.what());
    BOOST_TEST(contains(r.what(), "the instance denies access"), r.what());
}

/// A lock on a server that has no script, which only a native command releases.
void check_cycle_without_extension(test_client& p) {
    auto l = p.hold("k");
    check_denied(p.extend(l), "EVAL (GET, PEXPIRE) \"k\"");
    BOOST_TEST(!lack_of(p, degradation::no_extend).empty());
    BOOST_TEST(l.held());
    BOOST_TEST(p.releases(l));
}

} // namespace

BOOST_AUTO_TEST_SUITE(rights)

BOOST_AUTO_TEST_CASE(with_the_documented_rights_nothing_is_refused) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()});
        test_client q({r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        BOOST_REQUIRE(q.all_up());
        check_cycle(p);
        check_cycle(p, fenced);
        auto l = p.hold("k");
        attempt waits_for(q, "k", long_lived);
        BOOST_TEST(q.until([&] { return q.locks.stats().waiters == 1; }));
        BOOST_TEST(contains(q.try_acquire("k").first.what(), "held"));
        q.runs_with(p);
        BOOST_TEST(p.releases(l));
        check_gets(q, waits_for);
        BOOST_TEST(asks_the_time(p, 1));
        check_lacks(p, {}, "");
        check_lacks(q, {}, "");
        BOOST_TEST(r.redis.refusals() == std::vector<std::string>{},
                   boost::test_tools::per_element());
    });
}

// Words of the documents, however their lines are broken.
BOOST_AUTO_TEST_CASE(the_documented_rules_are_those_of_the_tests) {
    std::istringstream page(document_text("production.md"));
    std::string text;
    for (std::string word; page >> word;) text += word + ' ';
    auto const words = [](std::vector<access::rules> const& all) {
        std::string joined;
        for (auto const& rules : all) {
            for (auto const& rule : rules) joined += rule + ' ';
        }
        return joined;
    };
    for (auto const& documented :
         {"ACL SETUSER app reset on >SECRET " + words({access::all("P")}),
          "locks " + words({access::keys("P"), access::locks}), "pushes " + words({access::pushes}),
          "reports " + words({access::reports}), "list " + words({access::lists}),
          "guards " + words({access::guards}),
          "fences " + words({access::fence_keys("P"), access::fences}),
          "fair " + words({access::line_keys("P"), access::lines}),
          "readers " + words({access::reader_keys("P"), access::readers}),
          "permits " + words({access::permit_keys("P"), access::permits}),
          "several " + words({access::several_keys}), "replicas " + words({access::replicas}),
          "cluster " + words({cluster_side_keys("P"), access::cluster})}) {
        BOOST_TEST(contains(text, documented), documented);
    }
}

// As doc/production.md has it: locks alone, with a prefix, and nothing besides.
BOOST_AUTO_TEST_CASE(the_base_is_enough_for_locks) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        auto rules = access::keys("app:");
        rules.insert(rules.end(), access::locks.begin(), access::locks.end());
        if (!r.native_delete.empty()) rules.push_back('+' + r.native_delete);
        r.give(rules);
        auto options = trusting(patient());
        options.key_prefix = "app:";
        test_client p({r.redis.url()}, options);
        check_cycle(p);
        // Another prefix is another service's.
        auto const [e, none] = test_client({r.redis.url()}).acquire("k");
        check_denied(e, "SET \"k\"");
    });
}

// Without scripts, where the server deletes and extends natively.
BOOST_AUTO_TEST_CASE(a_server_that_compares_natively_needs_no_script) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        if (r.native_delete.empty()) return;
        r.give({"~*", "+info", "+set", '+' + r.native_delete});
        test_client p({r.redis.url()});
        check_cycle_without_extension(p);
        BOOST_TEST(!lack_of(p, degradation::no_script_cache).empty());
        auto const [e, none] = p.acquire("k", fenced);
        check_denied(e, "EVAL (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"k\"");
        BOOST_TEST(!lack_of(p, degradation::no_fencing).empty());
        check_cycle_without_extension(p);
    });
}

//
// Services that the client does without
//

BOOST_AUTO_TEST_CASE(without_type_every_key_counts_as_a_lock) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+type"});
        test_client p({r.redis.url()});
        r.admin.set("k", "foreign", 60s);
        auto const [e, none] = p.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        check_lacks(p, {degradation::no_type_check}, "TYPE: NOPERM");
        attempt waits_for(p, "k", long_lived);
        BOOST_TEST(waits(p));
        r.admin.del("k");
        check_gets(p, waits_for);
        // A key that is no lock is waited for, as a held lock is.
        r.admin.command({"HSET", "hash", "field", "value"});
        BOOST_TEST((p.try_acquire("hash").first == errc::contended));
    });
}

BOOST_AUTO_TEST_CASE(without_script_load_the_first_use_sends_the_script) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+script|load"});
        r.admin.command({"SCRIPT", "FLUSH"});
        test_client p({r.redis.url()});
        check_cycle(p, fenced);
        check_cycle(p, fenced);
        check_lacks(p, {degradation::no_script_preload}, "SCRIPT LOAD: NOPERM");
        // Once for each script, and not for each use.
        auto const scripts = !r.native_delete.empty() ? 2U : 3U;
        BOOST_TEST(r.calls("eval") <= scripts);
        BOOST_TEST(r.calls("eval") > 0U);
    });
}

BOOST_AUTO_TEST_CASE(without_evalsha_each_use_sends_the_script) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+evalsha"});
        test_client p({r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        for (auto n = 0; n < 3; ++n) check_cycle(p, fenced);
        check_lacks(p, {degradation::no_script_cache}, "EVALSHA: NOPERM");
        BOOST_TEST(r.calls("eval") >= 3U);
        BOOST_TEST(r.refused("evalsha") == 1U);
    });
}

BOOST_AUTO_TEST_CASE(evalsha_that_is_withdrawn_is_refused_once) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()});
        check_cycle(p, fenced);
        r.change("-evalsha");
        for (auto n = 0; n < 3; ++n) check_cycle(p, fenced);
        check_lacks(p, {degradation::no_script_cache}, "EVALSHA");
        BOOST_TEST(r.refused("evalsha") == 1U);
    });
}

BOOST_AUTO_TEST_CASE(without_eval_a_forgotten_script_is_loaded_again) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+eval"});
        test_client p({r.redis.url()}, without_native_counts());
        check_cycle(p, fenced);
        BOOST_TEST(r.refused("eval") == 0U);
        auto l = p.hold("k", fenced);
        r.admin.command({"SCRIPT", "FLUSH"});
        auto const released = p.release(l);
        BOOST_TEST(released.confirmed(), released.what());
        check_cycle(p, fenced);
        check_lacks(p, {}, "");
        // Nor is SCRIPT LOAD allowed.
        r.change("-script|load");
        r.admin.command({"SCRIPT", "FLUSH"});
        check_denied(p.acquire("k", fenced).first, "EVAL (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"k\"");
        check_lacks(p, {degradation::no_fencing}, "EVAL (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"k\"");
    });
}

BOOST_AUTO_TEST_CASE(without_any_script_there_is_no_way_to_release) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+evalsha", "+eval"});
        test_client p({r.redis.url()});
        if (!r.native_delete.empty()) return check_cycle_without_extension(p);
        auto const [e, none] = p.acquire("k");
        check_denied(e, "no way to release locks: EVALSHA: NOPERM");
        BOOST_TEST(!r.admin.exists("k"));
        BOOST_TEST(p.goes_down(0, errc::access_denied));
    });
}

// The native command is refused once a session.
BOOST_AUTO_TEST_CASE(without_its_native_delete_a_script_releases) {
    on_each_server([](server_kind const& kind) {
        auto const command = native_delete(kind);
        if (command.empty()) return;
        restricted r(kind, {'+' + command});
        test_client p({r.redis.url()});
        for (auto n = 0; n < 3; ++n) check_cycle(p);
        check_lacks(p, {degradation::no_native_compare}, boost::to_upper_copy(command));
        BOOST_TEST(r.refused(command) == 1U);
        check_nothing_left(r.redis);
    });
}

BOOST_AUTO_TEST_CASE(without_info_the_guards_are_off_and_that_is_told) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+info"});
        test_client p({r.redis.url()});
        check_cycle(p);
        check_cycle(p, fenced);
        check_lacks(p, {degradation::no_restart_check, degradation::no_flush_check}, "INFO");
        // Known by HELLO, and so are its commands.
        auto const version = r.admin.info("valkey_version");
        BOOST_TEST(p.status(0).server == (version.empty() ? "redis " + r.admin.info("redis_version")
                                                          : "valkey " + version));
        if (!r.native_delete.empty()) BOOST_TEST(r.calls(r.native_delete) > 0U);
        // It is not asked again and again.
        auto const refused = r.refused("info");
        BOOST_TEST(asks_the_time(p, 1));
        BOOST_TEST(r.refused("info") == refused);
        crash(r.redis, p);
        BOOST_TEST((p.status(0).state == instance_state::up), p.status(0).message);
        check_cycle(p);
    });
}

BOOST_AUTO_TEST_CASE(info_that_is_withdrawn_is_told) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()}, brisk());
        BOOST_REQUIRE(p.all_up());
        r.change("-info");
        check_lacks(p, {degradation::no_restart_check}, "INFO: NOPERM");
        check_cycle(p);
    });
}

BOOST_AUTO_TEST_CASE(without_the_rights_for_pushes_waiters_poll) {
    struct right {
        std::string rule, command;
        degradation d;
    };
    on_two_servers([](server_kind const& kind) {
        for (auto const& missing :
             {right{"+client|tracking", "CLIENT TRACKING: NOPERM", degradation::no_push},
              right{"+client|caching", "CLIENT CACHING: NOPERM", degradation::no_push},
              right{"+pttl", "PTTL: NOPERM", degradation::no_expiry_times}}) {
            BOOST_TEST_CONTEXT(missing.rule) {
                restricted r(kind, {missing.rule});
                test_client p({r.redis.url()});
                r.admin.set("k", "foreign", 60s);
                attempt waits_for(p, "k", long_lived);
                BOOST_TEST(waits(p));
                check_lacks(p, {missing.d}, missing.command);
                // It asks on, though nothing has changed.
                auto const rounds = p.locks.stats().rounds;
                BOOST_TEST(p.until([&] { return p.locks.stats().rounds > rounds + 3; }));
                r.admin.del("k");
                check_gets(p, waits_for);
                BOOST_TEST(p.locks.stats().pushes == 0U);
                // CACHING is of no use then, and is not asked for again.
                BOOST_TEST(r.refused("client|caching") <= 2U);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(without_the_rights_of_the_guards_these_are_off) {
    struct right {
        std::string rule, command;
        degradation d;
    };
    on_two_servers([](server_kind const& kind) {
        for (auto const& missing :
             {right{"+time", "TIME: NOPERM", degradation::no_clock_check},
              right{"+config|get", "CONFIG GET: NOPERM", degradation::no_durability_check}}) {
            BOOST_TEST_CONTEXT(missing.rule) {
                restricted r(kind, {missing.rule});
                test_client p({r.redis.url()}, brisk());
                check_cycle(p);
                check_cycle(p, fenced);
                check_lacks(p, {missing.d}, missing.command);
                // The server check goes on, and TIME is not asked for again.
                auto const refused = r.refused("time");
                auto const checks = p.locks.stats().commands;
                BOOST_TEST(p.until([&] { return p.locks.stats().commands > checks; }));
                BOOST_TEST(r.refused("time") == refused);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(time_that_is_withdrawn_is_told) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()}, brisk());
        BOOST_REQUIRE(p.all_up());
        r.change("-time");
        check_lacks(p, {degradation::no_clock_check}, "TIME: NOPERM");
    });
}

// A refusal is a sign of life.
BOOST_AUTO_TEST_CASE(without_ping_the_instance_stays_up) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+ping"});
        auto options = trusting(brisk());
        options.detect_clock_jumps = false;
        test_client p({r.redis.url()}, options);
        BOOST_REQUIRE(p.all_up());
        BOOST_TEST(p.until([&] { return r.refused("ping") >= 2; }));
        check_lacks(p, {}, "");
        BOOST_TEST(p.status(0).connections == 1U);
    });
}

BOOST_AUTO_TEST_CASE(without_getrange_reports_name_no_holder) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+getrange"});
        auto options = patient();
        options.holder_label = "holder-1";
        test_client holder({r.redis.url()}, options);
        auto l = holder.hold("k");
        test_client p({r.redis.url()});
        auto const [e, none] = p.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_REQUIRE(e.report() != nullptr);
        BOOST_TEST(e.report()->holder == "");
        check_lacks(p, {degradation::no_holder_names}, "GETRANGE: NOPERM");
    });
}

//
// Commands of locks
//

BOOST_AUTO_TEST_CASE(without_set_or_the_key_no_lock_is_acquired) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind, {"+set"});
        test_client p({r.redis.url()});
        check_denied(p.acquire("k").first, "SET \"k\": NOPERM");
        check_lacks(p, {degradation::no_acquire}, "SET \"k\": NOPERM");
        // Waiters are told too.
        r.change("+set");
        auto l = p.hold("k");
        check_lacks(p, {}, "");
        BOOST_TEST(p.releases(l));
        auto rules = r.redis.rules("other:");
        rules.emplace_back("+set");
        r.give(rules);
        check_denied(p.acquire("k").first, "SET \"k\": NOPERM");
        check_lacks(p, {degradation::no_acquire}, "SET \"k\": NOPERM");
        auto allowed = p.hold("other:k");
        BOOST_TEST(p.releases(allowed));
    });
}

BOOST_AUTO_TEST_CASE(a_release_without_a_right_says_that_the_key_stays) {
    on_each_server([](server_kind const& kind) {
        for (std::string const right : {"+get", "+del"}) {
            BOOST_TEST_CONTEXT(right) {
                restricted r(kind, {right});
                test_client p({r.redis.url()});
                auto l = p.hold("k", unwatched(2s));
                auto const result = p.release(l);
                if (!r.native_delete.empty()) {
                    BOOST_TEST(result.confirmed(), result.what());
                    continue;
                }
                check_denied(result, "EVALSHA (GET, DEL) \"k\": ");
                BOOST_TEST(contains(result.what(), "the key stays for its ttl"), result.what());
                BOOST_TEST(contains(result.what(), "lock \"k\" not released"), result.what());
                check_lacks(p, {degradation::no_release}, "EVALSHA (GET, DEL) \"k\": ");
                // It is not tried again: the right will be missing a moment later.
                BOOST_TEST(p.status(0).pending_releases == 0U);
                BOOST_TEST((p.try_acquire("k").first == errc::contended));
                BOOST_TEST(p.sees_no_locks(r.redis));
                r.change(right);
                check_cycle(p);
                check_lacks(p, {}, "");
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(an_extension_without_a_right_says_so_and_the_lease_lasts_to_its_deadline) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind, {"+pexpire"});
        test_client p({r.redis.url()});
        auto l = p.hold("k");
        auto const deadline = l.deadline();
        // A key that lasts as long already is not written.
        BOOST_REQUIRE(p.until([&] { return r.admin.pttl("k") < long_lived.ttl; }));
        auto const e = p.extend(l);
        check_denied(e, "EVALSHA (GET, PEXPIRE) \"k\": ");
        BOOST_TEST(contains(e.what(), "lock \"k\" not extended"), e.what());
        check_lacks(p, {degradation::no_extend}, "EVALSHA (GET, PEXPIRE) \"k\": ");
        BOOST_TEST(l.held());
        BOOST_TEST((l.deadline() == deadline));
        r.change("+pexpire");
        BOOST_TEST(!p.extend(l));
        check_lacks(p, {}, "");
        BOOST_TEST(p.releases(l));
    });
}

// An error of ZSCORE is no counter without a number.
BOOST_AUTO_TEST_CASE(a_fence_without_a_right_is_denied_and_leaves_no_key) {
    on_each_server([](server_kind const& kind) {
        for (std::string const missing : {"+zscore", "+zadd", "~{k*}:fence"}) {
            BOOST_TEST_CONTEXT(missing) {
                restricted r(kind);
                r.give(access::without(r.redis.rules("k"), missing));
                test_client p({r.redis.url()});
                auto const [e, none] = p.acquire("k", fenced);
                check_denied(e, "EVALSHA (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"k\": ");
                BOOST_TEST(!contains(e.what(), "no number"), e.what());
                check_lacks(p, {degradation::no_fencing},
                            "EVALSHA (SET, ZSCORE, ZADD, PEXPIRE, DEL) \"k\": ");
                BOOST_TEST(r.admin.dbsize() == 0);
            }
        }
        // A counter that is none is still found.
        restricted r(kind);
        test_client p({r.redis.url()});
        r.admin.command({"RPUSH", "{k}:fence", "a"});
        auto const [e, none] = p.acquire("k", fenced);
        BOOST_TEST((e == errc::invalid_fence), e.what());
        BOOST_TEST(p.sees_no_locks(r.redis));
    });
}

BOOST_AUTO_TEST_CASE(a_quorum_does_without_an_instance_that_denies) {
    fleet servers(3);
    servers[1].expect_refusals();
    redis_cli(servers[1])
        .command(access::set_user(access::user, access::without(servers[1].rules(), "+del")));
    test_client p(servers);
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k");
    BOOST_TEST(p.sees(servers, "k", true));
    auto const result = p.release(l);
    BOOST_TEST(result.confirmed(), result.what());
    BOOST_TEST(p.until([&] { return !p.status(1).degradations.empty(); }));
    // Causes that differ are no_quorum, and the report has them.
    auto again = p.hold("other");
    BOOST_TEST(p.sees(servers, "other", true));
    servers.kill(1);
    BOOST_TEST(p.becomes(0, instance_state::down));
    auto const failed = p.release(again);
    BOOST_TEST((failed == errc::no_quorum), failed.what());
    BOOST_TEST((failed.code() == error_condition::unavailable));
    BOOST_TEST(contains(failed.what(), "EVALSHA (GET, DEL) \"other\""), failed.what());
    BOOST_TEST(contains(failed.what(), "unreachable"), failed.what());
}

//
// Users and rights that change
//

BOOST_AUTO_TEST_CASE(an_open_connection_keeps_its_rights_when_the_password_changes) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()}, brisk());
        BOOST_REQUIRE(p.all_up());
        for (std::string const change : {"resetpass", ">another", "off"}) {
            BOOST_TEST_CONTEXT(change) {
                auto l = p.hold("k");
                r.change(change);
                BOOST_TEST(!p.extend(l));
                BOOST_TEST(p.releases(l));
                check_cycle(p, fenced);
            }
        }
        BOOST_TEST(asks_the_time(p, 1));
        check_lacks(p, {}, "");
        BOOST_TEST(p.status(0).connections == 1U);
    });
}

BOOST_AUTO_TEST_CASE(a_user_who_is_deleted_is_told_at_once) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()});
        BOOST_REQUIRE(p.all_up());
        BOOST_TEST(r.admin.command({"ACL", "DELUSER", std::string(access::user)}).integer() == 1);
        BOOST_TEST(p.goes_down(0, errc::access_denied), p.status(0).message);
        BOOST_TEST(contains(p.status(0).message, "WRONGPASS"), p.status(0).message);
        auto const [e, none] = p.acquire("k");
        BOOST_TEST((e == errc::access_denied), e.what());
        BOOST_TEST(contains(e.what(), "WRONGPASS"), e.what());
        BOOST_TEST(!contains(e.what(), access::password), e.what());
        // The user is there again, and the client connects.
        r.give(r.redis.rules());
        BOOST_TEST(p.all_up());
        check_cycle(p);
    });
}

BOOST_AUTO_TEST_CASE(a_right_that_is_withdrawn_is_told_at_the_next_command) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        test_client p({r.redis.url()});
        auto l = p.hold("k");
        r.change("-set");
        check_denied(p.acquire("other").first, "SET \"other\": NOPERM");
        check_lacks(p, {degradation::no_acquire}, "SET \"other\": NOPERM");
        BOOST_TEST(p.releases(l));
        r.change("+set");
        check_cycle(p);
        check_lacks(p, {}, "");
    });
}

// A wrong password was tried 2.5 times a second, for ever.
BOOST_AUTO_TEST_CASE(a_wrong_password_is_tried_after_a_second_and_then_after_two) {
    on_two_servers([](server_kind const& kind) {
        restricted r(kind);
        proxy way(r.redis);
        r.change("resetpass");
        auto const began = lease_clock::now();
        test_client p({way.url()}, hasty());
        BOOST_TEST(p.goes_down(0, errc::access_denied), p.status(0).message);
        auto const [e, none] = p.acquire("k");
        BOOST_TEST((e == errc::access_denied), e.what());
        BOOST_TEST(p.until([&] { return way.accepted() >= 3; }));
        // A quarter of each pause is random.
        BOOST_TEST((lease_clock::now() - began >= 2'250ms));
        r.change('>' + std::string(access::password));
        BOOST_TEST(p.all_up());
        BOOST_TEST(way.accepted() <= 4U);
    });
}

BOOST_AUTO_TEST_SUITE_END()
