#include "redis/pipeline.hpp"

#include <boost/container_hash/hash.hpp>

namespace holdfast::redis {

namespace {

/// Sets the members of `c` that follow from the lock's kind and from the wording. Returns the
/// wording for this command.
wording describe(pending_command& c, command_args const& args, wording w) {
    c.fenced = args.fenced();
    c.tracked = w.tracked && may_be_tracked(c.command);
    c.replies = c.owner->kind().replies(c.command, c.tracked);
    return {.dialect = w.dialect, .tracked = c.tracked, .whole_script = c.whole_script};
}

} // namespace

pipeline::pipeline()
    : open_(std::make_unique<batch>()) {
    spare_.reserve(kept_batches);
}

void append(batch& target, pending_command c, std::string_view bytes) {
    auto const size = target.bytes.size();
    target.bytes.append(bytes);
    try {
        target.commands.push_back(std::move(c));
    } catch (...) {
        target.bytes.resize(size);
        throw;
    }
}

void pipeline::add(encoder& encoded, pending_command c, wording w) {
    auto const own = describe(c, encoded.arguments(), w);
    if (!waits() && open_->commands.size() < max_commands) {
        return append(*open_, std::move(c), encoded.bytes(own));
    }
    wait_in_lane(std::move(c), encoded.arguments().key);
}

void pipeline::add(pending_command c, wording w) {
    auto const args = c.owner->arguments(c.command);
    auto const own = describe(c, args, w);
    if (waits() || open_->commands.size() >= max_commands) {
        return wait_in_lane(std::move(c), args.key);
    }
    scratch_.clear();
    c.owner->kind().encode(scratch_, c.command, own, args);
    append(*open_, std::move(c), scratch_.payload());
}

void pipeline::add_late(pending_command c) {
    auto const args = c.owner->arguments(c.command);
    describe(c, args, {});
    wait_in_lane(std::move(c), args.key);
}

void pipeline::wait_in_lane(pending_command c, std::string_view key) {
    auto const lane = protocol::lane_of(c.command);
    auto const hash = boost::hash<std::string_view>()(key);
    waiting_.push(lane, hash, std::move(c));
}

batch& pipeline::send(wording w) {
    refill(w);
    auto next = fresh_batch();
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
// it leaves. If memory runs out, the command that has left its lane goes first the next time.
void pipeline::refill(wording w) {
    while (waits() && open_->commands.size() < max_commands) {
        if (!stranded_.owner) stranded_ = waiting_.pop();
        w.tracked = stranded_.tracked;
        w.whole_script = stranded_.whole_script;
        scratch_.clear();
        auto const& owner = *stranded_.owner;
        owner.kind().encode(scratch_, stranded_.command, w, owner.arguments(stranded_.command));
        append(*open_, stranded_, scratch_.payload());
        stranded_ = {};
    }
}

std::unique_ptr<batch> pipeline::fresh_batch() {
    if (spare_.empty()) return std::make_unique<batch>();
    auto b = std::move(spare_.back());
    spare_.pop_back();
    return b;
}

void pipeline::recycle(std::unique_ptr<batch> b) noexcept {
    if (spare_.size() == spare_.capacity() || b->bytes.capacity() > kept_bytes) return;
    b->bytes.clear();
    b->commands.clear();
    b->written = b->next = 0;
    spare_.push_back(std::move(b));
}

void pipeline::clear() noexcept {
    in_flight_.clear();
    open_->commands.clear();
    open_->bytes.clear();
    stranded_ = {};
    while (!waiting_.empty()) waiting_.pop();
}

} // namespace holdfast::redis
