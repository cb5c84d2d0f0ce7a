// Runs the examples and the first program of the README. Their exit status must be right.
#include "integration/nothing_left.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace holdfast::test;

namespace {

struct stage {
    fleet instances{3};
    server witness;

    std::string command(std::string const& more) {
        return program("HOLDFAST_STRESS") + " --coroutines 50 --keys 5 --seconds 2 --instances " +
               instances.url_list() + " --witness " + witness.address() + ' ' + more;
    }
    outcome stress(std::string const& more) { return run_program(command(more)); }
};

/// What `stress --journal` wrote.
struct journal {
    struct lease {
        std::int64_t start, length;
        std::uint64_t fence;
    };
    std::map<unsigned, std::vector<lease>> leases; ///< of each key, in order
    std::size_t count = 0;
    std::string first, last, faults; ///< the words of the first and last line; texts of faults

    explicit journal(std::string const& name) {
        std::ifstream file(name);
        for (std::string text; std::getline(file, text);) {
            std::istringstream line(text);
            line >> last;
            if (first.empty()) first = last;
            if (last == "fault") faults += text;
            if (last != "held" && last != "lost") continue;
            lease of{};
            unsigned key = 0, coroutine = 0;
            BOOST_REQUIRE_MESSAGE(line >> of.start >> of.length >> key >> coroutine, text);
            line >> of.fence;
            leases[key].push_back(of);
            ++count;
        }
        for (auto& [key, its] : leases)
            std::sort(its.begin(), its.end(),
                      [](lease const& a, lease const& b) { return a.start < b.start; });
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(examples)

BOOST_AUTO_TEST_CASE(stress_ends_0_when_all_held) {
    stage s;
    auto const o = s.stress("");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "violations           0\n"), o.said);
    BOOST_TEST(contains(o.said, "all held"), o.said);
}

// If its key is deleted, a lock can have two holders. The test does not flush the servers: clients
// would hear of that, and quarantine them.
BOOST_AUTO_TEST_CASE(stress_sees_violations) {
    stage s;
    std::string ports;
    for (server& instance : s.instances) ports += ' ' + std::to_string(instance.port());
    auto const o = run_program(
        s.command("") + " & " +
        s.command(
            "--faults 'bash -c \"for i in {1..300}; do for p in" + ports +
            "; do exec 3<>/dev/tcp/127.0.0.1/\\$p; echo DEL stress:{0..4} >&3; read -r x <&3; "
            "done; done\"'") +
        "; status=$?; wait $! || status=$?; exit $status");
    BOOST_TEST(o.status == 1, o.said);
    auto const clean = "violations           0\n";
    BOOST_TEST(contains(o.said, "violations "), o.said);
    BOOST_TEST(o.said.find(clean) == o.said.rfind(clean),
               "at most one of them may have seen none: " << o.said);
}

BOOST_AUTO_TEST_CASE(stress_does_not_pass_without_a_quorum) {
    stage s;
    s.instances.kill(2);
    auto const o = s.stress("");
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "NOT all held"), o.said);
}

BOOST_AUTO_TEST_CASE(stress_does_not_wait_for_a_witness_that_is_gone) {
    stage s;
    auto const o = s.stress("--faults 'kill -9 " + std::to_string(s.witness.pid()) + "'");
    BOOST_TEST(o.status != 0, o.said);
    BOOST_TEST(contains(o.said, "witness"), o.said);
}

BOOST_AUTO_TEST_CASE(stress_writes_who_held_what) {
    stage s;
    swept_folder folder;
    auto const name = folder.path() + "/journal";
    auto const o =
        s.stress("--fences on --faults 'echo one is frozen, they say' --journal " + name);
    BOOST_TEST(o.status == 0, o.said);
    journal const written(name);
    BOOST_TEST(written.first == "begin");
    BOOST_TEST(written.last == "end");
    BOOST_TEST(contains(written.faults, "one is frozen, they say"));
    BOOST_TEST(written.leases.size() == 5U);
    BOOST_TEST(contains(o.said, "acquired             " + std::to_string(written.count) + ", "),
               written.count << " in the journal; " << o.said);
    for (auto const& [key, its] : written.leases) {
        for (std::size_t i = 1; i < its.size(); ++i) {
            BOOST_TEST_CONTEXT("key " << key << ", lease " << i) {
                BOOST_TEST_REQUIRE(its[i - 1].start + its[i - 1].length <= its[i].start);
                BOOST_TEST_REQUIRE(its[i - 1].fence < its[i].fence);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(stress_names_a_journal_that_it_cannot_write) {
    stage s;
    auto const o = s.stress("--journal /no/such/folder/journal");
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "/no/such/folder/journal"), o.said);
}

BOOST_AUTO_TEST_CASE(stress_passes_when_the_journal_ends_early) {
    stage s;
    auto const o = s.stress("--journal /dev/full");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "\"/dev/full\" could not be written"), o.said);
}

BOOST_AUTO_TEST_CASE(stress_names_the_option_that_is_wrong) {
    auto const o = run_program(program("HOLDFAST_STRESS") + " --coroutines many");
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "--coroutines"), o.said);
    BOOST_TEST(contains(o.said, "many"), o.said);
}

BOOST_AUTO_TEST_CASE(the_first_program_of_the_readme_gets_its_lock_and_releases_it) {
    server instance;
    auto const o = run_program("HOLDFAST_README_INSTANCE=" + instance.address() + ' ' +
                               program("HOLDFAST_README"));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "seat 12 is ours\n");
    check_nothing_left(instance);
}

BOOST_AUTO_TEST_CASE(the_first_program_of_the_readme_ends_without_a_server) {
    std::string address;
    {
        server gone;
        address = gone.address();
    }
    auto const o =
        run_program("HOLDFAST_README_INSTANCE=" + address + ' ' + program("HOLDFAST_README"));
    BOOST_TEST(o.status != 0, o.said);
    BOOST_TEST(contains(o.said, "the instance cannot be reached"), o.said);
}

BOOST_AUTO_TEST_CASE(a_value_with_a_fence_turns_a_late_holder_away) {
    stage s;
    std::string instances;
    for (auto const& address : s.instances.addresses()) instances += ' ' + address;
    auto const o = run_program(program("HOLDFAST_FENCED") + ' ' + s.witness.address() + instances);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, ": 11 turned away"), o.said);
    redis_cli store(s.witness);
    BOOST_TEST(store.command({"HGET", "stock:apples", "left"}).string() == "9");
}

BOOST_AUTO_TEST_CASE(a_group_more_takes_over_its_share_of_the_keys_and_no_other_key_moves) {
    fleet groups(3);
    auto const program_with = [&](std::size_t count) {
        auto command = program("HOLDFAST_GROUPS");
        for (std::size_t i = 0; i < count; ++i)
            command += " 'g" + std::to_string(i) + '=' + groups.urls().at(i) + "'";
        return command;
    };
    auto const keys_by_group = [&](std::size_t count) {
        auto const o = run_program(program_with(count));
        BOOST_TEST(o.status == 0, o.said);
        std::map<std::string, std::string> found;
        std::istringstream lines(o.said);
        for (std::string key, group; lines >> key >> group;) found[key] = group;
        BOOST_TEST(found.size() == 100U);
        return found;
    };
    auto const two = keys_by_group(2), three = keys_by_group(3);
    std::map<std::string, int> sizes;
    for (auto const& [key, group] : three) {
        ++sizes[group];
        auto const stays = group == two.at(key) || group == "g2";
        BOOST_TEST(stays, key);
    }
    BOOST_TEST(sizes.size() == 3U);
    for (auto const& [group, size] : sizes) BOOST_TEST(size > 15);
    for (std::size_t i = 0; i < 3; ++i) check_nothing_left(groups[i]);
}

BOOST_AUTO_TEST_SUITE_END()
