#include "redis/net/shared_source.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace holdfast::redis {

namespace {

class shared_source : public std::enable_shared_from_this<shared_source> {
public:
    shared_source(credentials_source source, std::chrono::milliseconds timeout,
                  std::function<lease_clock::time_point()> now)
        : source_(std::move(source))
        , timeout_(timeout)
        , now_(std::move(now)) {}

    void ask(credentials_reply reply) {
        auto const now = now_();
        std::uint64_t request = 0;
        {
            std::unique_lock lock(mutex_);
            if (!under_way_ && replied_ && now < replied_at_ + reuse_time) {
                if (thrown_) std::rethrow_exception(thrown_);
                auto const ec = error_;
                auto known = known_;
                lock.unlock();
                return reply(ec, std::move(known));
            }
            // A connection waits no longer for its reply.
            std::erase_if(waiting_, [&](waiter const& w) { return now >= w.since + timeout_; });
            waiting_.push_back({std::move(reply), now});
            if (under_way_ && now < asked_at_ + timeout_) return;
            under_way_ = true;
            asked_at_ = now;
            request = ++requests_;
        }
        try {
            source_(
                [self = shared_from_this(), request](boost::system::error_code ec, credentials c) {
                    self->on_reply(request, ec, std::move(c));
                });
        } catch (...) {
            fail(request, std::current_exception());
            throw;
        }
    }

private:
    static constexpr std::chrono::seconds reuse_time{1};

    struct waiter {
        credentials_reply reply;
        lease_clock::time_point since;
    };

    void on_reply(std::uint64_t request, boost::system::error_code ec, credentials c) {
        auto copy = c; // throws before the request ends
        std::vector<waiter> waiting;
        {
            std::lock_guard const lock(mutex_);
            if (!end(request)) return;
            error_ = ec;
            known_ = std::move(copy);
            waiting.swap(waiting_);
        }
        for (auto const& w : waiting) w.reply(ec, c);
    }

    /// The connection that asked gets the exception. Others that wait get no reply in time.
    void fail(std::uint64_t request, std::exception_ptr thrown) {
        std::lock_guard const lock(mutex_);
        if (!end(request)) return;
        thrown_ = std::move(thrown);
        waiting_.clear();
    }

    /// False: the request has ended before.
    bool end(std::uint64_t request) {
        if (!under_way_ || request != requests_) return false;
        under_way_ = false;
        replied_ = true;
        replied_at_ = now_();
        thrown_ = nullptr;
        return true;
    }

    credentials_source const source_;
    std::chrono::milliseconds const timeout_;
    std::function<lease_clock::time_point()> const now_;

    std::mutex mutex_; ///< protects all that follows
    std::vector<waiter> waiting_;
    bool under_way_ = false;
    std::uint64_t requests_ = 0;
    lease_clock::time_point asked_at_{}, replied_at_{};
    bool replied_ = false;
    // The last reply
    std::exception_ptr thrown_;
    boost::system::error_code error_;
    credentials known_;
};

} // namespace

credentials_source share(credentials_source source, std::chrono::milliseconds timeout,
                         std::function<lease_clock::time_point()> now) {
    if (!source) return {};
    auto const shared = std::make_shared<shared_source>(std::move(source), timeout, std::move(now));
    return [shared](credentials_reply reply) { shared->ask(std::move(reply)); };
}

} // namespace holdfast::redis
