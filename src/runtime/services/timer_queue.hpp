// Many timers on one Asio timer.
#ifndef HOLDFAST_RUNTIME_TIMER_QUEUE_HPP
#define HOLDFAST_RUNTIME_TIMER_QUEUE_HPP

#include <holdfast/clock.hpp>

#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace holdfast::runtime {

namespace asio = boost::asio;

/// An object with a timer. It must not be destroyed while it waits.
class timed : public boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
public:
    virtual void on_time(lease_clock::time_point now) = 0;
    lease_clock::time_point when() const { return when_; }

    /// A timer that is not exact may be called up to 1 ms early, together with others.
    virtual bool exact() const noexcept { return false; }

protected:
    timed() = default;
    ~timed() = default;

private:
    friend class timer_queue;
    lease_clock::time_point when_{};
};

/// Ordered by time. Not thread-safe. The Asio timer is set again only for an entry that is due
/// before all others. So an uncontended acquire and release do not touch the Asio timer.
///
/// At most one wait is under way, in memory that is reserved for it. The executor may still lose
/// the wait, if it has no memory to pass the wait on. Then the function given to call() gets
/// asio::error::no_memory, on any thread. The function may then only arrange that rearm() is
/// called.
class timer_queue {
public:
    /// A timer that is not exact is called up to this much early.
    static constexpr std::chrono::milliseconds coarseness{1};

    explicit timer_queue(asio::any_io_executor executor)
        : timer_(std::in_place, std::move(executor)) {}

    /// Sets the function that the Asio timer's handler calls. The function must call run_due(), or
    /// woken_early() if it gets asio::error::operation_aborted.
    void call(std::function<void(boost::system::error_code)> run) { wait_->run = std::move(run); }

    void schedule(timed& t, lease_clock::time_point when) noexcept {
        if (t.is_linked()) {
            if (t.when_ == when) return;
            queue_.erase(queue_.iterator_to(t));
        }
        // A run of run_due() calls each timer at most once: a timer that is set again to a time
        // within the run waits for the next run.
        t.when_ = std::max(when, (t.exact() ? run_now_ : run_horizon_) + lease_clock::duration(1));
        // cend() is a hint: most deadlines are later than those that already wait.
        queue_.insert(queue_.cend(), t);
        arm();
    }

    void cancel(timed& t) noexcept {
        if (t.is_linked()) queue_.erase(queue_.iterator_to(t));
    }

    /// Calls all timers that are due, and all coarse timers that are due within the next
    /// millisecond. So their commands leave in the same batch.
    void run_due(lease_clock::time_point now) {
        armed_for_ = lease_clock::time_point::max();
        run_now_ = now;
        run_horizon_ = now + coarseness;
        while (!queue_.empty()) {
            auto& t = *queue_.begin();
            if (t.when_ > (t.exact() ? run_now_ : run_horizon_)) break;
            queue_.erase(queue_.begin());
            t.on_time(std::max(now, t.when_));
        }
        run_now_ = run_horizon_ = none;
        arm();
    }

    /// The time at which the first timer is due. No timer: the end of time.
    lease_clock::time_point first_due() const noexcept {
        return queue_.empty() ? lease_clock::time_point::max() : queue_.begin()->when_;
    }

    /// Calls the timers that are late, if there are any: before calls of users, which may depend on
    /// what has ended meanwhile. This thread may have stood still.
    void run_late(lease_clock::time_point now) {
        if (first_due() <= now) run_due(now);
    }

    /// Called when the wait was aborted, because the Asio timer was set to an earlier time.
    void woken_early() noexcept {
        if (!stopped_ && !wait_->under_way && armed_for_ != lease_clock::time_point::max()) wait();
    }

    /// Waits again if the wait was lost. Cheap if it was not.
    void rearm() noexcept {
        if (!wait_->lost.load(std::memory_order_relaxed) || !wait_->lost.exchange(false)) return;
        wait_->under_way = false;
        armed_for_ = lease_clock::time_point::max();
        arm();
    }

    void stop() {
        stopped_ = true;
        if (timer_) timer_->cancel();
    }

    /// Called when the timer's execution context is being destroyed. Drops all that belongs to the
    /// context.
    void abandon() noexcept {
        stopped_ = true;
        queue_.clear();
        timer_.reset();
    }

    void clear() { queue_.clear(); }

private:
    struct by_time {
        bool operator()(timed const& a, timed const& b) const { return a.when() < b.when(); }
    };

    /// The handler of the wait shares this with the queue, and may outlive the queue.
    struct shared_wait {
        std::function<void(boost::system::error_code)> run;
        bool under_way = false;
        std::atomic<bool> lost{false};
        redis::reserved_memory memory;
    };

    /// The handler of the wait. If it is destroyed without a call, it reports
    /// asio::error::no_memory.
    class waiter {
    public:
        using allocator_type = redis::reserving_allocator<void>;

        explicit waiter(std::shared_ptr<shared_wait> wait)
            : wait_(std::move(wait)) {}
        waiter(waiter&&) = default;
        ~waiter() {
            if (!wait_) return;
            wait_->lost.store(true);
            wait_->run(asio::error::no_memory);
        }
        void operator()(boost::system::error_code ec) {
            auto const wait = std::move(wait_);
            wait->under_way = false;
            wait->run(ec);
        }
        allocator_type get_allocator() const noexcept {
            return allocator_type(std::shared_ptr<redis::reserved_memory>(wait_, &wait_->memory));
        }

    private:
        std::shared_ptr<shared_wait> wait_;
    };

    void arm() noexcept {
        if (stopped_ || queue_.empty() || queue_.begin()->when_ >= armed_for_) return;
        armed_for_ = queue_.begin()->when_;
        // In steps of at most 1 s: the Asio timer stands still while the machine is suspended, and
        // the lease clock does not.
        constexpr lease_clock::duration longest = std::chrono::seconds(1);
        timer_->expires_after(
            std::clamp(armed_for_ - lease_clock::now(), lease_clock::duration::zero(), longest));
        // If a wait is under way, expires_after() has aborted it, and woken_early() waits again.
        if (!wait_->under_way) wait();
    }

    void wait() noexcept {
        wait_->under_way = true;
        try {
            timer_->async_wait(waiter(wait_));
        } catch (std::bad_alloc const&) {
            // The destructor of the handler has reported the failure.
        }
    }

    /// Outside of run_due(): so early that schedule() ignores it.
    static constexpr lease_clock::time_point none{};

    std::shared_ptr<shared_wait> const wait_ = std::make_shared<shared_wait>();
    std::optional<asio::steady_timer> timer_; ///< empty after its context was destroyed
    boost::intrusive::multiset<timed, boost::intrusive::compare<by_time>,
                               boost::intrusive::constant_time_size<false>>
        queue_;
    lease_clock::time_point armed_for_ = lease_clock::time_point::max();
    lease_clock::time_point run_now_ = none, run_horizon_ = none; ///< set during run_due()
    bool stopped_ = false;
};

} // namespace holdfast::runtime

#endif
