#include "command/lock/acquire.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/key_call.hpp"
#include "command/lock/holder_notice.hpp"
#include "command/lock/signal_setup.hpp"
#include "command/output.hpp"
#include "command/table.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

class taker {
public:
    explicit taker(acquire_settings const& s)
        : settings_(s)
        , client_(context_.get_executor(), s.addresses(), s.client())
        , lock_(s.make_lock(client_, options_of(s)))
        , signals_(context_)
        , patience_(s, client_, context_)
        , notice_(client_, context_, s.keys) {
        for (auto const number : {SIGINT, SIGTERM, SIGHUP}) {
            if (!setup_.ignored(number)) signals_.add(number);
        }
    }

    int run() {
        signals_.async_wait([this](boost::system::error_code ec, int number) {
            if (ec) return;
            result_ = by_signal + number;
            stop_.emit(asio::cancellation_type::all);
            patience_.hurry();
        });
        attempt();
        context_.run();
        return result_;
    }

private:
    static lock_options options_of(acquire_settings const& s) {
        auto o = s.lock();
        o.watchdog = false;
        return o;
    }

    void attempt() {
        if (result_ != success) return finish(); // a signal ended the pause
        if (has_reader()) notice_.start();
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(), [this](error e, lease l) { on_acquired(e, std::move(l)); });
        patience_.acquire(lock_, std::move(handler));
    }

    void on_acquired(error const& e, lease l) {
        if (e) {
            if (result_ == success && patience_.retries(e, [this] { attempt(); })) return;
            if (result_ == success) result_ = patience_.give_up(e);
            return finish();
        }
        if (result_ == success && print(l)) {
            l.detach();
            return finish();
        }
        // Nobody knows the token: a signal came together with the lock, or it cannot be written.
        lease_ = std::move(l);
        lease_.release([this](release_result) { finish(); });
    }

    bool print(lease const& l) {
        auto const t = l.token();
        if (settings_.json) {
            boost::json::array keys;
            for (auto const& key : l.keys()) keys.emplace_back(printable(key));
            boost::json::object all{{"key", printable(l.key())},
                                    {"keys", std::move(keys)},
                                    {"token", t.value},
                                    {"fence", t.fence},
                                    {"ttl_ms", settings_.ttl_ms}};
            if (t.slot) all.emplace("slot", *t.slot);
            std::cout << boost::json::serialize(all) << '\n';
        } else {
            std::cout << token_line(t) << '\n';
        }
        if (flush_output() == 0) return true;
        result_ = cannot_write;
        return false;
    }

    void finish() {
        notice_.stop();
        signals_.cancel();
        client_.close();
    }

    signal_setup const setup_; ///< ignores SIGPIPE
    acquire_settings const& settings_;
    asio::io_context context_{1};
    client client_;
    holdfast::lock lock_;
    lease lease_; ///< that is given back
    asio::signal_set signals_;
    patience patience_;
    holder_notice notice_;
    asio::cancellation_signal stop_;
    int result_ = success;
};

} // namespace

int acquire(acquire_settings const& s) {
    return taker(s).run();
}

int extend(extend_settings const& s) {
    auto const token = s.token.read();
    lock_options const options{.ttl = std::chrono::milliseconds(s.ttl_ms), .watchdog = false};
    auto const r = ask(s, [&](client& c, auto handler) {
        c.adopt(s.make_lock(c, options), token, [h = std::move(handler)](error e, lease l) mutable {
            if (!e) l.detach();
            h(std::move(e), {});
        });
    });
    if (!r.how) {
        std::cout << "extended " << printable(s.name()) << '\n';
        return success;
    }
    if (r.how == errc::lease_lost) return explain_loss(s, s.keys, "extended");
    std::cerr << "holdfast: too few instances confirmed the extension: " << r.how.what() << '\n';
    return undetermined;
}

} // namespace holdfast::command
