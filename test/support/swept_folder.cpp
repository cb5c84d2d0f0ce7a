#include "support/swept_folder.hpp"

#include "support/net.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>

extern char** environ; // NOLINT

namespace holdfast::test {

namespace {

[[noreturn]] void fail_with(int error, char const* problem) {
    throw std::system_error{error, std::generic_category(), problem};
}

// Reads names of folders, one a line, until this process has ended: then the socket is closed. The
// servers end at about the same time, so that a file may still come into a folder.
char script[] = "while read -r folder; do set -- \"$@\" \"$folder\"; done\n"
                "for attempt in $(seq 1000); do rm -rf -- \"$@\" && break; done";

class sweeper {
public:
    // Never destroyed: the socket ends with the process.
    static sweeper& instance() {
        static auto* const shared = new sweeper; // NOLINT
        return *shared;
    }

    void add(std::string const& folder) {
        auto const line = folder + '\n';
        const std::lock_guard lock{mutex_};
        // Without the helper, a folder stays only if this process crashes.
        [[maybe_unused]] const ssize_t sent =
            ::send(to_helper_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    }

private:
    sweeper() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            fail_with(errno, "socketpair");
        const net::unique_fd from_us{ends[0]};
        to_helper_ = net::unique_fd{ends[1]};
        posix_spawn_file_actions_t files;
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawn_file_actions_adddup2(&files, from_us.get(), STDIN_FILENO);
        for (int const output : {STDOUT_FILENO, STDERR_FILENO})
            ::posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
        // The sockets of a test must not stay open in there.
        ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
        posix_spawnattr_t attributes;
        ::posix_spawnattr_init(&attributes);
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID); // Ctrl-C ends the test alone
        char shell[] = "sh";
        char option[] = "-c";
        char* arguments[] = {shell, option, script, shell, nullptr};
        pid_t helper = -1;
        int const error =
            ::posix_spawn(&helper, "/bin/sh", &files, &attributes, arguments, environ);
        ::posix_spawnattr_destroy(&attributes);
        ::posix_spawn_file_actions_destroy(&files);
        if (error != 0) fail_with(error, "cannot start the sweeper");
    }

    std::mutex mutex_;
    net::unique_fd to_helper_;
};

bool folders_are_kept() {
    char const* const keep = std::getenv("HOLDFAST_KEEP_FOLDERS");
    return keep != nullptr && *keep != '\0';
}

} // namespace

void sweep_at_end(std::string const& folder) {
    if (!folders_are_kept()) sweeper::instance().add(folder);
}

swept_folder::swept_folder()
    : path_{(std::filesystem::temp_directory_path() / "holdfast-XXXXXX").string()} {
    if (::mkdtemp(path_.data()) == nullptr) fail_with(errno, "mkdtemp");
    sweep_at_end(path_);
}

swept_folder::~swept_folder() {
    std::error_code ignored;
    if (!folders_are_kept()) std::filesystem::remove_all(path_, ignored);
}

std::string swept_folder::write(std::string const& name, std::string const& text) const {
    auto const temporary = path(name + ".new");
    std::ofstream{temporary, std::ios::binary} << text;
    std::filesystem::rename(temporary, path(name));
    return path(name);
}

} // namespace holdfast::test
