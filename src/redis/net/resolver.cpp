#include "redis/net/resolver.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/scope/scope_fail.hpp>

#include <csignal>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ip::tcp;

/// A call of resolve() that has no result yet. Its executor keeps the context running.
struct waiter {
    asio::any_io_executor executor;
    resolver::handler handler;
};

/// All waiters of one execution context. The mutex protects the waiters, and the look-ups that they
/// wait for.
struct waiting_room {
    std::mutex mutex;
    bool closed = false;
    std::list<waiter> waiters;
};

/// Asio forbids a post to a context that is being destroyed. So this service closes the waiting
/// room before that, and destroys the handlers, as Asio does with the handlers of its own
/// operations.
class waiting_service final : public asio::execution_context::service {
public:
    using key_type = waiting_service;
    static inline asio::execution_context::id id;

    explicit waiting_service(asio::execution_context& context)
        : service(context) {}

    std::shared_ptr<waiting_room> room() const { return room_; }

private:
    void shutdown() override {
        std::list<waiter> dropped; // destroyed after the unlock: a handler may own a resolver
        std::lock_guard const lock(room_->mutex);
        room_->closed = true;
        dropped.swap(room_->waiters);
    }

    /// Our threads post under the lock. The fork holds the lock, because they must not post during
    /// a fork. They do not exist in the child.
    void notify_fork(asio::execution_context::fork_event event) override {
        if (event == asio::execution_context::fork_prepare) {
            forking_ = std::unique_lock(room_->mutex);
        } else {
            forking_ = {};
        }
    }

    std::unique_lock<std::mutex> forking_;

    std::shared_ptr<waiting_room> const room_ = std::make_shared<waiting_room>();
};

std::shared_ptr<waiting_room> room_of(asio::any_io_executor const& executor) {
    auto& context = asio::query(executor, asio::execution::context);
    return asio::use_service<waiting_service>(context).room();
}

/// Blocks all signals while a thread is started. The thread inherits the mask, so that it runs no
/// signal handlers of the program.
class signals_blocked {
public:
    signals_blocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_blocked(signals_blocked const&) = delete;
    signals_blocked& operator=(signals_blocked const&) = delete;

private:
    sigset_t before_{};
};

/// Looks up both address families, even if this host has not configured them. Asio's flag
/// address_configured does not count loopback addresses.
resolver::endpoints look_up(std::string const& host, std::uint16_t port, error_code& ec) {
    asio::io_context own;
    tcp::resolver r(own);
    auto const results = r.resolve(host, std::to_string(port), tcp::resolver::numeric_service, ec);
    return {results.begin(), results.end()};
}

} // namespace

/// Shared with the thread. The thread may outlive the execution context, so this class holds
/// nothing of the context: the waiters hold the executors.
class resolver::lookup : public std::enable_shared_from_this<lookup> {
public:
    lookup(std::shared_ptr<waiting_room> room, std::string host, std::uint16_t port,
           look_up_function function)
        : host_(std::move(host))
        , port_(port)
        , function_(std::move(function))
        , room_(std::move(room)) {}

    void resolve(asio::any_io_executor const& executor, handler h) {
        std::list<waiter> fresh;
        fresh.push_back(
            {asio::prefer(executor, asio::execution::outstanding_work.tracked), std::move(h)});
        {
            std::lock_guard const lock(room_->mutex);
            if (room_->closed) return;
            waiter_ = fresh.begin();
            room_->waiters.splice(room_->waiters.end(), fresh);
            if (std::exchange(running_, true)) return;
        }
        boost::scope::scope_fail const undo([this] { cancel(); });
        start();
    }

    void cancel() noexcept { auto const dropped = leave({}); }

private:
    void start() {
        boost::scope::scope_fail const undo([this] {
            std::lock_guard const lock(room_->mutex);
            running_ = false;
        });
        try {
            signals_blocked const blocked;
            std::thread([self = shared_from_this()] { self->run(); }).detach();
        } catch (std::system_error const& e) {
            end({e.code().value(), boost::system::system_category()}, {});
        }
    }

    void run() noexcept {
        error_code ec;
        endpoints found;
        try {
            found = function_(host_, port_, ec);
        } catch (...) {
            ec = asio::error::no_recovery;
        }
        try {
            end(ec, std::move(found));
        } catch (...) {
            // There is no memory to report the result. The caller's time limit ends the wait.
        }
    }

    /// Posts the result under the lock, and only to a waiter. So it touches no context that is
    /// gone.
    void end(error_code ec, endpoints found) {
        std::lock_guard const lock(room_->mutex);
        running_ = false;
        if (room_->closed || !waiter_) return;
        code_ = ec;
        found_ = std::move(found);
        asio::post((*waiter_)->executor,
                   [self = shared_from_this(), t = ticket_] { self->report(t); });
    }

    void report(std::uint64_t t) {
        auto const left = leave(t);
        if (!left.empty()) left.front().handler(code_, std::move(found_));
    }

    /// Takes out the waiter. With a ticket: only if the waiter has this ticket.
    std::list<waiter> leave(std::optional<std::uint64_t> t) {
        std::list<waiter> left;
        std::lock_guard const lock(room_->mutex);
        if (room_->closed || !waiter_ || (t && t != ticket_)) return left;
        left.splice(left.end(), room_->waiters, *waiter_);
        waiter_.reset();
        ++ticket_;
        return left;
    }

    std::string const host_;
    std::uint16_t const port_;
    look_up_function const function_;
    std::shared_ptr<waiting_room> const room_;

    // The room's mutex protects these members. Once the result is posted, only the executor uses
    // it.
    bool running_ = false;
    std::optional<std::list<waiter>::iterator> waiter_;
    std::uint64_t ticket_ = 0;
    error_code code_;
    endpoints found_;
};

resolver::resolver(asio::any_io_executor executor, std::string host, std::uint16_t port)
    : resolver(std::move(executor), std::move(host), port, look_up) {}

resolver::resolver(asio::any_io_executor executor, std::string host, std::uint16_t port,
                   look_up_function function)
    : executor_(std::move(executor))
    , lookup_(std::make_shared<lookup>(room_of(executor_), std::move(host), port,
                                       std::move(function))) {}

resolver::~resolver() {
    cancel();
}

std::optional<tcp::endpoint> resolver::numeric(std::string const& host, std::uint16_t port) {
    error_code ec;
    auto const address = asio::ip::make_address(host, ec);
    if (ec) return std::nullopt;
    return tcp::endpoint(address, port);
}

void resolver::resolve(handler h) {
    lookup_->resolve(executor_, std::move(h));
}

void resolver::cancel() noexcept {
    lookup_->cancel();
}

} // namespace holdfast::redis
