#include "command/watch.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/lock/signal_setup.hpp"
#include "command/output.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <unistd.h>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

std::string json_line(key_report const& r, std::string const& time) {
    boost::json::object all{{"time", time}};
    for (auto const& member : to_json(r)) all.insert(member);
    return boost::json::serialize(all);
}

std::string text_line(key_report const& r, std::string const& time, bool named) {
    auto const or_dash = [](std::string const& text) { return text.empty() ? "-" : text; };
    auto const answers = std::ranges::count_if(
        r.instances, [](key_answer const& i) { return i.found != key_answer::kind::unknown; });
    return time + ' ' + underscored(to_string(r.state)) +
           (named ? " key=" + underscored(printable(r.key)) : "") +
           " holder=" + or_dash(underscored(printable(holder_of(r)))) +
           " token=" + or_dash(token_of(r)) +
           " fence=" + (r.fence == 0 ? "-" : std::to_string(r.fence)) +
           " answers=" + std::to_string(answers) + '/' + std::to_string(r.instances.size()) +
           (r.writer ? " writer=" + or_dash(underscored(printable(r.writer->holder))) : "");
}

class watcher {
public:
    explicit watcher(watch_settings const& s)
        : settings_(s)
        , client_(context_.get_executor(), s.addresses(), s.options())
        , signals_(context_)
        , limit_(context_)
        , output_(context_) {
        for (auto const number : {SIGINT, SIGTERM}) {
            if (!setup_.ignored(number)) signals_.add(number);
        }
    }

    int run() {
        for (auto const& key : settings_.keys) {
            client_.inspect(
                key, [this, &key](error e, key_report r) { on_report(key, e, std::move(r)); });
        }
        signals_.async_wait([this](boost::system::error_code ec, int) {
            if (!ec) finish(success);
        });
        if (settings_.limit_ms > 0) {
            limit_.expires_after(std::chrono::milliseconds(settings_.limit_ms));
            limit_.async_wait([this](boost::system::error_code ec) {
                if (!ec) finish(settings_.count > 0 ? out_of_time : success);
            });
        }
        await_end_of_output();
        context_.run();
        return result_;
    }

private:
    // The reader of a pipe may end long before the next change. A file cannot be waited for.
    void await_end_of_output() {
        boost::system::error_code ec;
        output_.assign(::dup(STDOUT_FILENO), ec);
        if (ec) return;
        output_.async_wait(asio::posix::stream_descriptor::wait_error,
                           [this](boost::system::error_code failed) {
                               if (!failed) finish(success);
                           });
    }

    void on_report(std::string const& key, error const& e, key_report r) {
        if (ended_) return;
        if (e) {
            std::cerr << "holdfast: " << e.what() << '\n';
            return finish(undetermined);
        }
        if (!print(r)) return;
        if (++printed_ == settings_.count) return finish(success);
        client_.wait_change(key, r, [this, &key](error how, key_report next) {
            on_report(key, how, std::move(next));
        });
    }

    bool print(key_report const& r) {
        auto const time = precise_time_text(std::chrono::system_clock::now());
        auto const line =
            settings_.json ? json_line(r, time) : text_line(r, time, settings_.keys.size() > 1);
        std::cout << line << '\n';
        auto const failed = flush_output();
        if (failed == 0) return true;
        return finish(failed == EPIPE ? success : cannot_write), false;
    }

    void finish(int code) {
        if (std::exchange(ended_, true)) return;
        result_ = code;
        signals_.cancel();
        limit_.cancel();
        boost::system::error_code ignored;
        output_.close(ignored);
        client_.close();
    }

    signal_setup const setup_; ///< ignores SIGPIPE
    watch_settings const& settings_;
    asio::io_context context_{1};
    client client_;
    asio::signal_set signals_;
    asio::steady_timer limit_;
    asio::posix::stream_descriptor output_;
    std::uint64_t printed_ = 0;
    int result_ = success;
    bool ended_ = false;
};

} // namespace

int watch(watch_settings const& s) {
    return watcher(s).run();
}

} // namespace holdfast::command
