// A waiter in a wait queue.
#ifndef HOLDFAST_PROTOCOL_WAITER_HPP
#define HOLDFAST_PROTOCOL_WAITER_HPP

#include "protocol/time.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ratio>
#include <utility>

namespace holdfast::protocol {

using waiter_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_wait_queue>>;

/// A waiter for a key. It is linked while it stands in the queue. Its members are small, as a
/// process may have many waiters.
struct waiter : waiter_hook {
    /// A ttl is at most 24 hours, so 32 bits are enough.
    using short_duration = std::chrono::duration<std::int32_t, std::milli>;

    short_duration ttl{};
    std::uint32_t handovers : 7 = 0; ///< adopts: the leases of that tenure before this one
    std::uint32_t permits : 14 = 0;  ///< of its semaphore; zero for another lock
    bool renewed : 1 = true;         ///< whether its lease will be extended
    bool fenced : 1 = false;         ///< whether its lease is to have a fence
    bool waits : 1 = true;           ///< if not, it is refused at once when the key is held
    bool stays : 1 = false;          ///< waits through an outage
    bool shared : 1 = false;         ///< a reader: has the key together with other readers
    bool alone : 1 = false;          ///< a reader whose tenure serves no other reader
    bool writes : 1 = false;         ///< a writer of a read-write lock: its commands are of its own
    bool notes : 1 = false;          ///< a writer whose refused tries tell readers that it waits
    bool again : 1 = false;  ///< it does not wait, and has had its second try: see overslept()
    bool adopts : 1 = false; ///< takes over a tenure that another client has won
    /// A whole number of milliseconds, as all ttls.
    void set_ttl(duration t) { ttl = std::chrono::duration_cast<short_duration>(t); }
    /// When somebody else has the key.
    bool is_refused() const { return !waits && !adopts; }
    /// Gives it a second try, once. False if it has had that.
    bool tries_again() {
        auto const may = !again;
        again = true;
        return may;
    }
};

using waiter_list = boost::intrusive::list<waiter, boost::intrusive::base_hook<waiter_hook>,
                                           boost::intrusive::constant_time_size<false>>;

/// The waiters of a queue, in the order in which they came. Those that adopt a tenure stand first.
class waiter_line {
public:
    waiter_line() = default;
    waiter_line(waiter_line&&) noexcept = default;
    waiter_line& operator=(waiter_line&&) noexcept = default;

    /// `w` was cancelled, timed out, refused or has failed.
    void leave(waiter& w) {
        if (w.notes) --noting_;
        waiters_.erase(waiters_.iterator_to(w));
    }
    /// Removes all waiters, and notifies none of them.
    void abandon() { waiters_.clear(); }
    /// True if one of them is a writer that has told readers, or will tell them.
    bool has_writers() const { return noting_ > 0; }
    bool empty() const { return waiters_.empty(); }
    /// The waiter that is refused when the key is held: the first that does not wait. If there is
    /// none, the first of all: it adopts.
    waiter& to_refuse() {
        auto* const w = impatient();
        return w != nullptr ? *w : front();
    }
    /// False: others have the next turn for one of the keys (key_line.hpp), so the first waiter
    /// must wait, and a tenure is not handed over.
    void may_try(bool may) { may_try_ = may; }
    bool may_try() const { return may_try_; }
    /// The next try asks all instances at once: this process has the keys already.
    void has_keys() { has_keys_ = true; }
    waiter& front() { return waiters_.front(); }
    waiter const& front() const { return waiters_.front(); }
    /// The first one that adopts no tenure, or null.
    waiter* first_of_own() {
        auto const found = behind_adoptions();
        return found == waiters_.end() ? nullptr : &*found;
    }
    /// Visits all waiters in order. `visit` may call leave() for its waiter.
    template <class Visit>
    void for_each_waiter(Visit visit) {
        for (auto it = waiters_.begin(); it != waiters_.end();) visit(*it++);
    }

protected:
    ~waiter_line() = default;

    void add(waiter& w) {
        if (w.notes) ++noting_;
        if (w.is_refused()) some_impatient_ = true;
        waiters_.insert(w.adopts ? behind_adoptions() : waiters_.end(), w);
    }
    waiter& pop() {
        auto& w = front();
        leave(w);
        return w;
    }
    bool take_has_keys() { return std::exchange(has_keys_, false); }
    /// The first that does not wait, or null. It looks at all of them, but not again before another
    /// one has joined.
    waiter* impatient() {
        if (!some_impatient_) return nullptr;
        auto const found = std::find_if(waiters_.begin(), waiters_.end(),
                                        [](waiter const& w) { return w.is_refused(); });
        some_impatient_ = found != waiters_.end();
        return some_impatient_ ? &*found : nullptr;
    }

private:
    waiter_list::iterator behind_adoptions() {
        return std::find_if(waiters_.begin(), waiters_.end(),
                            [](waiter const& w) { return !w.adopts; });
    }

    waiter_list waiters_;
    unsigned noting_ = 0;
    bool may_try_ = true;
    bool has_keys_ = false;
    bool some_impatient_ = false; ///< one has joined that does not wait, and may be here
};

} // namespace holdfast::protocol

#endif
