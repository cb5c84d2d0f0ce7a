// A proxy between a client and a real server: it loses, holds and delays bytes as the test wants.
#pragma once

#include "support/access.hpp"
#include "support/resp.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace holdfast::test {

class server;

// Transparent until told otherwise: it understands RESP well enough to count commands and replies,
// and passes on the bytes unchanged. Runs in a thread of its own, which the destructor joins. A
// function that changes something has taken effect when it returns.
//
// To lose the reply of a command that the server has executed:
//
//     proxy.hold_replies();
//     .. the client sends ..
//     BOOST_REQUIRE(proxy.wait_for_held_replies(1));
//     proxy.cut();
//     proxy.resume();
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class proxy {
public:
    using milliseconds = std::chrono::milliseconds;

    explicit proxy(std::uint16_t server_port);
    explicit proxy(server const& to);
    ~proxy();

    proxy(proxy const&) = delete;
    proxy& operator=(proxy const&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] std::string address() const;
    // The address for the library, which comes as a user with the documented rights.
    [[nodiscard]] std::string url() const { return access::url(address()); }

    // Keeps all bytes that come from now on, of every connection. New connections are accepted
    // meanwhile.
    void hold_requests();
    void hold_replies(); // pushes too
    // Passes on the kept bytes, in order, and those that come.
    void resume();

    enum class cut_kind {
        end,  // an orderly end of the stream
        reset // as after a crash of the machine
    };
    // Closes every connection on both sides; kept bytes are lost. New connections are accepted.
    void cut(cut_kind kind = cut_kind::end);
    // Cuts every connection as soon as the server's next `count` replies have been passed on,
    // counted over all connections; later bytes are lost. Works once.
    void cut_after_replies(std::size_t count);

    // Cuts, and refuses new connections, until up().
    void down();
    void up();

    // Each reply, and push, comes this much later.
    void delay_replies(milliseconds delay);

    // Loses the pushes of the server, as some managed services do.
    void swallow_pushes(bool swallows = true);
    // Closes a connection on which nothing was passed on for this long.
    void close_idle(milliseconds after);

    // Asked about each command before it goes to the server: bytes (see resp::) are the answer, in
    // the right order, and the server never hears of the command; nothing means that it is passed
    // on. Runs in the proxy's thread: no assertions of Boost.Test in it. intercept({}) ends it.
    using interceptor = std::function<std::optional<std::string>(command_line const& words)>;
    void intercept(interceptor answers);

    // Since the start, of all connections. Pushes are no replies, nor are the interceptor's
    // answers.
    [[nodiscard]] std::size_t accepted() const noexcept;
    [[nodiscard]] std::size_t connected() const noexcept;
    [[nodiscard]] std::size_t commands_forwarded() const noexcept;
    [[nodiscard]] std::size_t replies_forwarded() const noexcept;
    [[nodiscard]] std::size_t pushes_forwarded() const noexcept;
    // Complete ones that are kept now.
    [[nodiscard]] std::size_t commands_held() const noexcept;
    [[nodiscard]] std::size_t replies_held() const noexcept;

    // False when it has not come to that in time.
    [[nodiscard]] bool wait_for_commands(std::size_t forwarded,
                                         milliseconds timeout = std::chrono::seconds{5}) const;
    [[nodiscard]] bool wait_for_held_commands(std::size_t count,
                                              milliseconds timeout = std::chrono::seconds{5}) const;
    [[nodiscard]] bool wait_for_held_replies(std::size_t count,
                                             milliseconds timeout = std::chrono::seconds{5}) const;

private:
    class engine;
    std::unique_ptr<engine> engine_;
};

} // namespace holdfast::test
