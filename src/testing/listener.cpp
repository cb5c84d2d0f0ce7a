#include "testing/listener.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/scope/scope_exit.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <string_view>
#include <vector>

namespace holdfast::testing {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct listener::connection {
    connection(tcp::socket s, lock_server::client& c)
        : socket(std::move(s))
        , client(c) {}

    tcp::socket socket;
    lock_server::client& client; ///< until the connection is closed
    command_reader input{};
    bool reads = false;   ///< a wait for input is under way
    bool writes = false;  ///< a wait for room to write is under way
    bool stuffed = false; ///< there may be commands left, as the client does not read
    bool closed = false;
};

namespace {

/// The thread inherits the mask of its creator, so that it runs no signal handlers of the program.
template <class F>
std::thread start_without_signals(F f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    boost::scope::scope_exit const restored(
        [&] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    return std::thread(std::move(f));
}

} // namespace

listener::listener() {
    reserved_.open(tcp::v4());
    reserved_.set_option(tcp::socket::reuse_address(true));
    reserved_.bind({asio::ip::address_v4::loopback(), 0});
    port_ = reserved_.local_endpoint().port();
    start();
    thread_ = start_without_signals([this] {
        auto const work = asio::make_work_guard(context_);
        for (;;) {
            try {
                context_.run();
                return;
            } catch (std::exception const&) {
                // No memory, for example. What failed has ended; the rest goes on.
            }
        }
    });
}

listener::~listener() {
    context_.stop();
    thread_.join();
}

//
// Faults
//

void listener::start() {
    tcp::acceptor fresh(context_);
    fresh.open(tcp::v4());
    fresh.set_option(tcp::acceptor::reuse_address(true));
    fresh.bind({asio::ip::address_v4::loopback(), port_});
    fresh.listen();
    acceptor_ = std::move(fresh);
    state_ = state::up;
    ++period_;
    accept_next();
}

void listener::cut() {
    for (auto const all = connections_; auto const& [id, each] : all) close(*each);
}

void listener::down() {
    run([this] {
        error_code ignored;
        acceptor_.close(ignored);
        ++period_;
        state_ = state::down;
        cut();
    });
}

void listener::up() {
    run([this] {
        if (state_ == state::down) start();
    });
}

void listener::freeze() {
    run([this] {
        if (state_ == state::up) state_ = state::frozen;
    });
}

void listener::thaw() {
    run([this] {
        if (state_ == state::frozen) resume();
    });
}

void listener::resume() {
    state_ = state::up;
    arm_expiry();
    for (auto const all = connections_; auto const& [id, each] : all) {
        await_input(each);
        write(each);
    }
}

void listener::restart() {
    run([this] {
        cut();
        server_.restart();
        if (state_ == state::down) return start();
        state_ = state::up;
    });
}

//
// Connections
//

void listener::accept_next() {
    acceptor_.async_accept([this, period = period_](error_code ec, tcp::socket socket) {
        if (period != period_) return;
        if (!ec) {
            accept_next();
            return add(std::move(socket));
        }
        // The process has no descriptor left, for example.
        accept_pause_.expires_after(std::chrono::milliseconds(20));
        accept_pause_.async_wait([this, period](error_code) {
            if (period == period_) accept_next();
        });
    });
}

void listener::add(tcp::socket socket) {
    error_code ec;
    socket.non_blocking(true, ec);
    socket.set_option(tcp::no_delay(true), ec);
    if (connections_.size() >= max_connections) {
        constexpr std::string_view refusal = "-ERR max number of clients reached\r\n";
        socket.write_some(asio::buffer(refusal), ec);
        return;
    }
    auto& client = server_.connect();
    auto const c = std::make_shared<connection>(std::move(socket), client);
    attempt(c, [&] {
        connections_.emplace(client.id, c);
        await_input(c);
    });
}

void listener::close(connection& c) {
    if (c.closed) return;
    c.closed = true;
    error_code ignored;
    c.socket.close(ignored);
    auto const id = c.client.id;
    server_.disconnect(c.client);
    connections_.erase(id);
}

void listener::await_input(connection_ptr const& c) {
    if (c->closed || c->reads || c->stuffed || c->client.is_over) return;
    c->reads = true;
    c->socket.async_wait(tcp::socket::wait_read, [this, c](error_code ec) {
        c->reads = false;
        if (ec || c->closed || state_ == state::frozen) return;
        attempt(c, [&] { receive(c); });
    });
}

void listener::receive(connection_ptr const& c) {
    std::array<char, 64 * 1024> bytes;
    error_code ec;
    auto const n = c->socket.read_some(asio::buffer(bytes), ec);
    if (ec && ec != asio::error::would_block) return close(*c);
    c->input.feed({bytes.data(), n});
    serve(c);
}

void listener::serve(connection_ptr const& c) {
    do {
        execute_all(*c);
        after_commands();
    } while (!c->closed && c->stuffed && c->client.out.empty());
    await_input(c);
}

void listener::execute_all(connection& c) {
    c.stuffed = false;
    try {
        while (!c.client.is_over) {
            c.stuffed = c.client.out.size() >= max_unsent / 4;
            if (c.stuffed) return;
            auto const words = c.input.next();
            if (!words) return;
            server_.execute(c.client, *words);
        }
    } catch (protocol_error const& e) {
        encode(c.client.out, reply::error(std::string("ERR Protocol error: ") + e.what()), 2);
        c.client.is_over = true;
    }
}

void listener::after_commands() {
    // A closed one is no longer there.
    for (auto const all = connections_; auto const& [id, each] : all) {
        if (each->client.out.empty() && !each->client.is_over) continue;
        write(each);
    }
    arm_expiry();
}

void listener::write(connection_ptr const& c) {
    if (c->closed) return;
    auto& out = c->client.out;
    if (!c->writes && state_ != state::frozen) {
        error_code ec;
        while (!out.empty() && !ec) out.erase(0, c->socket.write_some(asio::buffer(out), ec));
        if (ec && ec != asio::error::would_block) return close(*c);
        if (out.empty() && c->client.is_over) return close(*c);
        if (!out.empty()) await_room(c);
    }
    if (out.size() > max_unsent) close(*c);
}

void listener::await_room(connection_ptr const& c) {
    c->writes = true;
    c->socket.async_wait(tcp::socket::wait_write, [this, c](error_code ec) {
        c->writes = false;
        if (ec || c->closed) return;
        attempt(c, [&] {
            write(c);
            if (!c->closed && c->stuffed && c->client.out.empty()) serve(c);
        });
    });
}

// As a server that looks for expired keys now and then. A command finds them expired at once.
void listener::arm_expiry() {
    if (awaits_expiry_ || !server_.expires()) return;
    expiry_.expires_after(std::chrono::milliseconds(20));
    expiry_.async_wait([this](error_code) {
        awaits_expiry_ = false;
        if (state_ == state::frozen) return; // goes on after the thaw
        server_.expire();
        after_commands();
    });
    awaits_expiry_ = true;
}

} // namespace holdfast::testing
