// A lock_server on a port of the loopback device, in a thread of its own, with the faults of an
// instance.
//
// A frozen server neither reads nor writes, and its timers do nothing. So all that clients send
// waits in the kernel, and is executed after the thaw, as with a process that was stopped.
#ifndef HOLDFAST_TESTING_LISTENER_HPP
#define HOLDFAST_TESTING_LISTENER_HPP

#include "testing/command_reader.hpp"
#include "testing/lock_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>

namespace holdfast::testing {

class listener {
public:
    /// What may wait for one client that does not read. A client with more is cut off; no command
    /// is executed for one with a quarter of that.
    static constexpr std::size_t max_unsent = std::size_t{4} << 20U;
    static constexpr std::size_t max_connections = 1'000;

    listener();
    ~listener();
    listener(listener const&) = delete;
    listener& operator=(listener const&) = delete;

    std::uint16_t port() const { return port_; }

    // Each of these returns when the thread has done it.

    void down();
    void up();
    void freeze();
    void thaw();
    void restart();
    /// Calls `f` with the server, between two commands. Clients get the pushes that follow from it.
    template <class F>
    auto use(F f) {
        return run([&] {
            auto result = f(server_);
            after_commands();
            return result;
        });
    }

private:
    enum class state : std::uint8_t {
        up,
        frozen,
        down
    };
    struct connection;
    using connection_ptr = std::shared_ptr<connection>;

    template <class F>
    auto run(F f) {
        // The thread may still be at the end of the task when the result is there.
        auto const task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
        auto result = task->get_future();
        boost::asio::post(context_, [task] { (*task)(); });
        return result.get();
    }

    /// What fails for a connection, as memory may run out, ends that connection.
    template <class F>
    void attempt(connection_ptr const& c, F f) {
        try {
            f();
        } catch (std::exception const&) {
            close(*c);
        }
    }

    void start();
    void cut();
    void resume();
    void accept_next();
    void add(boost::asio::ip::tcp::socket);
    void close(connection&);
    void await_input(connection_ptr const&);
    void receive(connection_ptr const&);
    void serve(connection_ptr const&);
    void execute_all(connection&);
    void write(connection_ptr const&);
    void await_room(connection_ptr const&);
    void after_commands();
    void arm_expiry();

    boost::asio::io_context context_{1};
    /// Is bound and does not listen, so that nobody gets the port while the instance is down.
    boost::asio::ip::tcp::socket reserved_{context_};
    boost::asio::ip::tcp::acceptor acceptor_{context_};
    boost::asio::steady_timer accept_pause_{context_}, expiry_{context_};
    lock_server server_;
    std::map<std::uint64_t, connection_ptr> connections_; ///< by the id of the client
    std::uint64_t period_ = 0; ///< of listening: what was begun in an earlier one does not count
    state state_ = state::up;
    bool awaits_expiry_ = false;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

} // namespace holdfast::testing

#endif
