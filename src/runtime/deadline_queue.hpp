// Many points in time behind one timer.
#ifndef HOLDFAST_RUNTIME_DEADLINE_QUEUE_HPP
#define HOLDFAST_RUNTIME_DEADLINE_QUEUE_HPP

#include <holdfast/clock.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace holdfast::runtime {

namespace asio = boost::asio;

/// Something that waits for its time. Destroying it while it waits is a bug.
class timed : public boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
public:
    virtual void on_time(lease_clock::time_point now) = 0;
    lease_clock::time_point when() const { return when_; }

protected:
    enum class precision : bool {
        coarse, ///< may be called up to a millisecond early, together with others
        exact
    };
    explicit timed(precision p = precision::coarse)
        : exact_(p == precision::exact) {}
    ~timed() = default;

private:
    friend class deadline_queue;
    lease_clock::time_point when_{};
    bool exact_;
};

/// Ordered by time. Not thread-safe. The timer is armed anew only when something comes to wait that is due
/// earlier than everything else: an uncontended acquire and release do not touch it.
class deadline_queue {
public:
    explicit deadline_queue(asio::any_io_executor executor)
        : timer_(std::move(executor)) {}

    /// What the timer's handler calls, and which calls run_due().
    void call(std::function<void(boost::system::error_code)> run) { run_ = std::move(run); }

    void schedule(timed& t, lease_clock::time_point when) {
        if (t.is_linked()) {
            if (t.when_ == when) return;
            queue_.erase(queue_.iterator_to(t));
        }
        // Each is called once in a run: who puts himself off by less than is called together waits for the next.
        t.when_ = std::max(when, (t.exact_ ? run_now_ : run_horizon_) + lease_clock::duration(1));
        // Most deadlines are later than those before them.
        queue_.insert(queue_.cend(), t);
        arm();
    }

    void cancel(timed& t) {
        if (t.is_linked()) queue_.erase(queue_.iterator_to(t));
    }

    /// Calls what is due. What falls due within the next millisecond counts, unless it is exact: it travels in
    /// the same batch.
    void run_due(lease_clock::time_point now) {
        armed_for_ = lease_clock::time_point::max();
        run_now_ = now;
        run_horizon_ = now + std::chrono::milliseconds(1);
        while (!queue_.empty()) {
            auto& t = *queue_.begin();
            if (t.when_ > (t.exact_ ? run_now_ : run_horizon_)) break;
            queue_.erase(queue_.begin());
            t.on_time(std::max(now, t.when_));
        }
        run_now_ = run_horizon_ = none;
        arm();
    }

    void stop() {
        stopped_ = true;
        timer_.cancel();
    }

    void clear() { queue_.clear(); }

private:
    struct by_time {
        bool operator()(timed const& a, timed const& b) const { return a.when() < b.when(); }
    };

    void arm() {
        if (stopped_ || queue_.empty() || queue_.begin()->when_ >= armed_for_) return;
        armed_for_ = queue_.begin()->when_;
        // In steps: this timer stands still while the machine is suspended, and the lease clock does not.
        constexpr lease_clock::duration longest = std::chrono::seconds(1);
        timer_.expires_after(
            std::clamp(armed_for_ - lease_clock::now(), lease_clock::duration::zero(), longest));
        timer_.async_wait(run_);
    }

    /// So long ago that it changes nothing.
    static constexpr lease_clock::time_point none{};

    asio::steady_timer timer_;
    std::function<void(boost::system::error_code)> run_;
    boost::intrusive::multiset<timed, boost::intrusive::compare<by_time>,
                               boost::intrusive::constant_time_size<false>>
        queue_;
    lease_clock::time_point armed_for_ = lease_clock::time_point::max();
    lease_clock::time_point run_now_ = none, run_horizon_ = none; ///< while run_due() is at it
    bool stopped_ = false;
};

} // namespace holdfast::runtime

#endif
