// A wait queue in production: the protocol's machine, its try or tenure, and the answers to its
// last round.
#ifndef HOLDFAST_RUNTIME_ACTIVE_QUEUE_HPP
#define HOLDFAST_RUNTIME_ACTIVE_QUEUE_HPP

#include <holdfast/detail/lock_state.hpp>

#include "protocol/wait_queue.hpp"
#include "runtime/active_tenure.hpp"
#include "runtime/operation.hpp"
#include "runtime/round_record.hpp"
#include "runtime/timer_queue.hpp"

#include <boost/container_hash/hash.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <cstddef>
#include <new>
#include <string_view>

namespace holdfast::runtime {

using waiting_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// The derived class settles the queue when its timer runs.
class active_queue : public waiting_hook, public timed {
public:
    std::string_view key() const { return lock->key(); }
    operation& front() { return static_cast<operation&>(machine.front()); }
    /// Called when the try or tenure is over, or goes on without the queue.
    void detach() {
        if (!tenure) return;
        tenure->queue = nullptr;
        tenure.reset();
    }

    // Ordered so that there is no padding: each key in use has a queue.
    bool asks_all = false; ///< the try asks all instances, not the arbiter alone
    protocol::wait_queue machine;
    detail::lock_state_ptr lock; ///< one of the locks on the key
    std::size_t hash = 0;
    active_tenure_ptr tenure;
    active_tenure_ptr watch;         ///< asks about the key, and does not acquire it
    lease_clock::time_point asked{}; ///< start of the last round
    round_record round;

    bool exact() const noexcept final { return true; }

protected:
    ~active_queue() = default;
};

using waiting_list = boost::intrusive::list<active_queue, boost::intrusive::base_hook<waiting_hook>,
                                            boost::intrusive::constant_time_size<false>>;

/// The queues of a client, by key.
class active_queue_set {
public:
    static std::size_t hash(std::string_view key) { return boost::hash<std::string_view>()(key); }

    active_queue* find(std::string_view key, std::size_t hash) const {
        auto const at = set_.find(sought{key, hash});
        return at == set_.end() ? nullptr : *at;
    }
    void insert(active_queue& q) { set_.insert(&q); }
    void erase(active_queue& q) noexcept {
        set_.erase(&q);
        // If only few of many keys are left, gives back the memory of the others.
        constexpr std::size_t worth_it = 1024;
        if (set_.bucket_count() <= worth_it || set_.size() >= set_.bucket_count() / 16) return;
        try {
            set_.rehash(0);
        } catch (std::bad_alloc const&) {
            // A later call tries again.
        }
    }

private:
    struct sought {
        std::string_view key;
        std::size_t hash;
    };
    struct hasher {
        using is_transparent = void;
        using is_avalanching = void; // boost::hash of a string is avalanching
        std::size_t operator()(active_queue const* q) const { return q->hash; }
        std::size_t operator()(sought const& s) const { return s.hash; }
    };
    struct same_key {
        using is_transparent = void;
        bool operator()(active_queue const* a, active_queue const* b) const { return a == b; }
        bool operator()(sought const& s, active_queue const* q) const { return q->key() == s.key; }
        bool operator()(active_queue const* q, sought const& s) const { return q->key() == s.key; }
    };

    boost::unordered_flat_set<active_queue*, hasher, same_key> set_;
};

} // namespace holdfast::runtime

#endif
