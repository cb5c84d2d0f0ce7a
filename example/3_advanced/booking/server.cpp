#include "server.hpp"

#include <holdfast/client.hpp>
#include <holdfast/log_observer.hpp>

#include "http_session.hpp"
#include "metrics.hpp"
#include "routes.hpp"
#include "seats.hpp"
#include "store.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <csignal>
#include <exception>
#include <iostream>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace booking {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

/// The sessions that are open, to be finished in the end.
class session_list {
public:
    void add(std::shared_ptr<http_session> const& session) {
        std::lock_guard const lock(mutex_);
        sessions_.remove_if([](auto const& each) { return each.expired(); });
        sessions_.push_back(session);
    }
    void finish_all() {
        std::lock_guard const lock(mutex_);
        for (auto const& each : sessions_) {
            if (auto const session = each.lock()) session->finish();
        }
    }

private:
    std::mutex mutex_;
    std::list<std::weak_ptr<http_session>> sessions_;
};

/// Host and process, for the reports of other servers.
std::string holder_label() {
    return "booking." + std::to_string(::getpid());
}

/// Lost leases, failures for want of instances, and instances that change. That a seat is being
/// bought by somebody else is no news.
std::shared_ptr<holdfast::observer> make_log() {
    return std::make_shared<holdfast::log_observer>(
        [](holdfast::log_level, std::string_view line) { std::clog << line << std::endl; },
        holdfast::log_options{.level = holdfast::log_level::warning});
}

class server {
public:
    explicit server(options const& o)
        : options_(o)
        , store_(open_store(o.database, o.seats))
        , pool_(store_->connections())
        , context_(static_cast<int>(o.threads))
        , locks_(context_.get_executor(), o.instances,
                 {.max_ttl = o.ttl, .holder_label = holder_label(), .observer = log_.get()})
        , seats_(locks_, *store_, pool_,
                 {.count = o.seats, .ttl = o.ttl, .payment = o.payment, .hold = o.hold})
        , routes_(seats_, metrics_, locks_, o.deadline)
        , handler_([this](request const& asked) { return routes_.answer(asked); })
        , main_(asio::make_strand(context_))
        , acceptor_(main_, tcp::endpoint(asio::ip::make_address(o.host), o.port))
        , signals_(main_, SIGINT, SIGTERM) {}

    int run() {
        std::cout << "booking listens on " << acceptor_.local_endpoint() << std::endl;
        asio::co_spawn(main_, accept(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        signals_.async_wait([this](holdfast::error_code ec, int) {
            if (!ec) drain();
        });
        std::vector<std::jthread> threads;
        for (unsigned i = 1; i < options_.threads; ++i)
            threads.emplace_back([this] { context_.run(); });
        context_.run();
        threads.clear();
        pool_.join();
        return status_;
    }

private:
    asio::awaitable<void> accept() {
        asio::steady_timer pause(main_);
        for (;;) {
            auto accepted =
                co_await acceptor_.async_accept(asio::make_strand(context_), asio::as_tuple);
            auto& [error, socket] = accepted;
            if (!acceptor_.is_open()) co_return;
            if (error) { // for example too many open files
                std::cerr << "booking: accept: " << error.message() << std::endl;
                pause.expires_after(100ms);
                co_await pause.async_wait();
                continue;
            }
            auto const session = make_http_session(std::move(socket), handler_);
            sessions_.add(session);
            session->start();
        }
    }

    /// Requests that wait for a lock are answered with 503, and those that have one finish. When
    /// the last connection has ended, nothing is left for the context to do.
    void drain() {
        std::cout << "booking drains" << std::endl;
        acceptor_.close();
        sessions_.finish_all();
        locks_.drain(options_.drain, [this](holdfast::error error) {
            if (!error) return;
            std::cerr << "booking: " << error.what() << std::endl;
            status_ = 1;
        });
    }

    options options_;
    std::unique_ptr<store> store_;
    asio::thread_pool pool_;
    asio::io_context context_;
    std::shared_ptr<holdfast::observer> log_ = make_log();
    holdfast::client locks_;
    seats seats_;
    metrics metrics_;
    routes routes_;
    request_handler handler_;
    asio::strand<asio::io_context::executor_type> main_;
    session_list sessions_;
    tcp::acceptor acceptor_;
    asio::signal_set signals_;
    int status_ = 0;
};

} // namespace

int run_server(options const& o) {
    return server(o).run();
}

} // namespace booking
