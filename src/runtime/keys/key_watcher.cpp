#include "runtime/keys/key_watcher.hpp"

#include "protocol/key/change_watch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::runtime {

using protocol::command;
using protocol::verdict;

/// The watch of a key. It stays for a moment after its last call, so that a loop of calls asks the
/// instances no more often than one call does.
class key_watcher::watch final : public redis::reply_handler, public timed {
public:
    watch(key_watcher& w, std::string_view of)
        : key(of)
        , watcher_(w) {}

    redis::command_args arguments(command) const noexcept override {
        return {.key = key, .token = {}};
    }
    bool still_wants(command) const noexcept override { return !dropped; }
    void on_answer(unsigned instance, command c, std::uint32_t of,
                   redis::answer const& a) override {
        if (!watcher_.turn_.attempt([&] { watcher_.on_answer(*this, instance, c, of, a); }))
            watcher_.fail(*this);
    }
    void on_time(lease_clock::time_point) override { watcher_.on_time(*this); }

    std::string const key;
    operation_list calls;
    key_report report; ///< of the present round
    bool dropped = false;
    std::uint32_t round = 0;
    lease_clock::time_point began{}; ///< of the present round
    protocol::change_watch machine;

private:
    void recycle() noexcept override { delete this; }

    key_watcher& watcher_;
};

namespace {

/// True if a call joined after this round had begun.
bool is_later_than(operation const& op, std::uint32_t round) {
    return static_cast<std::int32_t>(op.as<wait_change_call>().round - round) > 0;
}

} // namespace

key_watcher::key_watcher(services const& s, surveyor& questions)
    : turn_(s.turn)
    , instances_(s.instances)
    , surveyor_(questions)
    , timers_(s.timers)
    , completer_(s.completer)
    , counters_(s.counters)
    , random_(s.random) {}

key_watcher::~key_watcher() = default;

//
// Calls
//

void key_watcher::start(operation& op) {
    auto* const w = find_or_make(op);
    op.stage = operation_stage::attached;
    auto& call = op.as<wait_change_call>();
    call.watch = w;
    call.round = w->round + 1;
    w->calls.push_back(op);
    if (!turn_.attempt([&] { schedule(*w); })) fail(*w);
}

key_watcher::watch* key_watcher::find_or_make(operation const& op) {
    auto const key = op.as<wait_change_call>().key->key();
    auto const found = watches_.find(key);
    if (found != watches_.end()) return found->second.get();
    watch_ptr const made(new watch(*this, key));
    watches_.emplace(made->key, made);
    return made.get();
}

void key_watcher::cancel(operation& op) {
    auto& w = static_cast<watch&>(*op.as<wait_change_call>().watch);
    completer_.complete(op, errc::cancelled);
    if (w.calls.empty()) drop(w);
}

void key_watcher::shut_down() {
    while (!watches_.empty()) {
        watch_ptr const w = watches_.begin()->second;
        while (!w->calls.empty()) completer_.complete(w->calls.front(), errc::shut_down);
        drop(*w);
    }
}

//
// Rounds
//

void key_watcher::begin_round(watch& w) {
    auto const now = turn_.time();
    ++w.round;
    w.began = now;
    w.report = surveyor_.begin(w.key);
    auto const asked = surveyor_.reachable();
    w.machine.begin(now, asked, random_.pause_bits());
    // If an instance is not asked to push, it counts as one that does not.
    surveyor_.ask(w, command::track, asked, w.round);
    auto const failed = surveyor_.ask(w, command::survey, asked, w.round);
    failed.for_each([&](unsigned i) { w.machine.answered(now, i, {}); });
    if (!w.machine.in_round()) conclude(w);
}

void key_watcher::on_answer(watch& w, unsigned instance, command c, std::uint32_t round,
                            redis::answer const& a) {
    if (w.dropped || round != w.round || !w.machine.is_pending(instance)) return;
    auto const now = turn_.time();
    std::optional<protocol::duration> left;
    if (a.ttl_left) left = *a.ttl_left;
    if (c == command::track) {
        if (a.verdict != verdict::yes) return;
        if (!a.ttl_known) left = protocol::duration(-1);
        instances_[instance].push_missed(w.machine.registered(now, instance, a.push_follows, left));
        return;
    }
    surveyor_.take(w.report, instance, a, w.began);
    if (w.machine.answered(now, instance, a.present ? left : std::nullopt)) conclude(w);
}

void key_watcher::conclude(watch& w) {
    watch_ptr const alive(&w);
    evaluate(w.report);
    for (auto it = w.calls.begin(); it != w.calls.end();) {
        auto& op = *it++;
        if (is_later_than(op, w.round)) continue;
        if (shows_change(*op.as<wait_change_call>().last, w.report))
            completer_.complete(op, errc{}, key_report(w.report));
    }
    w.report = {};
    schedule(w);
}

// All calls share the round.
void key_watcher::fail(watch& w) {
    watch_ptr const alive(&w);
    while (!w.calls.empty()) completer_.complete(w.calls.front(), errc::out_of_memory);
    if (!w.dropped) drop(w);
}

void key_watcher::on_time(watch& w) {
    if (w.calls.empty()) return drop(w);
    if (!turn_.attempt([&] { begin_round(w); })) fail(w);
}

void key_watcher::schedule(watch& w) {
    if (w.dropped || w.machine.in_round()) return;
    if (w.began == lease_clock::time_point()) return begin_round(w);
    auto const soon = w.calls.empty() || is_later_than(w.calls.back(), w.round);
    timers_.schedule(w, w.machine.next(soon));
}

void key_watcher::drop(watch& w) noexcept {
    watch_ptr const alive(&w);
    timers_.cancel(w);
    w.dropped = true;
    watches_.erase(w.key);
    // After a burst, the empty table gives back its memory.
    constexpr std::size_t worth_it = 1024;
    if (watches_.empty() && watches_.bucket_count() > worth_it) watches_ = {};
}

//
// Events
//

bool key_watcher::note(unsigned instance, std::string_view key) {
    auto const found = watches_.find(key);
    if (found == watches_.end()) return false;
    auto& w = *found->second;
    if (!w.machine.changed(instance)) return false;
    schedule(w);
    return true;
}

void key_watcher::on_push_for_all(unsigned instance) {
    for (auto const& [key, w] : watches_) {
        if (!w->machine.changed(instance)) continue;
        counters::add(counters_.pushes);
        schedule(*w);
    }
}

void key_watcher::on_came_or_went(unsigned instance) {
    for (auto const& [key, w] : watches_) {
        w->machine.came_or_went(instance);
        schedule(*w);
    }
}

void key_watcher::clear() noexcept {
    for (auto const& [key, w] : watches_) {
        w->dropped = true;
        w->calls.clear();
    }
    watches_.clear();
}

} // namespace holdfast::runtime
