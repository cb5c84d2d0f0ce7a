#include "command/lock/run.hpp"

#include <holdfast/at_most_every.hpp>
#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/lock/guarded_command.hpp"
#include "command/lock/holder_notice.hpp"
#include "command/output.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

/// Acquires the lock, runs the command, and releases the lock. Everything happens on one thread.
class supervisor final : guarded_command::owner {
public:
    explicit supervisor(run_settings const& s)
        : settings_(s)
        , ttl_(s.ttl_ms)
        , client_(context_.get_executor(), s.addresses(), s.client())
        , lock_(s.make_lock(client_, s.lock()))
        , command_(s, context_, *this)
        , over_(context_)
        , patience_(s, client_, context_)
        , notice_(client_, context_, s.keys) {}

    int run() {
        command_.wait_for_signal();
        attempt();
        context_.run();
        return result_;
    }

private:
    void attempt() {
        acquiring_ = true;
        if (settings_.interval_ms) return attempt_run();
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(), [this](error e, lease l) { on_acquired(e, std::move(l)); });
        if (settings_.adopted) return client_.adopt(lock_, *settings_.adopted, std::move(handler));
        if (settings_.verbose || has_reader()) notice_.start();
        patience_.acquire(lock_, std::move(handler));
    }

    void on_acquired(error const& e, lease l) {
        acquiring_ = false;
        if (e) return on_failed(e);
        notice_.stop();
        lease_ = std::move(l);
        if (result_ != 0) return give_back(); // a signal came together with the lock
        start();
    }

    void on_failed(error const& e) {
        if (result_ != 0) return finish(); // a signal ended the wait
        auto const retried = patience_.retries(e, [this] {
            if (result_ == 0) return attempt();
            finish(); // a signal ended the pause
        });
        if (retried) return;
        result_ = patience_.give_up(e);
        if (e == errc::lease_lost) result_ = lost; // it cannot be adopted
        finish();
    }

    //
    // At most once in an interval
    //

    void attempt_run() {
        auto const body = [this](lease& held) { return run_under(held); };
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(),
            [this](std::exception_ptr e, start_report r) { on_run(std::move(e), r); });
        at_most_every(std::chrono::milliseconds(*settings_.interval_ms), lock_, body,
                      std::move(handler));
    }

    // The supervisor watches the lease itself: the command may take a moment to end.
    asio::awaitable<void> run_under(lease& held) {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        acquiring_ = false;
        in_body_ = true;
        over_.expires_at(asio::steady_timer::time_point::max());
        lease_ = held.share();
        if (result_ == 0) {
            start();
        } else {
            undo_run();
        }
        co_await over_.async_wait(asio::as_tuple(asio::deferred));
    }

    // No command was started, so the next call may start one before the interval is over.
    void undo_run() {
        if (!in_body_) return give_back();
        client_.force_release(settings_.keys.front() + ":last", [this](error e, key_report) {
            if (e) say("no command was started, but the next one has to wait: " + e.what());
            give_back();
        });
    }

    void on_run(std::exception_ptr failure, start_report const& r) {
        acquiring_ = false;
        try {
            if (failure) std::rethrow_exception(std::move(failure));
        } catch (lock_error const& e) {
            if (!in_body_) return on_failed(e.failure());
            // All else has been told.
            if (command_.started() && e.code() == errc::lease_lost) result_ = lost;
        }
        if (!in_body_ && result_ == 0 && (settings_.verbose || has_reader())) say(r.to_string());
        finish();
    }

    void start() {
        if (auto const code = command_.start(lease_); code != success) {
            result_ = code;
            return undo_run();
        }
        lease_.wait_end(grace(ttl_), [this](error e, lease_end how) {
            if (!e && how != lease_end::released) command_.on_lost();
        });
    }

    void on_signal(int number) override {
        if (command_.started()) return;
        result_ = by_signal + number;
        if (acquiring_) stop_.emit(asio::cancellation_type::all);
        patience_.hurry();
    }

    void on_end(int code) override {
        result_ = code;
        give_back();
    }

    void give_back() {
        lease_.release([this](release_result r) {
            if (!r.confirmed() && !command_.lost()) say("the lock was not released: " + r.what());
            if (command_.started() && r == errc::lease_lost) result_ = lost;
            if (!in_body_) return finish();
            over_.expires_at(asio::steady_timer::time_point::min());
        });
    }

    void finish() {
        notice_.stop();
        command_.close();
        client_.close();
    }

    run_settings const& settings_;
    std::chrono::milliseconds const ttl_;
    asio::io_context context_{1};
    client client_;
    holdfast::lock lock_;
    lease lease_;
    guarded_command command_;
    asio::steady_timer over_; ///< the end of the body of at_most_every()
    patience patience_;
    holder_notice notice_;
    asio::cancellation_signal stop_;
    int result_ = 0;
    bool acquiring_ = true, in_body_ = false;
};

} // namespace

int run(run_settings const& s) {
    return supervisor(s).run();
}

} // namespace holdfast::command
