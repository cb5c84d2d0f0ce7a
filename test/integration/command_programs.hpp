// What the tests of the command holdfast share.
#ifndef HOLDFAST_TEST_INTEGRATION_COMMAND_PROGRAMS_HPP
#define HOLDFAST_TEST_INTEGRATION_COMMAND_PROGRAMS_HPP

#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace holdfast::test {

/// The instances as an option, in quotes of the shell.
inline std::string on(fleet const& servers) {
    return " --instances '" + servers.url_list() + "' ";
}

inline outcome holdfast_command(std::string const& arguments) {
    return run_program(program("HOLDFAST_COMMAND") + ' ' + arguments);
}

/// The same, but `said` has no messages.
inline outcome output_of(std::string const& arguments) {
    return run_program("( " + program("HOLDFAST_COMMAND") + ' ' + arguments + " 2>/dev/null )");
}

inline outcome command_on(fleet const& servers, std::string const& words,
                          std::string const& rest = {}) {
    return holdfast_command(words + on(servers) + rest);
}

/// Calls `acquire` with these words, and returns the option that gives the token.
inline std::string token_of(fleet& servers, std::string const& words) {
    static int count = 0;
    auto const path = servers[0].folder() + "/token" + std::to_string(++count);
    auto const o = output_of("acquire " + words + " --new-servers" + on(servers));
    BOOST_REQUIRE_MESSAGE(o.status == 0, o.said);
    std::ofstream(path) << o.said;
    return " --token-file '" + path + "' ";
}

/// Words of a wrong use of the command, and a part of the message.
struct wrong_use {
    std::string words;
    char const* said;
};

/// Each is wrong usage (125), and says why.
inline void check_refused(fleet const& servers, std::initializer_list<wrong_use> all) {
    for (auto const& [words, said] : all) {
        std::string_view const command(words);
        auto const runs = command.starts_with("run") || command.starts_with("adopt") ||
                          command.starts_with("lead");
        auto const o = command_on(servers, words, runs ? "-- true" : "");
        BOOST_TEST(o.status == 125, words << ": " << o.said);
        BOOST_TEST(contains(o.said, said), words << ": " << o.said);
    }
}

/// `holdfast run k ... -- sh -c script`, on servers that have forgotten nothing.
inline std::vector<std::string> shell(fleet const& servers, std::vector<std::string> const& options,
                                      std::string const& script) {
    std::vector<std::string> all{"run", "k", "--new-servers", "--instances", servers.url_list()};
    all.insert(all.end(), options.begin(), options.end());
    for (auto const* const word : {"--", "sh", "-c"}) all.emplace_back(word);
    all.push_back(script);
    return all;
}

inline bool is_free(fleet& servers, std::string const& key = "k") {
    return wait_until([&] {
        for (server& s : servers) {
            if (redis_cli(s).exists(key)) return false;
        }
        return true;
    });
}

inline void delete_everywhere(fleet& servers, std::string const& key = "k") {
    for (server& s : servers) redis_cli(s).del(key);
}

inline bool is_gone(pid_t id) {
    return wait_until([&] { return ::kill(id, 0) != 0; }, std::chrono::seconds(10));
}

} // namespace holdfast::test

#endif
