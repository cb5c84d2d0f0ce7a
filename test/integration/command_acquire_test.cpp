// `holdfast acquire`, `extend` and `adopt`: locks of scripts.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/foreign_client.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

outcome acquire(fleet const& servers, std::string const& options) {
    return output_of("acquire k --new-servers" + on(servers) + options);
}

/// A file for a token, in the folder of the first server.
std::string token_file(fleet& servers) {
    return servers[0].folder() + "/token";
}

/// Acquires k, and returns the option that gives the token.
std::string acquired(fleet& servers, std::string const& options) {
    auto const o = acquire(servers, options);
    BOOST_REQUIRE_MESSAGE(o.status == 0, o.said);
    std::ofstream(token_file(servers)) << o.said;
    return " --token-file '" + token_file(servers) + "' ";
}

std::string token_of(fleet& servers) {
    return redis_cli(servers[0]).get("k").value();
}

/// The block of code in a document that has this text.
std::string block_with(std::string const& document, std::string_view text) {
    std::ifstream file(std::string(std::getenv("HOLDFAST_DOCUMENTS")) + '/' + document);
    std::ostringstream all;
    all << file.rdbuf();
    auto const page = all.str();
    auto const at = page.find(text);
    BOOST_REQUIRE(at != page.npos);
    auto const begin = page.find('\n', page.rfind("```", at)) + 1;
    return page.substr(begin, page.find("```", at) - begin);
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_acquire)

BOOST_AUTO_TEST_CASE(a_lock_stays_without_its_command) {
    fleet servers(3);
    auto const o = acquire(servers, "--ttl 50s --label script");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == token_of(servers) + '\n');
    BOOST_TEST(o.said.starts_with("script:"));
    BOOST_TEST(copies(servers, "k") == 3U);
    for (server& s : servers) {
        auto const left = redis_cli(s).pttl("k");
        BOOST_TEST((left > 20s && left <= 50s));
    }
    auto const second = holdfast_command("acquire k --no-wait --new-servers" + on(servers));
    BOOST_TEST(second.status == 124, second.said);
    BOOST_TEST(contains(second.said, "held by script, "), second.said);
    std::ofstream(token_file(servers)) << o.said;
    auto const released =
        holdfast_command("release k --token-file '" + token_file(servers) + '\'' + on(servers));
    BOOST_TEST(released.status == 0, released.said);
    BOOST_TEST(copies(servers, "k") == 0U);
    // The ttl is the longest there may be.
    BOOST_TEST(acquire(servers, "--max-ttl 2h").status == 0);
    BOOST_TEST((redis_cli(servers[0]).pttl("k") > 1h));
}

BOOST_AUTO_TEST_CASE(the_lock_of_another_is_waited_for) {
    fleet servers(3);
    child holder("HOLDFAST_COMMAND", shell(servers, {}, "echo held; read x"));
    BOOST_TEST(holder.line() == "held");
    BOOST_TEST(acquire(servers, "--wait 300ms").status == 124);
    child next("HOLDFAST_COMMAND", {"acquire", "k", "--new-servers", "--instances",
                                    servers.url_list(), "--label", "b"});
    holder.say("go");
    BOOST_TEST(next.line().starts_with("b:"));
    BOOST_TEST(next.status() == 0);
    BOOST_TEST(holder.status() == 0);
    BOOST_TEST(copies(servers, "k") == 3U);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_wait_of_acquire) {
    fleet servers(1);
    foreign_client(servers).hold("k");
    on_terminal t({"acquire", "k", "--new-servers", "--instances", servers.url_list()});
    BOOST_TEST(t.shows("waiting for \"k\": held by a client without a label, "), t.shown());
    t.type("\x03");
    BOOST_TEST(t.status() == 128 + SIGINT);
    BOOST_TEST(copies(servers, "k") == 1U);
}

BOOST_AUTO_TEST_CASE(acquire_waits_for_votes_or_a_signal) {
    fleet servers(3);
    auto const ended = run_program("timeout --preserve-status -s TERM 2 " +
                                   program("HOLDFAST_COMMAND") + " acquire k" + on(servers));
    BOOST_TEST(ended.status == 128 + SIGTERM, ended.said);
    BOOST_TEST(contains(ended.said, "waiting for their votes"), ended.said);
    BOOST_TEST(copies(servers, "k") == 0U);
    auto const o = output_of("acquire k --max-ttl 3s --label late" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said.starts_with("late:"), o.said);
}

BOOST_AUTO_TEST_CASE(a_token_that_cannot_be_written_is_a_lock_that_is_released) {
    fleet servers(3);
    auto const o = run_program("( " + program("HOLDFAST_COMMAND") + " acquire k --new-servers" +
                               on(servers) + ">/dev/full )");
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "the output cannot be written"), o.said);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(json_has_the_token_and_the_fence) {
    fleet servers(1);
    auto const o = acquire(servers, "--json --fence --ttl 9s --prefix 'app:'");
    BOOST_REQUIRE_MESSAGE(o.status == 0, o.said);
    auto const all = boost::json::parse(o.said).as_object();
    BOOST_TEST(all.at("key").as_string() == "app:k");
    BOOST_TEST(all.at("token").as_string() == redis_cli(servers[0]).get("app:k").value());
    BOOST_TEST(all.at("fence").to_number<std::uint64_t>() > 0U);
    BOOST_TEST(all.at("ttl_ms").as_int64() == 9'000);
}

BOOST_AUTO_TEST_CASE(a_lock_is_extended_by_its_token) {
    fleet servers(3);
    auto const token = acquired(servers, "--ttl 20s");
    auto o = holdfast_command("extend k --ttl 50s" + token + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "extended k\n");
    for (server& s : servers) BOOST_TEST((redis_cli(s).pttl("k") > 30s));
    o = holdfast_command("extend k --ttl 10s" + token + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST((redis_cli(servers[0]).pttl("k") > 20s)); // it is never shorter
    BOOST_TEST(copies(servers, "k") == 3U);

    auto const secret = token_of(servers);
    o = holdfast_command("extend k --token another" + on(servers));
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "another token; nothing was extended"), o.said);
    BOOST_TEST(!contains(o.said, secret), o.said);
    delete_everywhere(servers);
    o = holdfast_command("extend k" + token + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(!contains(o.said, secret), o.said);
    BOOST_TEST(copies(servers, "k") == 0U);
    servers.kill(2);
    o = holdfast_command("extend k --timeout 300ms" + token + on(servers));
    BOOST_TEST(o.status == 3, o.said);
    BOOST_TEST(!contains(o.said, secret), o.said);
}

BOOST_AUTO_TEST_CASE(a_command_adopts_a_lock_with_its_fence) {
    fleet servers(3);
    auto const token = acquired(servers, "--fence --ttl 50s");
    auto const o = holdfast_command("adopt k --fence-env" + token + on(servers) +
                                    "-- sh -c 'echo $HOLDFAST_KEY $HOLDFAST_FENCE; exit 7'");
    BOOST_TEST(o.status == 7, o.said);
    std::ifstream file(token_file(servers));
    std::string secret, fence;
    file >> secret >> fence;
    BOOST_TEST(o.said == "k " + fence + '\n');
    BOOST_TEST(is_free(servers));
    auto const late = holdfast_command("adopt k" + token + on(servers) + "-- echo it runs");
    BOOST_TEST(late.status == 122, late.said);
    BOOST_TEST(!contains(late.said, "it runs"), late.said);
    BOOST_TEST(!contains(late.said, secret), late.said);
    // Without a fence there is none to pass on.
    auto const plain = acquired(servers, "--ttl 50s");
    auto const none =
        holdfast_command("adopt k --fence-env" + plain + on(servers) + "-- echo it runs");
    BOOST_TEST(none.status == 125, none.said);
    BOOST_TEST(contains(none.said, "no fence"), none.said);
    BOOST_TEST(holdfast_command("adopt k" + plain + on(servers) + "-- echo ran").said == "ran\n");
}

BOOST_AUTO_TEST_CASE(an_adopted_lock_is_extended_and_its_loss_ends_the_command) {
    fleet servers(1);
    acquired(servers, "--ttl 50s");
    child c("HOLDFAST_COMMAND",
            {"adopt", "k", "--ttl", "1s", "--token-file", token_file(servers), "--instances",
             servers.url_list(), "--", "sh", "-c", "echo $$; exec tail -f /dev/null"});
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    redis_cli probe(servers[0]);
    probe.command({"PEXPIRE", "k", "1000"});
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(wait_until([&] { return probe.pttl("k") < 900ms; }));
        BOOST_TEST(wait_until([&] { return probe.pttl("k") > 900ms; }));
    }
    delete_everywhere(servers);
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
}

// It may have blanks and digits, and is no token of ours with a fence.
BOOST_AUTO_TEST_CASE(the_token_of_another_library_is_used_as_it_is) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    for (std::string const value : {"my token 5", "0123456789abcdef0123456789abcdef",
                                    "x:0123456789ABCDEF0123456789ABCDEF 5", "with a blank "}) {
        cli.set("k", value, 20s);
        auto const o =
            holdfast_command("extend k --ttl 50s --token '" + value + '\'' + on(servers));
        BOOST_TEST(o.status == 0, value << ": " << o.said);
        BOOST_TEST((cli.pttl("k") > 30s));
        std::ofstream(token_file(servers)) << value << '\n';
        BOOST_TEST(
            holdfast_command("release k --token-file '" + token_file(servers) + '\'' + on(servers))
                .status == 0);
    }
}

BOOST_AUTO_TEST_CASE(wrong_usage_of_tokens_is_told_without_them) {
    for (auto const& [arguments, told] :
         {std::pair<std::string, std::string>{"extend k", "--token-file"},
          {"extend k secret", "--token-file"},
          {"extend k --token secret --token-file -", "--token-file"},
          {"extend k --token secret --ttl 2m", "--ttl is 2m, and --max-ttl is 1m"},
          {"extend k --token ''", "token"},
          {"acquire k --ttl 90s", "--ttl is 90s, and --max-ttl is 1m"},
          {"acquire k --no-wait --wait 1s", "--wait"},
          {"adopt k -- true", "--token-file"},
          {"adopt k --token secret", "it follows after --: holdfast adopt KEY"},
          {"adopt k --token-file /nowhere/at/all -- true", "/nowhere/at/all"},
          {"release k secret", "--token-file"}}) {
        auto const dashes = arguments.find(" -- ");
        auto const o = holdfast_command(arguments.substr(0, dashes) + " -i 127.0.0.1:1" +
                                        (dashes != arguments.npos ? arguments.substr(dashes) : ""));
        BOOST_TEST(o.status == 125, arguments << ": " << o.said);
        BOOST_TEST(contains(o.said, told), arguments << ": " << o.said);
        BOOST_TEST(!contains(o.said, "secret"), arguments << ": " << o.said);
    }
}

BOOST_AUTO_TEST_CASE(the_script_of_the_document_holds_the_lock_to_its_end) {
    fleet servers(3);
    auto const folder = servers[0].folder();
    auto const path = folder + "/deploy";
    std::ofstream(path) << block_with("command.md", "trap ");
    std::ofstream(folder + "/build.sh") << "echo built\n";
    std::ofstream(folder + "/deploy.sh") << "echo deployed; exit ${FAILS:-0}\n";
    auto const command = std::filesystem::path(std::getenv("HOLDFAST_COMMAND"));
    auto const script = "cd '" + folder + "' && chmod +x build.sh deploy.sh && PATH='" +
                        command.parent_path().string() + "':$PATH HOLDFAST_NEW_SERVERS=1 " +
                        "HOLDFAST_INSTANCES='" + servers.url_list() + "' ";
    auto const o = run_program(script + "bash deploy");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "built\nextended deploy\ndeployed\nreleased deploy\n");
    BOOST_TEST(copies(servers, "deploy") == 0U);
    auto const fails = run_program(script + "FAILS=3 bash deploy");
    BOOST_TEST(fails.status == 3, fails.said);
    BOOST_TEST(copies(servers, "deploy") == 0U);
    // It may not begin.
    foreign_client(servers).hold("deploy");
    auto const held = run_program(script + "bash deploy");
    BOOST_TEST(held.status == 124, held.said);
    BOOST_TEST(!contains(held.said, "built"), held.said);
    BOOST_TEST(copies(servers, "deploy") == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
