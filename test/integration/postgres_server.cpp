#include "integration/postgres_server.hpp"

#include "integration/program.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ; // NOLINT

namespace holdfast::test {

namespace fs = std::filesystem;

namespace {

/// For the shell.
std::string quoted(std::string const& text) {
    std::string word = "'";
    for (char const c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + '\'';
}

} // namespace

std::string postgres_server::programs() {
    std::vector<fs::path> found;
    std::error_code none;
    // Debian keeps them out of PATH.
    for (auto const& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
        if (fs::exists(version.path() / "bin/initdb")) found.push_back(version.path() / "bin");
    }
    if (!found.empty()) return found.back().string();
    auto const o = run_program("dirname \"$(command -v initdb)\"");
    return o.said.starts_with('/') ? o.said.substr(0, o.said.find('\n')) : std::string();
}

std::string postgres_server::as_server_user() const {
    auto const root = ::geteuid() == 0;
    return std::string("setpriv --pdeathsig QUIT ") +
           (root ? "--reuid nobody --regid nogroup --clear-groups " : "");
}

postgres_server::postgres_server() {
    auto const data = folder_.path("data");
    fs::permissions(folder_.path(), fs::perms::others_exec, fs::perm_options::add);
    fs::create_directory(data);
    auto const secret = folder_.write("password", std::string(password) + '\n');
    if (::geteuid() == 0) {
        auto const owned =
            run_program("chown nobody:nogroup " + quoted(data) + ' ' + quoted(secret));
        BOOST_REQUIRE_MESSAGE(owned.status == 0, owned.said);
    }
    auto const made =
        run_program(as_server_user() + quoted(programs() + "/initdb") + " -D " + quoted(data) +
                    " -U booking -A scram-sha-256 --pwfile=" + quoted(secret) +
                    " --no-sync --locale=C -E UTF8");
    BOOST_REQUIRE_MESSAGE(made.status == 0, made.said);
    start();
}

postgres_server::~postgres_server() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGQUIT);
    ::waitpid(pid_, nullptr, 0);
}

void postgres_server::start() {
    auto const data = folder_.path("data");
    auto const log = folder_.path("log");
    std::istringstream words(as_server_user() + programs() + "/postgres -D " + data + " -p " +
                             std::to_string(port_.number()) +
                             " -h 127.0.0.1 -c fsync=off -c unix_socket_directories=");
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    std::vector<char*> argv;
    for (auto& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    auto const error = ::posix_spawnp(&pid_, "setpriv", &files, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    BOOST_REQUIRE_MESSAGE(error == 0, "setpriv does not start: " << error);
    // The last line of this file is the state.
    auto const ready = wait_until(
        [&] {
            std::ifstream file(data + "/postmaster.pid");
            std::string text((std::istreambuf_iterator<char>(file)), {});
            return text.starts_with(std::to_string(pid_) + '\n') &&
                   text.find("\nready") != text.npos;
        },
        std::chrono::seconds(30));
    std::ifstream said(log);
    BOOST_REQUIRE_MESSAGE(ready, std::string((std::istreambuf_iterator<char>(said)), {}));
}

void postgres_server::stop() {
    BOOST_REQUIRE(pid_ > 0);
    BOOST_REQUIRE(::kill(pid_, SIGINT) == 0); // ends the connections of the clients
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

std::string postgres_server::query(std::string const& sql) const {
    auto const o = run_program(quoted(programs() + "/psql") + " -XqAt -v ON_ERROR_STOP=1 -c " +
                               quoted(sql) + ' ' + quoted(url()));
    BOOST_REQUIRE_MESSAGE(o.status == 0, o.said);
    return o.said;
}

} // namespace holdfast::test
