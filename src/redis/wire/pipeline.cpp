#include "redis/wire/pipeline.hpp"

#include "protocol/tenure/fence.hpp"

#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <chrono>

namespace holdfast::redis {

pipeline::pipeline()
    : open_(std::make_unique<batch>()) {
    spare_.reserve(retained_batches);
}

void pipeline::show_clock(std::chrono::microseconds now) {
    believed_ = now.count() == 0 ? 0 : protocol::greatest_believed(now);
}

/// Sets the members of `c` that follow from the lock's kind and from the wording. A command that is
/// to be sent with its whole script keeps it, and so does one for which a script is to count.
void pipeline::describe(pending_command& c, lock_kind const& kind, command_args const& args,
                        wording w) const {
    c.kind = &kind;
    c.fenced = args.fenced();
    c.whole_seconds = args.ttl % std::chrono::seconds(1) == std::chrono::seconds(0);
    c.number = args.number;
    // In a Cluster a migration separates the key and its counter, and ASKING holds for one command.
    auto const natively = kind.counts_natively && !w.script_counts && !c.words.recounts &&
                          !w.in_cluster && args.number <= believed_;
    // ASKING holds for the next command alone, so CLIENT CACHING would use it up.
    c.words = {.dialect = w.dialect,
               .tracked = w.tracked && may_be_tracked(c.command) && !c.asking,
               .whole_script = w.whole_script || c.words.whole_script,
               .in_cluster = w.in_cluster,
               .script_counts = w.script_counts,
               .recounts = c.words.recounts,
               .counting = natively ? args.counting : protocol::counting::by_script};
    c.replies = kind.replies(c.command, c.words);
    if (c.asking) ++c.replies;
}

void append(batch& target, pending_command c, std::string_view bytes) {
    target.bytes.append(bytes);
    target.commands.push_back(std::move(c));
}

void pipeline::add(encoder& encoded, pending_command c, wording w) {
    describe(c, encoded.kind(), encoded.arguments(), w);
    if (!waits() && open_->commands.size() < max_commands) {
        auto const bytes = encoded.bytes(c.words);
        return append(*open_, std::move(c), bytes);
    }
    wait_in_lane(std::move(c), encoded.arguments().key);
}

void pipeline::add(pending_command c, wording w) {
    auto const args = c.owner->arguments(c.command);
    describe(c, c.owner->kind(), args, w);
    if (waits() || open_->commands.size() >= max_commands) {
        return wait_in_lane(std::move(c), args.key);
    }
    encode(c, args);
    append(*open_, std::move(c), scratch_.payload());
}

bool pipeline::has_lock_commands() const {
    auto const has_locks = [](batch const& b) {
        return !b.held.empty() ||
               std::any_of(b.commands.begin() + static_cast<std::ptrdiff_t>(b.next),
                           b.commands.end(),
                           [](auto const& c) { return c.type == command_type::lock; });
    };
    return waits() || has_locks(*open_) ||
           std::any_of(in_flight_.begin(), in_flight_.end(),
                       [&](auto const& b) { return has_locks(*b); });
}

void pipeline::encode(pending_command const& c, command_args const& args) {
    scratch_.clear();
    if (c.asking) scratch_.push("ASKING");
    c.kind->encode(scratch_, c.command, c.words, args);
}

void pipeline::add_late(pending_command c) {
    auto const args = c.owner->arguments(c.command);
    describe(c, c.owner->kind(), args, {});
    wait_in_lane(std::move(c), args.key);
}

void pipeline::wait_in_lane(pending_command c, std::string_view key) {
    auto const lane = protocol::lane_of(c.command);
    auto const hash = boost::hash<std::string_view>()(key);
    lanes_.push(lane, hash, std::move(c));
}

batch& pipeline::send(wording w) {
    refill(w);
    auto next = fresh_batch();
    in_flight_.reserve(in_flight_.size() + 1);
    if (wait_.replicas != 0) add_wait(); // the last that may throw: nothing follows WAIT
    in_flight_.push_back(std::move(open_));
    open_ = std::move(next);
    return *in_flight_.back();
}

batch& pipeline::send_first(std::unique_ptr<batch> b) {
    assert(in_flight_.empty());
    in_flight_.push_back(std::move(b));
    return *in_flight_.back();
}

// Fills the open batch from the lanes. A waiting command is small, because it is encoded only when
// it leaves. If that fails, it stays in its lane.
void pipeline::refill(wording w) {
    while (waits() && open_->commands.size() < max_commands) {
        auto c = lanes_.front();
        auto const args = c.owner->arguments(c.command);
        w.tracked = c.words.tracked;
        describe(c, c.owner->kind(), args, w);
        encode(c, args);
        append(*open_, std::move(c), scratch_.payload());
        lanes_.pop();
    }
}

// One WAIT covers all writes of the connection before it. The answers before it leave at once; only
// later commands wait for it. So the commands before it keep their order.
void pipeline::add_wait() {
    auto const grants =
        std::count_if(open_->commands.begin(), open_->commands.end(), [](auto const& c) {
            return c.type == command_type::lock && protocol::needs_replicas(c.command);
        });
    if (grants == 0) return;
    open_->held.reserve(static_cast<std::size_t>(grants));
    add({.round = wait_.replicas, .type = command_type::wait}, "WAIT", wait_.replicas,
        wait_.timeout.count());
    open_->waits = true;
}

std::unique_ptr<batch> pipeline::fresh_batch() {
    if (spare_.empty()) return std::make_unique<batch>();
    auto b = std::move(spare_.back());
    spare_.pop_back();
    return b;
}

void pipeline::recycle(std::unique_ptr<batch> b) noexcept {
    if (spare_.size() == spare_.capacity() || b->bytes.capacity() > retained_bytes) return;
    b->bytes.clear();
    b->commands.clear();
    b->written = b->next = 0;
    b->waits = false;
    b->held.clear();
    spare_.push_back(std::move(b));
}

void pipeline::clear() noexcept {
    in_flight_.clear();
    open_->commands.clear();
    open_->bytes.clear();
    while (!lanes_.empty()) lanes_.pop();
}

} // namespace holdfast::redis
