#include "command/lock/lead.hpp"

#include <holdfast/client.hpp>
#include <holdfast/lead.hpp>

#include "command/exit_code.hpp"
#include "command/lock/guarded_command.hpp"
#include "command/lock/holder_notice.hpp"
#include "command/lock/outage_notice.hpp"
#include "command/output.hpp"
#include "command/settings.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

/// Before a command that has ended starts again: the first pause doubles up to the longest. A
/// command that ran for longer than that begins with the first one.
constexpr std::chrono::seconds first_pause(1), longest_pause(30);

/// Ends the call of lead().
struct is_over {};

/// Campaigns, and runs the command while it leads. Everything happens on one thread.
class candidate final : guarded_command::owner {
public:
    explicit candidate(lead_settings const& s)
        : settings_(s)
        , client_(context_.get_executor(), s.addresses(), s.client())
        , lock_(s.make_lock(client_, options_of(s)))
        , command_(s, context_, *this)
        , ended_(context_)
        , pause_(context_)
        , outage_(s, client_, context_)
        , notice_(client_, context_, s.keys) {}

    int run() {
        command_.wait_for_signal();
        outage_.look();
        campaign();
        context_.run();
        return result_;
    }

private:
    // As with `run`, a command whose lock is lost has a quarter of the ttl to end.
    static lock_options options_of(lead_settings const& s) {
        auto o = s.lock();
        o.on_outage = outage_policy::wait;
        o.cancel_margin = grace(o.ttl);
        return o;
    }

    bool talks() const { return settings_.verbose || has_reader(); }

    void campaign() {
        if (talks()) notice_.start();
        auto const body = [this](lease& held) { return lead_once(held); };
        auto const on_trouble = [this](error const& e) {
            if (talks()) notice_.start();
            if (e == errc::lease_lost) return outage_.look(); // why it was lost
            outage_.tell(e);
        };
        holdfast::lead(lock_, body, on_trouble,
                       asio::bind_cancellation_slot(stop_.slot(), [this](std::exception_ptr e) {
                           on_campaign_end(std::move(e));
                       }));
    }

    // Returns when the lock is lost, and the command has ended.
    asio::awaitable<void> lead_once(lease& held) {
        co_await asio::this_coro::throw_if_cancelled(false);
        leads_ = true;
        outage_.over();
        notice_.stop();
        if (talks()) say("leads: " + settings_.name());
        std::chrono::seconds pause = first_pause;
        while (signal_ == 0 && held.held() && !(co_await is_cancelled())) {
            auto const begun = lease_clock::now();
            auto const kept = co_await run_under(held);
            if (command_.lost()) break;
            if (!starts_again()) end();
            if (!kept) break;
            if (lease_clock::now() - begun > longest_pause) pause = first_pause;
            say("the command has ended with " + std::to_string(result_) + ", and starts again in " +
                option_text(std::chrono::milliseconds(pause).count()));
            pause_.expires_after(pause);
            pause = std::min(2 * pause, longest_pause);
            co_await pause_.async_wait(asio::as_tuple(asio::deferred));
        }
        if (signal_ != 0) end();
        leads_ = false;
    }

    [[noreturn]] void end() {
        over_ = true;
        throw is_over();
    }

    // False if the lock cannot be kept: the cancellation says that, once.
    asio::awaitable<bool> run_under(lease& held) {
        passed_on_ = 0;
        ended_.expires_at(asio::steady_timer::time_point::max());
        if (auto const code = command_.start(held); code != success) {
            result_ = code;
            end();
        }
        co_await ended_.async_wait(asio::as_tuple(asio::deferred));
        if (!(co_await is_cancelled())) co_return true;
        command_.on_lost();
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await ended_.async_wait(asio::as_tuple(asio::deferred));
        co_return false;
    }

    static asio::awaitable<bool> is_cancelled() {
        auto const state = co_await asio::this_coro::cancellation_state;
        co_return state.cancelled() != asio::cancellation_type::none;
    }

    // `result_` is the exit code of the command. One that a signal of the user has ended stays so;
    // on a terminal, SIGINT goes to the command alone.
    bool starts_again() const {
        auto const interrupted = result_ == by_signal + SIGINT;
        if (signal_ != 0 || interrupted || result_ == by_signal + passed_on_) return false;
        return settings_.restart == restart_rule::always ||
               (settings_.restart == restart_rule::on_failure && result_ != success);
    }

    void on_campaign_end(std::exception_ptr failure) {
        try {
            if (failure) std::rethrow_exception(std::move(failure));
            if (signal_ == 0) return campaign(); // the lock was lost
        } catch (is_over const&) {
        } catch (system_error const& e) {
            if (signal_ == 0) {
                say(e.what());
                result_ = unavailable;
            }
        }
        finish();
    }

    void on_signal(int number) override {
        auto const ends = number == SIGTERM || number == SIGINT || number == SIGQUIT;
        if (over_) return;
        if (command_.running()) {
            passed_on_ = number;
            if (ends) signal_ = number;
        } else if (ends || number == SIGHUP) {
            signal_ = number;
            result_ = by_signal + number;
            pause_.cancel();
            if (!leads_) stop_.emit(asio::cancellation_type::terminal);
        }
    }

    void on_end(int code) override {
        result_ = code;
        ended_.expires_at(asio::steady_timer::time_point::min());
    }

    void finish() {
        over_ = true;
        outage_.stop();
        notice_.stop();
        command_.close();
        client_.close();
    }

    lead_settings const& settings_;
    asio::io_context context_{1};
    client client_;
    holdfast::lock lock_;
    guarded_command command_;
    asio::steady_timer ended_; ///< the end of the command
    asio::steady_timer pause_;
    outage_notice outage_;
    holder_notice notice_;
    asio::cancellation_signal stop_;
    int result_ = success;
    int signal_ = 0;    ///< that ends all
    int passed_on_ = 0; ///< the last one that a command got
    bool leads_ = false, over_ = false;
};

} // namespace

int lead(lead_settings const& s) {
    return candidate(s).run();
}

} // namespace holdfast::command
