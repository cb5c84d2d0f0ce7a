// One real Redis or Valkey server as a child process of the test.
#pragma once

#include "support/access.hpp"
#include "support/net.hpp"
#include "support/resp.hpp"
#include "support/shifted_clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace holdfast::test {

// A kind of server that this machine has.
struct server_kind {
    std::string name; // "redis-7.0", "valkey-9.1", or "system" for the one that PATH has
    std::string
        binary; // takes the arguments of redis-server; a wrapper script must `exec` the server
};

// The kinds in the folder $HOLDFAST_SERVERS_DIR (each subfolder with an executable `server`), by
// name. When it is not set or has none: $HOLDFAST_REDIS_SERVER, else redis-server or valkey-server
// in PATH, as "system".
[[nodiscard]] std::vector<server_kind> available_servers();

// The kind of this name, if this machine has it.
[[nodiscard]] std::optional<server_kind> find_server(std::string_view name);

// The command that compares before it deletes, as ACL has it: "delifeq" on Valkey 9, "delex" on
// Redis 8.4; empty on others, which do not know the names and so take no rules for them.
[[nodiscard]] std::string native_delete(server_kind const&);

// The rights that doc/production.md names for all features on this kind.
[[nodiscard]] access::rules documented_rules(server_kind const&, std::string_view prefix = {});

// $HOLDFAST_SERVER_KIND if set, else redis-7.0 if there is one, else the first. Throws when there
// is none.
[[nodiscard]] server_kind default_server();

// $HOLDFAST_TEST_TLS: the suite reaches its servers by TLS, as far as it takes their url(). A proxy
// does not speak TLS.
[[nodiscard]] bool tls_by_default();

struct server_options {
    server_kind kind = default_server();

    // Added to the command line: {"--requirepass", "secret", "--enable-debug-command", "yes"}.
    // "{dir}" stands for the server's folder and "{name}" for the port reserved for `name` in
    // `extra_ports`.
    std::vector<std::string> arguments = {};

    // Options that name a further port: {"tls-port"} reserves a port and adds "--tls-port PORT".
    std::vector<std::string> extra_ports = {};

    // Text of a configuration file, written into the folder once; Sentinel needs one, for it
    // rewrites it.
    std::optional<std::string> config = {};

    std::chrono::milliseconds start_timeout = std::chrono::seconds{10};

    // The shift with which a shiftable clock begins.
    std::chrono::milliseconds first_shift = {};

    // For shift_clock(). Its start fails when the server cannot be made to see another clock.
    bool shiftable_clock = false;

    // The test takes rights away from the library's user (support/access.hpp). Of all other servers
    // ACL LOG must be empty in the end.
    bool refuses = false;
    // Of all documented rules, those that the library's user has not.
    std::vector<std::string> missing_rules = {};

    // Whether url() uses TLS. With $HOLDFAST_TEST_TLS, all servers have it. Not for Sentinel.
    bool tls = tls_by_default();
};

// Starts in the constructor and listens on a port of 127.0.0.1 and on a Unix socket when that
// returns. Without arguments to the contrary it persists nothing. The folder lives as long as the
// object; $HOLDFAST_KEEP_FOLDERS keeps it. The child dies with this process, however that ends. The
// log's tail goes to stderr when the server died by itself or when the object is destroyed by an
// exception.
//
// Thread safety: distinct objects: safe. Shared objects: unsafe.
class server {
public:
    struct without_waiting {};

    explicit server(server_options options = {});
    // Returns when the process exists; wait_ready() must follow. So many servers start at once.
    server(server_options options, without_waiting);
    ~server();

    server(server const&) = delete;
    server& operator=(server const&) = delete;

    void wait_ready();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }
    [[nodiscard]] std::uint16_t port(std::string const& extra) const {
        return extra_ports_.at(extra).number();
    }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; } // -1 while it does not run
    [[nodiscard]] std::string address() const { return port_.address(); }
    // The address for the library, which comes as a user with the documented rights. With TLS if
    // the options say so.
    [[nodiscard]] std::string url() const;
    // As the library shows the address of url().
    [[nodiscard]] std::string shown() const;
    // The port of url().
    [[nodiscard]] std::uint16_t url_port() const {
        return options_.tls ? port("tls-port") : port();
    }
    [[nodiscard]] std::string unix_socket() const { return folder_ + "/socket"; }
    [[nodiscard]] std::string const& folder() const noexcept { return folder_; }
    [[nodiscard]] server_kind const& kind() const noexcept { return options_.kind; }

    [[nodiscard]] bool running(); // also while frozen
    [[nodiscard]] bool frozen() const noexcept { return frozen_; }

    // Stops the whole process in mid-air: connections stay open, new ones are accepted by the
    // kernel, nothing is answered. Returns when it has really stopped.
    void freeze();
    void thaw();

    // The documented rights for this kind of server, without those that are to be missing.
    [[nodiscard]] access::rules rules(std::string_view prefix = {}) const;
    // From now on refusals are expected: the test has taken rights away.
    void expect_refusals() noexcept { options_.refuses = true; }
    // Those of the library's user so far, as ACL LOG has them.
    [[nodiscard]] std::vector<std::string> refusals() const;

    // SIGKILL: data that is not on disk is lost, as in a crash. Returns when the process is gone.
    void kill();
    // SIGTERM, as an operator does; thaws first. Throws, after a SIGKILL, when it does not end
    // within 10 s.
    void stop();
    // Starts again on the same port and in the same folder; stops first if it runs. kill() before
    // it makes it a crash. The arguments can be changed in between.
    void restart();
    void set_arguments(std::vector<std::string> arguments) {
        options_.arguments = std::move(arguments);
    }

    // Moves the wall clock of this server alone, onwards or back. Commands that are sent after this
    // returns run at the new time. The clock stays moved when the server starts again, and can be
    // moved while it does not run. Throws std::logic_error without `shiftable_clock`.
    void shift_clock(std::chrono::milliseconds by);
    [[nodiscard]] std::chrono::milliseconds clock_shift() const noexcept; // all together

    // The end of the server's log, for messages.
    [[nodiscard]] std::string log_tail(std::size_t lines = 40) const;

private:
    enum class awaited {
        end,
        stop,
        continuation
    };

    void spawn();
    void use_tls();
    // Before it ends: notes refusals that no test expects.
    void note_refusals() noexcept;
    // Nothing when it does not answer now.
    [[nodiscard]] std::optional<reply> ask(command_line const& words) const;
    [[nodiscard]] bool answers() const;
    [[nodiscard]] std::string expanded(std::string text) const;
    // Waits until the state of the child is the awaited one; false when `timeout` passed before.
    bool wait_for(awaited state, std::chrono::milliseconds timeout);
    void send_signal(int signal) const;
    void send_signal_to_group(int signal) const noexcept;
    [[noreturn]] void fail(std::string const& problem) const;

    server_options options_;
    net::reserved_port port_;
    std::map<std::string, net::reserved_port> extra_ports_;
    std::string folder_;
    std::optional<shifted_clock> clock_; // in the folder
    pid_t pid_ = -1;
    bool frozen_ = false;
    bool died_by_itself_ = false;
    bool reported_ = false; // the log is in an exception
    std::string end_;       // how the process ended
    int exceptions_at_start_;
    std::chrono::steady_clock::time_point started_;
};

} // namespace holdfast::test
