// The client's events, on their way to its observer.
#ifndef HOLDFAST_RUNTIME_EVENT_SINK_HPP
#define HOLDFAST_RUNTIME_EVENT_SINK_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/detail/lease_data.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/error.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/options.hpp>

#include "runtime/services/counters.hpp"
#include "runtime/services/turn.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// Without an observer, each function is a comparison. No function throws: the observer's
/// exceptions are counted.
///
/// @par Thread safety  On the executor alone.
class event_sink {
public:
    event_sink(client_options const& o, turn const& t, counters& c)
        : observer_(o.observer)
        , owned_(o.observer != nullptr ? o.observer->weak_from_this().lock() : nullptr)
        , holder_label_(o.holder_label.view())
        , turn_(t)
        , counters_(c) {}

    explicit operator bool() const noexcept { return observer_ != nullptr; }
    /// From now on nothing is reported.
    void silence() noexcept { observer_ = nullptr; }

    void waiting(detail::lock_state const& l) const noexcept {
        if (observer_ == nullptr) return;
        notify(&observer::on_waiting, about<waiting_event>(l));
    }
    void split_vote(detail::lock_state const& l) const noexcept {
        if (observer_ == nullptr) return;
        notify(&observer::on_split_vote, about<split_vote_event>(l));
    }
    void acquired(detail::lease_data const&, lease_clock::duration waited,
                  bool handed_over) const noexcept;
    void extended(detail::lease_data const&, lease_clock::duration took) const noexcept;
    /// `revoked_by`: the label, if the lease was revoked.
    void lost(detail::lease_data const&, lease_clock::duration held,
              std::string_view revoked_by) const noexcept;
    void revoked(detail::lock_state const&, std::string_view holder, std::string_view digest,
                 std::optional<std::chrono::milliseconds> closed_for) const noexcept;
    void released(detail::lease_data const&, lease_clock::duration held,
                  bool handed_over) const noexcept;
    void failed(detail::lock_state const&, reported_call, error_code, lease_clock::duration took,
                acquire_report const*) const noexcept;
    void stalled() const noexcept;
    void changed(instance_status const&, instance_state before) const noexcept;

private:
    template <class Event>
    Event about(detail::lock_state const& l) const noexcept {
        Event e;
        e.key = l.key();
        e.holder_label = holder_label_;
        e.trace = l.options().trace;
        e.at = turn_.time();
        return e;
    }
    template <class Event>
    void notify(void (observer::*function)(Event const&), Event const& e) const noexcept {
        try {
            (observer_->*function)(e);
        } catch (...) {
            counters::add(counters_.observer_failures);
        }
    }

    observer* observer_;
    std::shared_ptr<observer> const owned_; ///< keeps the observer alive, if anything does
    std::string const holder_label_;
    turn const& turn_;
    counters& counters_;
};

} // namespace holdfast::runtime

#endif
