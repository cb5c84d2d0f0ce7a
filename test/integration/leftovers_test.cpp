// Servers and folders go with the process that started them, however it ends.
#include "integration/child.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// A process that has ended and for which nobody has waited yet runs no more.
bool runs(std::string const& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string const stat{std::istreambuf_iterator<char>(file), {}};
    auto const end_of_name = stat.rfind(')');
    return end_of_name != stat.npos && stat.substr(end_of_name + 2, 1) != "Z";
}

struct host {
    explicit host(std::string const& kind)
        : process("HOLDFAST_TOPOLOGY_HOST", {kind}) {
        for (auto line = process.line(); line != "ready"; line = process.line()) {
            BOOST_REQUIRE_MESSAGE(!line.empty(), "no group has started");
            (line.front() == '/' ? folders : pids).push_back(line);
        }
    }

    child process;
    std::vector<std::string> pids;
    std::vector<std::string> folders;
};

void check_gone(host const& h) {
    BOOST_TEST(h.pids.size() == 6U);
    for (auto const& pid : h.pids)
        BOOST_TEST(wait_until([&] { return !runs(pid); }, 10s), "the server " << pid << " runs");
    for (auto const& folder : h.folders)
        BOOST_TEST(wait_until([&] { return !std::filesystem::exists(folder); }, 10s),
                   folder << " is there");
}

} // namespace

BOOST_AUTO_TEST_SUITE(leftovers)

BOOST_AUTO_TEST_CASE(groups_leave_nothing_behind_a_signal) {
    for (auto const& [kind, signal] : {std::pair{"sentinel", SIGTERM},
                                       {"cluster", SIGINT},
                                       {"sentinel", SIGKILL},
                                       {"cluster", SIGABRT}}) {
        BOOST_TEST_CONTEXT(kind << ", signal " << signal) {
            host h(kind);
            for (auto const& pid : h.pids) BOOST_TEST(runs(pid));
            for (auto const& folder : h.folders) BOOST_TEST(std::filesystem::exists(folder));
            h.process.send_signal(signal);
            BOOST_TEST(h.process.status() == -1);
            check_gone(h);
        }
    }
}

BOOST_AUTO_TEST_CASE(groups_leave_nothing_behind_an_orderly_end) {
    for (auto const* const kind : {"sentinel", "cluster"}) {
        BOOST_TEST_CONTEXT(kind) {
            host h(kind);
            h.process.close_input();
            BOOST_TEST(h.process.status() == 0);
            check_gone(h);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
