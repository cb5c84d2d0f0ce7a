// The instances of a simulation of readers and writers, with the scripts of
// redis/wire/kinds/read_write_scripts.hpp and, for plain locks, those of lock_scripts.hpp.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_SERVERS_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_SERVERS_HPP

#include "simulation/readers/audit.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace holdfast::test {

class readers_servers : protected readers_audit {
protected:
    using readers_audit::readers_audit;
    ~readers_servers() = default;

    bool execute(unsigned p, unsigned i, message& m, bool ghost) override {
        if (!m.votes) return true;
        expire_keys(i);
        auto const token = tenures_[m.tenure].token;
        auto const others = alive_members(i);
        auto const had = has_token(i, token) || has_member(i, token);
        ran_by_ = static_cast<int>(p);
        m.said = verdict::yes;
        switch (m.adopts ? command::extend : m.op) {
        case command::acquire:
        case command::contend:
        case command::heal:
            acquire(i, m, token);
            if (m.op == command::contend && !ghost) track(p, i, m);
            break;
        case command::extend:
            m.said = extend(i, m, token) ? verdict::yes : verdict::no;
            break;
        case command::raise:
            m.said = raise(i, m, token);
            break;
        case command::release:
            m.said = release(p, i, m, token) ? verdict::yes : verdict::no;
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
        if (parts_.audits_members) check_others(i, token, others);
        // An extension that brings a key back does not make the loss undone.
        auto const has = has_token(i, token) || has_member(i, token);
        if (had != has && (had || m.op != command::extend)) key_changed(token);
        if (ghost) note_ghost(i, m, token, had);
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
        if (at.has_set && clock_now > at.set_until) drop_set(at);
        if (clock_now > at.intent.until) at.intent.is = nobody;
        if (clock_now > at.turn.until) at.turn.is = reading::window::none;
        if (at.key.is == nobody || clock_now <= at.key.until) return;
        ++seen_.expiries;
        at.key.is = nobody;
        written(i);
    }
    static void drop_set(instance& at) {
        at.has_set = false;
        at.members.clear();
    }
    /// The key has changed. The client that changes it gets no push, and its registration ends too.
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
        if (at.key.is == nobody) return;
        auto const left = std::max<milliseconds>(at.key.until - clock_ms(i), 0);
        auto const late = 34'000'000 + some(68'000'000);
        at_leisure(left * 1'000'000 + late, [this, i, version] { on_expiry(i, version); });
    }
    void on_expiry(unsigned i, std::uint64_t version) {
        auto const& at = instances_[i];
        if (at.versions != version) return;
        if (now() >= at.frozen_until) return expire_keys(i);
        at_leisure(at.frozen_until - now(), [this, i, version] { on_expiry(i, version); });
    }
    /// Somebody deletes the key by hand, or the server evicts it.
    void remove_key(unsigned i) {
        auto& at = instances_[i];
        auto const tokens = tokens_at(i);
        at.key.is = nobody;
        written(i);
        for (auto const token : tokens) key_changed(token);
    }
    /// The server evicts the set of readers. The key stays.
    void evict_set(unsigned i) {
        auto& at = instances_[i];
        auto const tokens = tokens_at(i);
        if (at.key.is == reading::readers && at.has_set) {
            ++seen_.evictions;
            write_story("the set of readers is evicted at ", i);
        }
        drop_set(at);
        for (auto const token : tokens) key_changed(token);
    }
    void expire_early(unsigned i, unsigned token) {
        auto& at = instances_[i];
        if (!has_token(i, token) && !has_member(i, token)) return;
        ++seen_.early_expiries;
        write_story("what ", token, " has at ", i, " expires early");
        if (at.key.is == static_cast<int>(token)) return remove_key(i);
        if (one_in(3)) return remove_key(i);
        at.members.erase(token);
        at.has_set = !at.members.empty();
    }
    /// An operator has seen a token: a tombstone takes its place.
    void revoke_at(unsigned i, unsigned token, unsigned tombstone) {
        auto& at = instances_[i];
        expire_keys(i);
        if (has_token(i, token)) {
            ++seen_.writers_revoked;
            write_story("the key of ", token, " at ", i, " is revoked");
            at.key.is = parts_.tombstone_keeps_key ? static_cast<int>(tombstone) : nobody;
        } else if (has_member(i, token)) {
            ++seen_.readers_revoked;
            write_story("the reader ", token, " is revoked at ", i);
            auto const until = at.members.extract(token).mapped();
            at.members.emplace(tombstone, parts_.tombstone_keeps_deadline ? until : clock_ms(i));
        } else {
            ++seen_.revoked_too_late;
            return;
        }
        written(i);
        key_changed(token);
    }
    /// Everybody who has the key there, as a reader or a writer.
    std::vector<unsigned> tokens_at(unsigned i) const {
        auto all = alive_members(i);
        auto const& key = instances_[i].key;
        if (key.is >= 0 && has_token(i, static_cast<unsigned>(key.is)))
            all.push_back(static_cast<unsigned>(key.is));
        return all;
    }
    std::vector<unsigned> alive_members(unsigned i) const {
        std::vector<unsigned> all;
        for (auto const& [token, until] : instances_[i].members)
            if (has_member(i, token)) all.push_back(token);
        return all;
    }

private:
    milliseconds left_of(unsigned i, milliseconds until) const {
        return std::max<milliseconds>(until - clock_ms(i), 0);
    }
    void set_key(unsigned i, int to, milliseconds ttl) {
        auto& at = instances_[i];
        at.key = {to, clock_ms(i) + ttl};
        written(i);
    }
    bool is_marked(unsigned i) const { return instances_[i].key.is == reading::readers; }
    void drop_dead(unsigned i) {
        auto& all = instances_[i].members;
        seen_.dead_dropped +=
            std::erase_if(all, [&](auto const& each) { return !is_alive(i, each.second); });
        if (all.empty()) instances_[i].has_set = false;
    }

    void refuse(message& m, milliseconds left) {
        m.said = verdict::no;
        m.left = left;
    }
    void acquire(unsigned i, message& m, unsigned token) {
        if (m.by == access::plain) {
            take_if_free(i, m, token);
        } else if (m.by == access::read) {
            acquire_read(i, m, token);
        } else {
            acquire_write(i, m, token);
        }
    }

    //
    // Plain
    //

    void take_if_free(unsigned i, message& m, unsigned token) {
        auto const& at = instances_[i];
        if (at.key.is != nobody && (parts_.marker_shows || !is_marked(i))) {
            if (is_marked(i)) ++seen_.refused_beside_readers;
            return refuse(m, left_of(i, at.key.until));
        }
        take(i, m, token);
    }
    void take(unsigned i, message& m, unsigned token) {
        if (tenures_[m.tenure].machine.fenced() && !count(i, m, 1)) {
            m.said = verdict::refused;
            return;
        }
        set_key(i, static_cast<int>(token), m.ttl);
    }
    bool count(unsigned i, message& m, unsigned step) {
        auto& counter = instances_[i].counter;
        auto const next = next_number(counter, m.number, static_cast<double>(now()) * 1e-9, step);
        if (next.how == numbering::exhausted) return false;
        counter = m.number = next.number;
        return true;
    }

    //
    // Writers
    //

    void acquire_write(unsigned i, message& m, unsigned token) {
        auto& at = instances_[i];
        if (at.key.is != nobody && !is_marked(i)) return refuse(m, left_of(i, at.key.until));
        if (is_marked(i) && parts_.marker_excludes) {
            auto const evicted = !at.has_set && parts_.guards_evicted_set;
            auto const longest = longest_reader(i);
            if (evicted || longest > 0) {
                leave_intent(i, m);
                if (evicted) ++seen_.evicted_refused;
                return refuse(m, evicted ? left_of(i, at.key.until) : longest);
            }
            ++seen_.dead_overcome;
        } else if (m.op != command::heal && at.turn.is == reading::window::open &&
                   parts_.turn_keeps_writers_out && !is_marked(i)) {
            ++seen_.refused_in_turn;
            return refuse(m, left_of(i, at.turn.until));
        }
        if (is_marked(i) || parts_.clears_old_set) drop_set(at);
        if (at.intent.is == client_of(m) && parts_.deletes_intent) at.intent.is = nobody;
        take(i, m, token);
    }
    milliseconds most_time_left(unsigned i) {
        milliseconds most = 0;
        for (auto const& [reader, until] : instances_[i].members)
            most = std::max(most, until - clock_ms(i));
        return most;
    }
    /// How long the last of the readers that are alive will live.
    milliseconds longest_reader(unsigned i) {
        auto const& all = instances_[i].members;
        auto longest = most_time_left(i);
        if (!parts_.writer_sees_all && all.size() == 1 && one_in(4)) return 0;
        if (!parts_.drops_the_dead && !all.empty()) return std::max<milliseconds>(longest, 1);
        if (!parts_.drops_the_dead_alone) longest -= ttl_ / 4ms;
        return longest;
    }
    int client_of(message const& m) const { return static_cast<int>(tenures_[m.tenure].process); }
    void leave_intent(unsigned i, message const& m) {
        auto& intent = instances_[i].intent;
        auto const waits = m.waits || !parts_.try_leaves_nothing;
        if (!waits || m.op == command::heal || !parts_.leaves_intent) return;
        if (!parts_.intent_everywhere && m.op != command::contend) return;
        auto const before = intent.is;
        note(i, intent, client_of(m), m.ttl);
        if (intent.is == client_of(m)) ++(before == nobody ? seen_.noted : seen_.notes_renewed);
    }
    /// A note of another stays as it is.
    template <class Key, class Value>
    void note(unsigned i, Key& key, Value to, milliseconds ttl) {
        if (key.is != Key::none && (key.is != to || left_of(i, key.until) >= ttl)) return;
        key = {to, clock_ms(i) + ttl};
    }

    //
    // Readers
    //

    void acquire_read(unsigned i, message& m, unsigned token) {
        auto& at = instances_[i];
        auto const asks = m.op != command::heal;
        auto const notes = m.waits && asks;
        if (at.key.is != nobody && !is_marked(i)) {
            if (notes) note(i, at.turn, reading::window::wait, m.ttl);
            return refuse(m, left_of(i, at.key.until));
        }
        if (is_marked(i) && !at.has_set && parts_.guards_evicted_set) {
            ++seen_.evicted_refused;
            return refuse(m, left_of(i, at.key.until));
        }
        if (at.intent.is != nobody && asks) {
            auto const own = at.intent.is == client_of(m) && parts_.own_intent_lets_in;
            auto const opened = at.turn.is == reading::window::open;
            if (!own && !opened) {
                ++seen_.refused_by_intent;
                if (notes) note(i, at.turn, reading::window::wait, m.ttl);
                return refuse(m, left_of(i, at.intent.until));
            }
            ++(own ? seen_.passed_own_intent : seen_.in_turn);
        }
        if (tenures_[m.tenure].machine.fenced() && parts_.reads_count && !count(i, m, 0)) {
            m.said = verdict::refused;
            return;
        }
        if (!is_marked(i) && parts_.clears_old_set) drop_set(at);
        ++seen_.admitted;
        admit(i, token, m.ttl, !parts_.marker_outlives_all);
    }
    /// `shrinks`, broken: the key gets the ttl of this reader, and no more.
    void admit(unsigned i, unsigned token, milliseconds ttl, bool shrinks) {
        auto& at = instances_[i];
        auto const clock_now = clock_ms(i);
        auto const ours = at.key.is == static_cast<int>(token);
        auto const lasts = ours || is_marked(i) ? left_of(i, at.key.until) : 0;
        auto const until = clock_now + 1 + (ours ? std::max(lasts, ttl) : ttl);
        auto& own = at.members[token];
        own = parts_.grows_deadlines ? std::max(own, until) : until;
        at.has_set = true;
        auto const was_marked = is_marked(i);
        if (shrinks) {
            set_key(i, reading::readers, ttl);
        } else if (!was_marked || lasts <= ttl) {
            set_key(i, reading::readers, std::max(lasts, (ttl * 3 + 1) / 2));
        }
        at.set_until = std::max(at.set_until, at.key.until);
        if (was_marked) drop_dead(i);
    }

    //
    // What follows a grant
    //

    bool extend(unsigned i, message const& m, unsigned token) {
        auto& at = instances_[i];
        auto const ours = at.key.is == static_cast<int>(token);
        auto const comes_back = !parts_.extends_members_alone;
        if (m.by != access::read) {
            if (!ours && (!comes_back || at.key.is != nobody)) return false;
            auto const longer = !ours || at.key.until < clock_ms(i) + m.ttl;
            if (longer || !parts_.grows_deadlines) set_key(i, static_cast<int>(token), m.ttl);
            return true;
        }
        auto const member = is_marked(i) && is_alive_member(i, token);
        auto const back = comes_back && (is_marked(i) ? at.has_set : at.key.is == nobody);
        if (!ours && !member && !back) return false;
        if (ours) ++seen_.converted;
        if (!is_marked(i)) drop_set(at);
        admit(i, token, m.ttl, !parts_.marker_never_shrinks);
        if (ours && !parts_.downgrade_sets_marker) at.key.is = nobody;
        return true;
    }
    bool is_alive_member(unsigned i, unsigned token) const {
        auto const& at = instances_[i];
        auto const found = at.members.find(token);
        return at.has_set && found != at.members.end() && is_alive(i, found->second);
    }
    verdict raise(unsigned i, message const& m, unsigned token) {
        auto const ours = instances_[i].key.is == static_cast<int>(token);
        auto const member = m.by == access::read && is_marked(i) && is_alive_member(i, token);
        if (!ours && !member) return verdict::no;
        auto& counter = instances_[i].counter;
        // Readers share a number.
        if (m.by != access::read && counter >= m.number) return verdict::rival;
        if (parts_.raise_stores) counter = std::max(counter, m.number);
        return verdict::yes;
    }
    bool release(unsigned p, unsigned i, message const& m, unsigned token) {
        auto& at = instances_[i];
        auto const ours = at.key.is == static_cast<int>(token);
        auto const before = at.key.is;
        if (ours) {
            check_deletion(i);
            delete_key(i);
            if (m.by != access::plain && at.turn.is == reading::window::wait && parts_.opens_turn)
                at.turn = {reading::window::open, clock_ms(i) + m.readers_turn};
        }
        if (m.by == access::read) return ours || leave_set(i, token);
        if (m.by == access::write && m.withdraws && at.intent.is == static_cast<int>(p) &&
            parts_.deletes_intent) {
            ++seen_.notes_deleted;
            at.intent.is = nobody;
            // Readers that wait for the end of the note hear of it as of a change of the key.
            if (parts_.touches_key && (before == nobody || before == reading::readers)) {
                ++seen_.touched;
                written(i);
            }
        }
        return ours;
    }
    void delete_key(unsigned i) {
        instances_[i].key.is = nobody;
        written(i);
    }
    bool leave_set(unsigned i, unsigned token) {
        auto& at = instances_[i];
        auto const found = at.members.find(token);
        auto const blind = !parts_.release_looks_at_set && is_marked(i) && !at.has_set;
        if (found == at.members.end() && !blind) return false;
        auto const was_there = is_marked(i) && is_alive_member(i, token);
        auto const had_most =
            found != at.members.end() && found->second - clock_ms(i) >= most_time_left(i);
        at.members.erase(token);
        drop_dead(i);
        if (!is_marked(i)) return false;
        if (!at.members.empty() && parts_.release_leaves_others) {
            // A writer that waits asks again: the others may be dead.
            if (had_most && at.intent.is != nobody) written(i);
            return was_there;
        }
        drop_set(at);
        delete_key(i);
        return was_there;
    }

    void track(unsigned p, unsigned i, message& m) {
        auto& at = instances_[i];
        at.listeners.insert(p);
        m.tracked = true;
        if (m.left) return; // of a refusal
        m.left = at.key.is == nobody ? -2 : left_of(i, at.key.until);
    }
    void note_ghost(unsigned i, message const& m, unsigned token, bool had) {
        ++seen_.ghosts;
        auto const has = has_token(i, token) || has_member(i, token);
        if (m.op == command::release && had && !has) ++seen_.ghost_releases;
        if (m.op == command::release || !has) return;
        stays_.insert(token);
        if (m.op == command::extend) {
            ++seen_.ghost_extensions;
            if (m.by == access::read && tenures_[m.tenure].downgrading) ++seen_.ghost_conversions;
        } else {
            ++(m.by == access::read ? seen_.ghost_admissions : seen_.ghost_grants);
        }
    }

    int ran_by_ = nobody;
};

} // namespace holdfast::test

#endif
