// The witness: a small blocking client that shares no code with the library. It reads the keys that
// are really on a server, and it plays foreign clients.
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
// It did not answer in time.
struct cli_timeout : cli_error {
    using cli_error::cli_error;
};

// Connects on first use, and again when the server has closed the connection since (it was
// restarted). Speaks RESP2 until it is told HELLO 3.
class redis_cli {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit redis_cli(std::uint16_t port, std::string password = {},
                       milliseconds timeout = std::chrono::seconds{5});
    explicit redis_cli(server const& on, std::string password = {},
                       milliseconds timeout = std::chrono::seconds{5});

    void set_timeout(milliseconds timeout) { timeout_ = timeout; }

    // One command and its reply, also when that is an error. Pushes that come meanwhile are kept
    // for take_pushes(). Throws cli_timeout, cli_error when the connection fails; the next command
    // then connects anew.
    reply command(command_line const& words);

    // The halves of command(), for pipelines and for subscribers. receive() gives pushes too.
    void send(command_line const& words);
    void send_bytes(std::string_view bytes);
    reply receive();
    [[nodiscard]] std::vector<reply> take_pushes() { return std::exchange(pushes_, {}); }
    // True if bytes that no command or receive() has taken are here, or come within `timeout`.
    [[nodiscard]] bool has_input(milliseconds timeout);

    void disconnect();

    // These throw cli_error when the server answers an error.
    [[nodiscard]] bool exists(std::string const& key);
    [[nodiscard]] std::optional<std::string> get(std::string const& key);
    [[nodiscard]] milliseconds
    pttl(std::string const& key); // -2 ms: no such key, -1 ms: it never expires
    [[nodiscard]] std::int64_t dbsize();
    [[nodiscard]] std::vector<std::string> keys(std::string const& pattern = "*"); // sorted
    void flush();
    void set(std::string const& key, std::string const& value);
    void set(std::string const& key, std::string const& value, milliseconds ttl);
    // SET NX PX, as every Redlock client does.
    [[nodiscard]] bool set_if_absent(std::string const& key, std::string const& value,
                                     milliseconds ttl);
    bool del(std::string const& key);
    // Compare and delete, as every Redlock client does.
    bool del_if_equal(std::string const& key, std::string const& value);
    // A field of INFO: info("run_id"). Empty when there is none.
    [[nodiscard]] std::string info(std::string_view field);
    void config(std::string const& option, std::string const& value);

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
