// A small blocking client that shares no code with the library. The tests use it as a witness,
// which reads the keys on a server, and to play foreign clients.
#pragma once

#include "support/net.hpp"
#include "support/resp.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

class server;

// The server could not be asked, or refused.
struct cli_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// The server did not answer in time.
struct cli_timeout : cli_error {
    using cli_error::cli_error;
};

// Connects on first use, and again if the server has closed the connection, for example in a
// restart. It speaks RESP2 until a test sends HELLO 3.
class redis_cli {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit redis_cli(std::uint16_t port, std::string password = {},
                       milliseconds timeout = std::chrono::seconds{5});
    explicit redis_cli(server const& on, std::string password = {},
                       milliseconds timeout = std::chrono::seconds{5});

    void set_timeout(milliseconds timeout) { timeout_ = timeout; }

    // Sends a command and returns its reply, which may be an error. Pushes that arrive meanwhile
    // are kept for take_pushes(). Throws cli_timeout, or cli_error if the connection fails. The
    // next command then connects again.
    reply command(command_line const& words);
    // The same for several commands, which are sent at once.
    [[nodiscard]] std::vector<reply> commands(std::vector<command_line> const& lines);

    // The two halves of command(), for pipelines and subscribers. receive() also returns pushes.
    void send(command_line const& words);
    void send_bytes(std::string_view bytes);
    reply receive();
    [[nodiscard]] std::vector<reply> take_pushes() { return std::exchange(pushes_, {}); }
    // True if unread bytes are there, or arrive within `timeout`.
    [[nodiscard]] bool has_input(milliseconds timeout);

    void disconnect();

    // These throw cli_error if the server answers with an error.
    [[nodiscard]] bool exists(std::string const& key);
    [[nodiscard]] std::optional<std::string> get(std::string const& key);
    [[nodiscard]] milliseconds
    pttl(std::string const& key); // -2 ms: no such key, -1 ms: it never expires
    [[nodiscard]] std::int64_t dbsize();
    [[nodiscard]] std::vector<std::string> keys(std::string const& pattern = "*"); // sorted
    void flush();
    void set(std::string const& key, std::string const& value);
    void set(std::string const& key, std::string const& value, milliseconds ttl);
    // SET NX PX, as Redlock clients do.
    [[nodiscard]] bool set_if_absent(std::string const& key, std::string const& value,
                                     milliseconds ttl);
    bool del(std::string const& key);
    // Compare and delete, as Redlock clients do.
    bool del_if_equal(std::string const& key, std::string const& value);
    // A field of INFO, as in info("run_id"). Empty if there is no such field.
    [[nodiscard]] std::string info(std::string_view field);
    void config(std::string const& option, std::string const& value);
    // For clients with a short max_ttl: while some servers are older than that, and others younger,
    // the younger ones have no votes. Servers tell their age in whole seconds.
    [[nodiscard]] bool is_older_than(milliseconds max_ttl);

private:
    using time_point = std::chrono::steady_clock::time_point;

    void connect(time_point deadline);
    void wait_for(short events, time_point deadline);
    [[noreturn]] void give_up();
    void write_all(std::string_view bytes, time_point deadline);
    reply read_reply(time_point deadline);
    [[nodiscard]] bool closed_by_server() const;
    reply checked(command_line const& words);
    [[noreturn]] void fail(std::string const& problem);

    std::uint16_t port_;
    std::string password_;
    milliseconds timeout_;
    net::unique_fd socket_;
    std::string received_;
    std::vector<reply> pushes_;
};

} // namespace holdfast::test
