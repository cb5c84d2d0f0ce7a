// Servers on a port of 127.0.0.1 that answer wrongly, or not at all.
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
    garbage,          // sends bytes that are not RESP
    http,             // answers like a web server after a bad request
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

// A server in its own thread, which the destructor joins.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class fake_server {
public:
    // A script gets each command, in order, and returns the bytes of the answer (see resp::). It
    // runs in the fake's thread, one call at a time, so it must not use assertions of Boost.Test.
    // Data shared with the test must be atomic or locked. An exception becomes an error reply.
    using script = std::function<std::string(command_line const& words)>;

    // A script may return these values instead of bytes:
    static const std::string no_answer; // this command gets no answer, but later ones may
    static const std::string hang_up;   // sends the earlier answers, then closes

    // Or it returns the results of these functions. They send the bytes. After that the connection
    [[nodiscard]] static std::string then_silent(std::string_view bytes); // falls silent
    [[nodiscard]] static std::string then_close(std::string_view bytes);  // is closed
    [[nodiscard]] static std::string then_reset(std::string_view bytes);  // is reset
    // gets `filler` repeatedly until the client closes or has received flood_size bytes.
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
    [[nodiscard]] std::size_t connected() const noexcept; // open connections
    [[nodiscard]] std::size_t received() const noexcept;  // bytes so far
    [[nodiscard]] std::size_t most_sent() const noexcept; // the most bytes on one connection

    // All commands that a scripted server has received, in order.
    [[nodiscard]] std::vector<command_line> commands() const;
    // The number of commands with this name, ignoring case.
    [[nodiscard]] std::size_t count(std::string_view name) const;

    // Sends bytes to every connection without a question: resp::invalidation("key").
    void push(std::string const& bytes);
    // Closes every connection; new ones are accepted.
    void cut();
    // Answers nothing from now on; its script does not run any more. For scripts that use other
    // fakes: all are stopped before the first one is destroyed.
    void stop();

private:
    class engine;
    std::unique_ptr<engine> engine_;
};

// True if the words are this command, ignoring case: is_command(words, "CLIENT", "TRACKING").
[[nodiscard]] bool is_command(command_line const& words, std::string_view name);
[[nodiscard]] bool is_command(command_line const& words, std::string_view name,
                              std::string_view second);

} // namespace holdfast::test
