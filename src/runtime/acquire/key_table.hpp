// The keys that a client wants or has. A key stands there with its queue, or with its tenure alone
// while the queue is folded (protocol/waiting/queue_values.hpp). So a held key costs one pointer
// here.
#ifndef HOLDFAST_RUNTIME_KEY_TABLE_HPP
#define HOLDFAST_RUNTIME_KEY_TABLE_HPP

#include "runtime/acquire/active_queue.hpp"
#include "runtime/acquire/active_tenure.hpp"

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

namespace holdfast::runtime {

inline std::size_t hash_of_key(std::string_view key) {
    return boost::hash<std::string_view>()(key);
}

/// A queue, a tenure whose queue is folded, or neither.
class key_entry {
public:
    key_entry() = default;
    explicit key_entry(active_queue& q)
        : at_(reinterpret_cast<std::uintptr_t>(&q)) {}
    explicit key_entry(active_tenure& t)
        : at_(reinterpret_cast<std::uintptr_t>(&t) | folded) {}

    active_queue* queue() const {
        return is_folded() ? nullptr : reinterpret_cast<active_queue*>(at_);
    }
    /// The try or tenure of the queue, or the tenure whose queue is folded.
    active_tenure* tenure() const {
        if (is_folded()) return reinterpret_cast<active_tenure*>(at_ & ~folded);
        return at_ == 0 ? nullptr : queue()->tenure.get();
    }
    bool is_folded() const { return (at_ & folded) != 0; }
    detail::lock_state const& lock() const {
        return is_folded() ? *tenure()->lock : *queue()->lock;
    }
    std::string_view key() const { return lock().key(); }
    /// A tenure has no room for the hash of its key.
    std::size_t hash() const { return is_folded() ? hash_of_key(key()) : queue()->hash; }

    friend bool operator==(key_entry, key_entry) = default;

private:
    static constexpr std::uintptr_t folded = 1; // no object has an odd address
    static_assert(alignof(active_queue) > folded && alignof(active_tenure) > folded);

    std::uintptr_t at_ = 0;
};

class key_table {
public:
    key_entry find(std::string_view key, std::size_t hash) const {
        auto const at = set_.find(sought{key, hash});
        return at == set_.end() ? key_entry() : at->entry;
    }
    key_entry find(std::string_view key) const { return find(key, hash_of_key(key)); }
    /// A lock on several keys, by these keys.
    key_entry find(std::span<std::string_view const> keys, std::size_t hash) const {
        auto const at = set_.find(sought_keys{keys, hash});
        return at == set_.end() ? key_entry() : at->entry;
    }
    void insert(active_queue& q) { set_.insert({key_entry(q)}); }
    /// Both are of the same key.
    void replace(key_entry before, key_entry after) noexcept {
        auto const at = set_.find(slot{before});
        assert(at != set_.end());
        at->entry = after;
    }
    void erase(key_entry e) noexcept {
        set_.erase(slot{e});
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
    /// replace() keeps the key, and so the place in the set.
    struct slot {
        key_entry mutable entry;
    };
    struct sought {
        std::string_view key;
        std::size_t hash;
    };
    struct sought_keys {
        std::span<std::string_view const> keys;
        std::size_t hash;
    };
    struct hasher {
        using is_transparent = void;
        using is_avalanching = void; // boost::hash of a string is avalanching
        std::size_t operator()(slot const& s) const { return s.entry.hash(); }
        std::size_t operator()(sought const& s) const { return s.hash; }
        std::size_t operator()(sought_keys const& s) const { return s.hash; }
    };
    struct same_key {
        using is_transparent = void;
        bool operator()(slot const& a, slot const& b) const { return a.entry == b.entry; }
        bool operator()(sought const& s, slot const& a) const {
            auto const& lock = a.entry.lock();
            return lock.key() == s.key && lock.keys().empty();
        }
        bool operator()(slot const& a, sought const& s) const { return (*this)(s, a); }
        // One name may be that of different keys.
        bool operator()(sought_keys const& s, slot const& a) const {
            auto const keys = a.entry.lock().keys();
            return std::equal(keys.begin(), keys.end(), s.keys.begin(), s.keys.end());
        }
        bool operator()(slot const& a, sought_keys const& s) const { return (*this)(s, a); }
    };

    boost::unordered_flat_set<slot, hasher, same_key> set_;
};

/// Folded queues, as the lease keeper needs them.
class folded_queues {
public:
    /// Makes the queue of a tenure again.
    virtual active_queue* unfold(active_tenure&) = 0;
    /// The queue of the key of a permit, in which others may wait. Null if there is none.
    virtual active_queue* queue_of(active_tenure const&) const = 0;
    /// The tenure has ended, so its key needs a new queue.
    virtual void forget(active_tenure&) noexcept = 0;
    /// The acquire of several keys has left its queue, and gets a lease.
    virtual void keeps_places(operation&, active_queue&) noexcept = 0;

protected:
    ~folded_queues() = default;
};

} // namespace holdfast::runtime

#endif
