// The instances of a simulation of permits, with the scripts of
// redis/wire/kinds/permit_scripts.hpp.
//
// K maps tokens to slots, and a set beside it maps tokens to deadlines. If they have not the same
// tokens, the server has evicted one of them, and nobody gets a slot until the other has gone.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_SERVERS_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_SERVERS_HPP

#include "simulation/permits/audit.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace holdfast::test {

class permits_servers : protected permits_audit {
protected:
    using permits_audit::permits_audit;
    ~permits_servers() = default;

    bool execute(unsigned p, unsigned i, message& m, bool ghost) override {
        if (!m.votes) return true;
        expire_keys(i);
        auto const token = tenures_[m.tenure].token;
        auto const others = alive_at(i);
        auto const had = slot_at(i, token);
        auto const only = m.slot.has_value();
        ran_by_ = static_cast<int>(p);
        m.said = verdict::yes;
        switch (m.adopts ? command::extend : m.op) {
        case command::acquire:
        case command::contend:
        case command::heal:
            take(i, m, token);
            if (m.op == command::contend && !ghost) track(p, i, m);
            break;
        case command::extend:
            m.said = extend(i, m, token);
            break;
        case command::raise:
            m.said = raise(i, m, token) ? verdict::yes : verdict::no;
            break;
        case command::release:
            m.said = release(i, m, token) ? verdict::yes : verdict::no;
            break;
        case command::track:
            if (!ghost) track(p, i, m);
            break;
        case command::inspect:
        case command::survey:
        case command::revoke:
        case command::scan:
            break;
        }
        ran_by_ = nobody;
        check_others(i, token, others);
        auto const takes = m.op == command::acquire || m.op == command::contend;
        if (takes && !only && !m.adopts) check_own(i, token, had);
        check_slots(i);
        // An extension that brings a slot back does not make the loss undone.
        if (had != slot_at(i, token) && (had || m.op != command::extend)) slots_changed();
        if (ghost) note_ghost(i, m, token, had.has_value());
        if (m.op == command::raise || !percent(expiry_) || now() >= calm_from_) return true;
        at(some(delay_ * 6), [this, i, token] { expire_early(i, token); });
        return true;
    }

    //
    // Keys that go, and pushes
    //

    void expire_keys(unsigned i) {
        auto& at = instances_[i];
        auto const clock_now = clock_ms(i);
        if (clock_now > at.deadlines_until) at.deadlines.clear();
        if (at.taken.empty() || clock_now <= at.taken_until) return;
        ++seen_.expiries;
        at.taken.clear();
        written(i);
    }
    /// K has changed. The client that changes it gets no push, and its registration ends too.
    void written(unsigned i) {
        auto& at = instances_[i];
        auto const version = ++at.versions;
        for (auto const p : std::exchange(at.listeners, {})) {
            if (static_cast<int>(p) == ran_by_) continue;
            message m;
            m.pushed = true;
            m.votes = false;
            answer(p, i, std::move(m));
        }
        if (at.taken.empty()) return;
        auto const left = std::max<milliseconds>(at.taken_until - clock_ms(i), 0);
        auto const late = 34'000'000 + some(68'000'000);
        at_leisure(left * 1'000'000 + late, [this, i, version] { on_expiry(i, version); });
    }
    void on_expiry(unsigned i, std::uint64_t version) {
        auto const& at = instances_[i];
        if (at.versions != version) return;
        if (now() >= at.frozen_until) return expire_keys(i);
        at_leisure(at.frozen_until - now(), [this, i, version] { on_expiry(i, version); });
    }
    /// Somebody deletes both keys by hand.
    void remove_keys(unsigned i) {
        instances_[i].taken.clear();
        instances_[i].deadlines.clear();
        written(i);
        slots_changed();
    }
    /// The server evicts one of the keys.
    void evict_one(unsigned i) {
        auto& at = instances_[i];
        if (at.taken.empty() || at.deadlines.empty()) return;
        ++seen_.evictions;
        if (one_in(2)) {
            write_story("the deadlines are evicted at ", i);
            at.deadlines.clear();
        } else {
            write_story("the slots are evicted at ", i);
            at.taken.clear();
            written(i);
        }
        slots_changed();
    }
    void expire_early(unsigned i, unsigned token) {
        if (!slot_at(i, token)) return;
        write_story("what ", token, " has at ", i, " expires early");
        if (one_in(3)) return remove_keys(i);
        remove(i, token);
    }
    /// An operator has seen a token with its slot: a tombstone takes the token's place.
    void revoke_at(unsigned i, unsigned token, unsigned slot, unsigned tombstone) {
        auto& at = instances_[i];
        expire_keys(i);
        auto const others = alive_at(i);
        auto const now_there =
            parts_.revokes_seen_token_alone ? static_cast<int>(token) : holder_of(i, slot);
        auto const who = static_cast<unsigned>(now_there);
        auto const its_slot = now_there == nobody ? std::nullopt : slot_at(i, who);
        if (!its_slot) {
            ++seen_.revoked_too_late;
            return;
        }
        ++seen_.revoked;
        write_story("what ", who, " has at ", i, " is revoked");
        auto const until = at.deadlines.at(who);
        at.taken.erase(who);
        at.deadlines.erase(who);
        if (parts_.tombstone_keeps_slot) {
            at.taken.emplace(tombstone, *its_slot);
            at.deadlines.emplace(tombstone, until);
        }
        written(i);
        check_others(i, token, others);
        slots_changed();
    }
    std::vector<unsigned> alive_at(unsigned i) const {
        std::vector<unsigned> all;
        for (auto const& [token, slot] : instances_[i].taken)
            if (slot_at(i, token)) all.push_back(token);
        return all;
    }

private:
    milliseconds left_of(unsigned i, milliseconds until) const {
        return std::max<milliseconds>(until - clock_ms(i), 0);
    }
    static std::optional<unsigned> slot_of(instance const& at, unsigned token) {
        auto const found = at.taken.find(token);
        return found == at.taken.end() ? std::nullopt : std::optional(found->second);
    }
    int holder_of(unsigned i, unsigned slot) const {
        for (auto const& [token, its] : instances_[i].taken)
            if (its == slot) return static_cast<int>(token);
        return nobody;
    }
    void remove(unsigned i, unsigned token) {
        auto& at = instances_[i];
        at.taken.erase(token);
        at.deadlines.erase(token);
        written(i);
    }

    void drop_dead(unsigned i) {
        auto& at = instances_[i];
        if (!parts_.drops_the_dead) return;
        auto const slack = parts_.drops_the_dead_alone ? 0 : ttl_ / 4ms;
        auto const before = at.taken.size();
        std::erase_if(at.deadlines, [&](auto const& each) {
            if (each.second - slack > clock_ms(i)) return false;
            at.taken.erase(each.first);
            return true;
        });
        if (at.taken.size() == before) return;
        seen_.dead_dropped += before - at.taken.size();
        written(i);
    }
    /// Of a set from which the other one differs.
    milliseconds left_of_all(unsigned i) {
        auto const& at = instances_[i];
        auto last = at.taken.empty() ? 0 : at.taken_until;
        for (auto const& [token, until] : at.deadlines) last = std::max(last, until);
        return left_of(i, last + 1);
    }

    void refuse(message& m, milliseconds left) {
        ++seen_.refused;
        m.said = verdict::no;
        m.left = left;
    }
    /// How long the first of all tokens will live.
    milliseconds first_end(unsigned i) const {
        auto first = instances_[i].taken_until + 1;
        for (auto const& [token, until] : instances_[i].deadlines) first = std::min(first, until);
        return left_of(i, first);
    }
    bool is_taken(unsigned i, unsigned slot, unsigned permits) const {
        if (!parts_.votes_for_slot) return instances_[i].taken.size() >= permits;
        return holder_of(i, slot) != nobody;
    }

    void take(unsigned i, message& m, unsigned token) {
        drop_dead(i);
        auto& at = instances_[i];
        auto const own = slot_of(at, token);
        if (at.taken.size() != at.deadlines.size() && parts_.guards_evicted_sets) {
            ++seen_.evicted_refused;
            return refuse(m, left_of_all(i));
        }
        if (m.slot) return take_only(i, m, token, own);
        if (own && parts_.token_keeps_slot) {
            ++seen_.kept;
            return give(i, m, token, *own, false);
        }
        if (!parts_.votes_for_slot) {
            if (is_taken(i, 0, m.permits)) return refuse(m, first_end(i));
            return give(i, m, token, 0, true);
        }
        for (unsigned n = 0; n < m.permits; ++n) {
            auto const slot = (m.start + n) % m.permits;
            if (is_taken(i, slot, m.permits)) continue;
            if (own) at.taken.erase(token);
            return give(i, m, token, slot, true);
        }
        ++seen_.full;
        refuse(m, first_end(i));
    }
    void take_only(unsigned i, message& m, unsigned token, std::optional<unsigned> own) {
        auto& at = instances_[i];
        auto const slot = *m.slot;
        if (own && *own == slot) {
            ++seen_.kept;
            return give(i, m, token, slot, false);
        }
        if (is_taken(i, slot, m.permits)) {
            auto const other = holder_of(i, slot);
            if (m.op != command::heal || parts_.heals_free_slots_alone || other == nobody) {
                if (own && parts_.gives_back) {
                    ++seen_.given_back;
                    remove(i, token);
                }
                return refuse(m, other == nobody ? first_end(i) : left_of_all(i));
            }
            remove(i, static_cast<unsigned>(other));
        }
        if (own) {
            ++seen_.moved;
            at.taken.erase(token);
        }
        give(i, m, token, slot, true);
    }
    void give(unsigned i, message& m, unsigned token, unsigned slot, bool is_new) {
        auto& at = instances_[i];
        if (tenures_[m.tenure].machine.fenced() && m.op != command::heal) {
            auto& counter = at.counters[slot];
            if (is_new) {
                auto const next = next_number(counter, m.number, static_cast<double>(now()) * 1e-9,
                                              parts_.counts_per_slot ? 1 : 0);
                counter = next.number;
            }
            counter = m.number = std::max<std::uint64_t>(counter, 1);
        }
        ++seen_.taken;
        m.slot = slot;
        if (is_new) at.taken.emplace(token, slot);
        prolong(i, token, m.ttl, is_new);
    }
    void prolong(unsigned i, unsigned token, milliseconds ttl, bool changes) {
        auto& at = instances_[i];
        auto const clock_now = clock_ms(i);
        auto& own = at.deadlines[token];
        auto const until = clock_now + 1 + ttl;
        own = parts_.grows_deadlines ? std::max(own, until) : until;
        auto const others = at.taken.size() > 1 || !changes;
        auto const lasts = others ? left_of(i, at.taken_until) : 0;
        if (!parts_.keys_outlive_all) {
            at.taken_until = at.deadlines_until = clock_now + ttl;
            changes = true;
        } else if (lasts <= ttl) {
            at.taken_until = clock_now + std::max(lasts, (ttl * 3 + 1) / 2);
            at.deadlines_until = std::max(at.deadlines_until, at.taken_until);
            changes = true;
        }
        if (changes) written(i);
    }

    //
    // What follows a grant
    //

    verdict extend(unsigned i, message& m, unsigned token) {
        auto& at = instances_[i];
        auto const slot = m.slot.value_or(0);
        auto const own = slot_at(i, token);
        if (!own) {
            if (parts_.extends_members_alone || is_taken(i, slot, permitting::slots))
                return verdict::no;
            at.taken.erase(token);
            at.taken.emplace(token, slot);
            prolong(i, token, m.ttl, true);
            return verdict::yes;
        }
        if (parts_.votes_for_slot && !has_slot(i, token, slot)) {
            ++seen_.extensions_of_others;
            m.slot = *own;
            if (parts_.extends_own_slot_alone) return verdict::other;
        }
        prolong(i, token, m.ttl, false);
        return verdict::yes;
    }
    bool raise(unsigned i, message const& m, unsigned token) {
        auto const slot = m.slot.value_or(0);
        if (!has_slot(i, token, slot) && parts_.raise_needs_slot) return false;
        auto& counter = instances_[i].counters[slot];
        if (parts_.raise_stores) counter = std::max(counter, m.number);
        return true;
    }
    bool release(unsigned i, message const& m, unsigned token) {
        if (!parts_.release_looks_at_token && m.slot) {
            auto const other = holder_of(i, *m.slot);
            if (other != nobody) remove(i, static_cast<unsigned>(other));
            return other != nobody;
        }
        auto const was_there = slot_at(i, token).has_value();
        instances_[i].deadlines.erase(token);
        if (slot_of(instances_[i], token)) remove(i, token);
        drop_dead(i);
        return was_there;
    }
    void track(unsigned p, unsigned i, message& m) {
        auto& at = instances_[i];
        if (m.op == command::track) drop_dead(i);
        at.listeners.insert(p);
        m.tracks = true;
        if (m.left) return; // of a refusal
        auto const full = std::count_if(at.taken.begin(), at.taken.end(), [&](auto const& each) {
                              return each.second < m.permits;
                          }) >= static_cast<std::ptrdiff_t>(m.permits);
        if (full) m.left = first_end(i);
    }
    void note_ghost(unsigned i, message const& m, unsigned token, bool had) {
        ++seen_.ghosts;
        auto const has = slot_at(i, token).has_value();
        if (m.op == command::release && had && !has) ++seen_.ghost_releases;
        if (m.op == command::release || !has) return;
        stays_.insert(token);
        ++(m.op == command::extend ? seen_.ghost_extensions : seen_.ghost_grants);
    }

    int ran_by_ = nobody;
};

} // namespace holdfast::test

#endif
