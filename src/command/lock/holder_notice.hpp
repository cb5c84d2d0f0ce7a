// Tells a person who waits at a terminal which holder the wait is for.
#ifndef HOLDFAST_COMMAND_LOCK_HOLDER_NOTICE_HPP
#define HOLDFAST_COMMAND_LOCK_HOLDER_NOTICE_HPP

#include <holdfast/client.hpp>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <list>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::command {

/// Says who holds a key once the wait has lasted for a moment, and again for each other holder.
class holder_notice {
public:
    holder_notice(client& c, boost::asio::io_context& context,
                  std::vector<std::string> const& keys) {
        for (auto const& key : keys) keys_.emplace_back(c, context, key);
    }

    /// Has no effect while it is started.
    void start() {
        for (auto& each : keys_) each.start();
    }
    void stop() {
        for (auto& each : keys_) each.stop();
    }

private:
    /// The holder of one key.
    class watched_key {
    public:
        watched_key(client& c, boost::asio::io_context& context, std::string key)
            : client_(c)
            , pause_(context)
            , key_(std::move(key)) {}

        void start();
        void stop();

    private:
        void look_later();
        void look();
        void on_report(key_report);

        client& client_;
        boost::asio::steady_timer pause_;
        boost::asio::cancellation_signal stop_;
        std::string const key_;
        key_report seen_;
        std::string said_; ///< the digest of the token of the holder that was named last
        bool started_ = false;
    };

    std::list<watched_key> keys_; ///< that stay where they are
};

} // namespace holdfast::command

#endif
