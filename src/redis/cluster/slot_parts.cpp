#include "redis/cluster/slot_parts.hpp"

#include "protocol/cluster/cluster_route.hpp"
#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/optional_text.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace holdfast::redis {

namespace {

using protocol::command;
using protocol::verdict;

bool takes_keys(command c) {
    return c == command::acquire || c == command::contend;
}

/// The verdict of the first kind that some part has is that of the command.
constexpr std::array of_releases{verdict::unknown, verdict::no, verdict::refused, verdict::unsent,
                                 verdict::yes};
constexpr std::array of_others{verdict::no,     verdict::unknown, verdict::refused,
                               verdict::unsent, verdict::rival,   verdict::yes};

} // namespace

//
// A part
//

void intrusive_ptr_add_ref(gathered_command* g) noexcept {
    ++g->references_;
}

void intrusive_ptr_release(gathered_command* g) noexcept {
    if (--g->references_ == 0) delete g;
}

slot_part::slot_part(reply_handler_ptr owner, command of, unsigned slot)
    : owner_(std::move(owner))
    , of_(of)
    , slot_(slot) {}

command slot_part::of_owner(command c) const noexcept {
    return c == command::acquire ? of_ : c;
}

command_args slot_part::arguments(command c) const noexcept {
    auto a = owner_->arguments(of_owner(c));
    a.key = keys_.front();
    a.keys = keys_;
    a.prior = prior_;
    a.watched = watched_;
    if (c == command::raise && raise_to_ != 0) a.number = raise_to_;
    return a;
}

// A grant that comes after its undoing would leave the keys for their ttl.
bool slot_part::still_wants(command c) const noexcept {
    if (takes_keys(c) && (!awaited_by_ || awaited_by_->refused_)) return false;
    return owner_->still_wants(of_owner(c));
}

void slot_part::on_answer(unsigned, command, std::uint32_t, answer const& a) {
    // The command keeps the part from now on, and the part no more the command.
    slot_part_ptr const kept(this);
    if (auto const whole = std::exchange(awaited_by_, nullptr)) return whole->take(*this, a);
    if (undone_by_ != nullptr && !protocol::sets_no_key(a.verdict)) undone_by_->on_undone(keys_);
}

std::uint8_t slot_part::place_of(unsigned obstacle) const noexcept {
    return static_cast<std::uint8_t>(places_[std::min<std::size_t>(obstacle, places_.size()) - 1] +
                                     1);
}

bool has_several_slots(command_args const& a) {
    if (a.keys.size() < 2) return false;
    auto const first = protocol::hash_slot(a.keys.front());
    return std::ranges::any_of(a.keys.subspan(1),
                               [&](auto key) { return protocol::hash_slot(key) != first; });
}

std::vector<slot_part_ptr> split(reply_handler_ptr const& owner, command c, command_args const& a) {
    std::vector<slot_part_ptr> parts;
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
        auto const slot = protocol::hash_slot(a.keys[i]);
        auto at = std::ranges::find_if(parts, [&](auto const& p) { return p->slot_ == slot; });
        if (at == parts.end()) {
            parts.emplace_back(new slot_part(owner, c, slot));
            at = parts.end() - 1;
        }
        auto& part = **at;
        if (i == a.watched) {
            part.watches_ = true;
            part.watched_ = static_cast<std::uint8_t>(part.keys_.size());
        }
        part.keys_.push_back(a.keys[i]);
        part.places_.push_back(static_cast<std::uint8_t>(i));
        if (i < a.prior.size()) part.prior_.push_back(a.prior[i]);
    }
    // Only the watched key is asked for.
    if (c == command::track) std::erase_if(parts, [](auto const& p) { return !p->watches_; });
    return parts;
}

//
// The command
//

gathered_command::gathered_command(slot_part_user& user, reply_handler_ptr owner, command c,
                                   std::uint32_t round, std::vector<slot_part_ptr> parts)
    : user_(user)
    , owner_(std::move(owner))
    , command_(c)
    , round_(round)
    , unsent_(std::move(parts))
    , records_(unsent_.size()) {}

bool gathered_command::submit() noexcept {
    auto const parts = std::exchange(unsent_, {});
    for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i]->index_ = i;
        if (parts[i]->watches_) watching_ = i;
        // The answers of the others tell of their keys, so those need no registration.
        auto const contends = command_ == command::contend && parts[i]->watches_;
        auto const c = contends || command_ != command::contend ? command_ : command::acquire;
        if (send(parts[i], c)) continue;
        records_[i] = {.part = parts[i],
                       .answer = {.verdict = verdict::unsent, .cause = errc::out_of_memory}};
    }
    return open_ > 0;
}

bool gathered_command::send(slot_part_ptr const& part, command c) noexcept {
    part->awaited_by_ = this;
    ++open_;
    if (user_.submit_part(part, c, round_)) return true;
    part->awaited_by_ = nullptr;
    --open_;
    return false;
}

void gathered_command::take(slot_part& part, answer const& a) noexcept {
    auto& r = records_[part.index_];
    r.part = &part;
    if (tracking_) {
        auto const known = a.verdict == verdict::yes;
        if (known) r.answer.ttl_known = a.ttl_known;
        if (known) r.answer.ttl_left = a.ttl_left;
        r.answer.push_follows = a.push_follows;
    } else if (!raising_) {
        note(r, a);
        refused_ = refused_ || a.verdict == verdict::no;
    } else if (a.verdict != verdict::yes) {
        // The part has the keys, with a number that may be too small. So the owner has to release.
        auto const ours = a.verdict != verdict::no;
        note(r, {.verdict = verdict::unknown,
                 .cause = ours ? a.cause : errc::rejected,
                 .message = ours ? a.message : "a key was lost before it had the number of all"});
    }
    if (part.index_ == watching_) stale_ = open_ > 1;
    if (--open_ == 0) on_all();
}

void gathered_command::note(record& r, answer const& a) noexcept {
    r.answer = a;
    r.message = text_if_memory([&] { return a.message; });
    r.holder = text_if_memory([&] { return a.holder; });
    r.answer.message = r.message;
    r.answer.holder = r.holder;
    r.answer.obstacle = a.obstacle == 0 ? 0 : r.part->place_of(a.obstacle);
}

void gathered_command::on_all() noexcept {
    if (tracking_) return answer_owner(decisive().answer);
    if (protocol::is_grant(command_) && !raising_ && level()) return;
    auto a = decisive().answer;
    if (takes_keys(command_) && protocol::sets_no_key(a.verdict)) undo_grants();
    if (a.verdict == verdict::yes) a.number = number_;
    if (!track()) answer_owner(a);
}

// A push belongs to the last answer about its key. If it comes before the owner has that answer, it
// is lost: the owner does not wait for it yet.
bool gathered_command::track() noexcept {
    auto& watched = records_[watching_];
    auto const waits = command_ == command::contend && watched.answer.verdict == verdict::no;
    if (!waits || !stale_ || !watched.answer.push_follows) return false;
    tracking_ = true;
    auto const part = std::exchange(watched.part, nullptr);
    if (send(part, command::track)) return true;
    watched.part = part;
    watched.answer.push_follows = false;
    return false;
}

void gathered_command::answer_owner(answer a) noexcept {
    if (command_ == command::contend) {
        auto const& watched = records_[watching_].answer;
        // If its part was granted, the time is our own, and it is free again.
        auto const held = watched.verdict == verdict::no;
        a.ttl_known = held && watched.ttl_known;
        a.ttl_left = held ? watched.ttl_left : std::nullopt;
        a.push_follows = held && watched.push_follows;
    }
    owner_->on_answer(user_.number(), command_, round_, a);
}

// Each node has counted for itself. The number of the set is the greatest.
bool gathered_command::level() noexcept {
    for (auto const& r : records_) {
        if (r.answer.verdict != verdict::yes) return false;
        number_ = std::max(number_, r.answer.number);
    }
    raising_ = true;
    for (auto& r : records_) {
        if (r.answer.number == number_) continue;
        // Not kept here while it is under way, because it keeps this object.
        auto const part = std::exchange(r.part, nullptr);
        part->raise_to_ = number_;
        if (send(part, command::raise)) continue;
        r.part = part;
        note(r, {.verdict = verdict::unknown, .cause = errc::out_of_memory});
    }
    return open_ > 0;
}

void gathered_command::undo_grants() noexcept {
    for (auto const& r : records_) {
        if (protocol::sets_no_key(r.answer.verdict)) continue;
        r.part->undone_by_ = &user_;
        user_.undo(r.part);
    }
}

gathered_command::record const& gathered_command::decisive() const noexcept {
    auto const lower = [](record const& a, record const& b) {
        auto const place = [](record const& r) { return r.answer.obstacle - 1U; }; // 0 comes last
        return place(a) < place(b);
    };
    auto const& first = *std::ranges::min_element(records_, lower);
    if (command_ == command::inspect && first.answer.obstacle != 0) return first;
    auto const order = command_ == command::release ? std::span<verdict const>(of_releases)
                                                    : std::span<verdict const>(of_others);
    for (auto const v : order) {
        record const* found = nullptr;
        for (auto const& r : records_) {
            if (r.answer.verdict == v && (found == nullptr || lower(r, *found))) found = &r;
        }
        if (found != nullptr) return *found;
    }
    return first;
}

} // namespace holdfast::redis
