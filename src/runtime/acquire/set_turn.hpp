// An acquire of several keys, and then the place that its lease keeps in the lines of the keys.
#ifndef HOLDFAST_RUNTIME_SET_TURN_HPP
#define HOLDFAST_RUNTIME_SET_TURN_HPP

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>

#include "protocol/waiting/key_line.hpp"
#include "protocol/waiting/set_approach.hpp"
#include "runtime/acquire/active_queue.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/operation.hpp"

#include <boost/container_hash/hash.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_node_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::runtime {

class set_turn;

/// What the turns tell the acquirer. All of it waits until the present events are handled.
class set_turn_owner {
public:
    /// The turn has something to do.
    virtual void on_due(set_turn&) noexcept = 0;

protected:
    ~set_turn_owner() = default;
};

using due_hook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_due_turns>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using turn_hook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_turns>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// Part of the call until it is granted.
class set_turn final : public acquire_extras,
                       public protocol::key_turn,
                       public due_hook,
                       public turn_hook,
                       private acquire_owner {
public:
    /// One that does not wait asks for all keys at once, and goes no further.
    set_turn(detail::lock_state const& of, bool waits, set_turn_owner& told)
        : approach(static_cast<unsigned>(of.keys().size()),
                   waits ? of.options().patience : std::max(1U, of.options().patience))
        , owner_(told)
        , places_(std::make_unique<protocol::key_place[]>(of.keys().size()))
        , size_(of.keys().size()) {}

    ~set_turn() override;

    std::span<protocol::key_place> places() { return {places_.get(), size_}; }

    /// An acquire of the next key for this one. False: one is under way.
    [[nodiscard]] bool may_take_key() const { return !taking_; }
    operation& take_key(detail::lock_state_ptr key) {
        if (!member_) member_ = std::make_unique<operation>(0);
        auto extras = std::make_unique<acquire_extras>();
        extras->owner = this;
        member_->call = acquire_call{.handler = {},
                                     .lock = std::move(key),
                                     .time = no_limit.time,
                                     .extras = std::move(extras)};
        member_->stage = operation_stage::starting;
        taking_ = true;
        abandoned_ = false;
        return *member_;
    }
    /// Its result does not count any more.
    void abandon_key() { abandoned_ = true; }
    /// The acquire of a key that is under way, or null.
    operation* taking() const { return taking_ ? member_.get() : nullptr; }
    /// The error of the last acquire of a key; once.
    errc take_failure() { return std::exchange(failure_, errc{}); }

    /// Releases the keys that were taken one by one.
    void give_back() noexcept {
        taken.clear();
        prior.clear();
    }

    protocol::set_approach approach;
    operation* op = nullptr; ///< null when it is granted, or has failed
    bool orphaned = false;   ///< it has failed, and the acquirer owns this object
    active_queue* queue = nullptr;
    std::uint8_t watched = 0;             ///< the index of the key that stood in the way last
    bool waited = false;                  ///< it was not first everywhere from the start
    std::vector<detail::lease_ref> taken; ///< of the keys, in order
    std::vector<std::string> prior;       ///< their tokens, when all are taken

private:
    void on_acquired(errc cause, detail::lease_ref lease) noexcept override;

    set_turn_owner& owner_;
    std::unique_ptr<protocol::key_place[]> places_;
    std::size_t size_;
    std::unique_ptr<operation> member_;
    errc failure_{};
    bool taking_ = false;
    bool abandoned_ = false;
};

/// The turn of the first waiter of a queue of several keys, or null.
set_turn* turn_of_front(active_queue const&) noexcept;
/// The turn of an acquire of several keys.
set_turn& turn_of(operation const&) noexcept;
/// The same, or null for another acquire, and for an adoption.
set_turn* turn_if_any(operation const&) noexcept;

/// The lines of the keys that locks on several keys want or have in this process, and the places
/// that their leases keep.
class key_lines {
    void make_lines(detail::lock_state const& of) {
        for (auto const key : of.keys()) {
            auto const at = lines_.try_emplace(std::string(key)).first;
            at->second.key = at->first;
        }
    }
    auto line_of(detail::lock_state const& of) {
        return [this, keys = of.keys()](std::size_t n) -> protocol::key_line& {
            return *find(keys[n]);
        };
    }
    template <class InUse>
    static auto in_use_of(InUse& in_use) {
        return [&in_use](protocol::key_line& l) { return in_use(static_cast<line&>(l).key); };
    }

public:
    using called_hook = boost::intrusive::list_base_hook<
        boost::intrusive::tag<struct in_called_lines>,
        boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
    /// The hook is linked while acquires of the key may join its queue.
    struct line final : protocol::key_line, called_hook {
        std::string_view key;
    };
    using called_list = boost::intrusive::list<line, boost::intrusive::base_hook<called_hook>,
                                               boost::intrusive::constant_time_size<false>>;

    bool any() const { return !lines_.empty(); }
    line* find(std::string_view key) {
        auto const at = lines_.find(key);
        return at == lines_.end() ? nullptr : &at->second;
    }
    line const* find(std::string_view key) const {
        auto const at = lines_.find(key);
        return at == lines_.end() ? nullptr : &at->second;
    }
    /// `in_use(key)`: whether the queue of the key is in use.
    template <class InUse>
    void enter(set_turn& t, detail::lock_state const& of, InUse&& in_use) {
        make_lines(of);
        t.key_turn::enter(t.places(), line_of(of), in_use_of(in_use));
    }
    /// The same, before all that wait: key_turn::overtake().
    template <class InUse, class Overtaken>
    void overtake(set_turn& t, detail::lock_state const& of, InUse&& in_use,
                  Overtaken&& overtaken) {
        make_lines(of);
        t.key_turn::overtake(t.places(), line_of(of), in_use_of(in_use), overtaken);
    }
    /// Forgets the line of this key if nobody stands there any more.
    void tidy(std::string_view key) noexcept {
        auto const at = lines_.find(key);
        if (at != lines_.end() && at->second.empty()) lines_.erase(at);
    }

    //
    // Leases, by the queue of their keys
    //

    void make_room() { holders_.reserve(holders_.size() + 1); }
    /// After make_room().
    void add(active_queue& q) noexcept { holders_.try_emplace(&q); }
    void remove(active_queue& q) noexcept { holders_.erase(&q); }
    std::unique_ptr<set_turn>& holder(active_queue& q) noexcept {
        return holders_.find(&q)->second;
    }

    void clear() noexcept {
        for (auto& [key, each] : lines_) each.clear();
        holders_.clear();
        lines_.clear();
    }

private:
    struct text_hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view s) const {
            return boost::hash<std::string_view>()(s);
        }
    };

    boost::unordered_node_map<std::string, line, text_hash, std::equal_to<>> lines_;
    boost::unordered_flat_map<active_queue*, std::unique_ptr<set_turn>> holders_;
};

} // namespace holdfast::runtime

#endif
