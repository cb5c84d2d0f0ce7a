// Endpoints on a port of 127.0.0.1 that misbehave as no server should.
#pragma once

#include "support/resp.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

enum class behaviour {
    garbage,          // answers bytes that are not RESP
    http,             // answers as a web server that got a bad request
    closes,           // accepts and closes at once
    closes_mid_reply, // answers half a reply to the first bytes and closes
    silent,           // accepts, reads and never answers
    huge_bulk,        // announces a bulk string of 10 GB and streams it
    refused,          // no process listens, and no other process gets the port
};

inline constexpr std::array all_behaviours{
    behaviour::garbage, behaviour::http,      behaviour::closes, behaviour::closes_mid_reply,
    behaviour::silent,  behaviour::huge_bulk, behaviour::refused};

std::ostream& operator<<(std::ostream& out, behaviour value);

// Runs in a thread of its own, which the destructor joins.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class fake_server {
public:
    // Gets each command, in order, and returns the bytes of the answer (see resp::). It runs in the
    // fake's thread, one call at a time: no assertions of Boost.Test in it. Data that it shares
    // with the test must be atomic or locked. An exception from it is answered as an error.
    using script = std::function<std::string(command_line const& words)>;

    // A script returns these instead of bytes:
    static const std::string no_answer; // this command never gets one (the later ones may)
    static const std::string hang_up;   // sends the earlier answers, then closes

    // Or the results of these. The bytes are sent, and on this connection
    [[nodiscard]] static std::string then_silent(std::string_view bytes); // nothing more, ever
    [[nodiscard]] static std::string then_close(std::string_view bytes);  // then comes its end
    [[nodiscard]] static std::string then_reset(std::string_view bytes);  // or a reset
    // `filler` over and over, until the client closes or has got flood_size bytes; then nothing.
    [[nodiscard]] static std::string then_flood(std::string_view bytes, std::string_view filler);
    static constexpr std::size_t flood_size = 64 * 1024 * 1024;

    explicit fake_server(behaviour how);
    explicit fake_server(script answers);
    ~fake_server();

    fake_server(fake_server const&) = delete;
    fake_server& operator=(fake_server const&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] std::string address() const;

    [[nodiscard]] std::size_t accepted() const noexcept;  // connections so far
    [[nodiscard]] std::size_t connected() const noexcept; // connections that are open
    [[nodiscard]] std::size_t received() const noexcept;  // bytes so far
    [[nodiscard]] std::size_t most_sent() const noexcept; // bytes, on any one connection

    // The commands that a scripted server got so far, of all connections, in order.
    [[nodiscard]] std::vector<command_line> commands() const;
    // How many of them had this name; upper and lower case are the same.
    [[nodiscard]] std::size_t count(std::string_view name) const;

    // Sends bytes to every connection, unasked for: resp::invalidation("key").
    void push(std::string const& bytes);
    // Closes every connection; new ones are accepted.
    void cut();

private:
    class engine;
    std::unique_ptr<engine> engine_;
};

// Whether the words are this command; upper and lower case are the same. is_command(words,
// "CLIENT", "TRACKING")
[[nodiscard]] bool is_command(command_line const& words, std::string_view name);
[[nodiscard]] bool is_command(command_line const& words, std::string_view name,
                              std::string_view second);

} // namespace holdfast::test
