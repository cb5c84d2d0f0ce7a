// The instances of a simulation of sets, with the scripts of redis/wire/kinds/lock_scripts.hpp.
//
// A command of a lock on one key is the same with one key.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_SERVERS_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_SERVERS_HPP

#include "simulation/sets/audit.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace holdfast::test {

class set_servers : protected set_audit {
protected:
    using set_audit::set_audit;
    ~set_servers() = default;

    bool execute(unsigned p, unsigned i, message& m, bool ghost) override {
        if (!m.votes) return true;
        for (auto const k : tenures_[m.tenure].keys) expire_key(i, k);
        auto changed = false;
        switch (m.adopts ? command::extend : m.op) {
        case command::acquire:
        case command::contend:
        case command::heal:
            changed = take(p, i, m);
            if (m.op == command::contend && !ghost) read(p, i, m);
            if (ghost && changed) ++seen_.ghost_grants;
            if (ghost && changed && !m.prior.empty()) ++seen_.ghost_conversions;
            break;
        case command::extend:
            changed = extend(i, m);
            if (ghost && changed) ++seen_.ghost_extensions;
            break;
        case command::raise:
            raise(i, m);
            break;
        case command::release:
            if (release(p, i, m) && ghost) ++seen_.ghost_releases;
            break;
        case command::track:
            if (!ghost) read(p, i, m);
            m.said = verdict::yes;
            break;
        case command::inspect:
            m.said = verdict::yes;
            break;
        case command::survey:
        case command::revoke:
        case command::scan:
            break;
        }
        if (ghost) ++seen_.ghosts;
        if (ghost && changed) stays_.insert(token(m.tenure));
        return true;
    }

    //
    // Keys
    //

    void expire_key(unsigned i, unsigned k) {
        auto& has = instances_[i].keys[k];
        if (!has.is_expired(now())) return;
        ++seen_.expiries;
        has.holder = nobody;
        written(i, k, nobody);
    }
    /// The client that changes a key gets no push, and its registration ends too.
    void written(unsigned i, unsigned k, int by) {
        auto& at = instances_[i];
        ++at.versions[k];
        for (auto const p : std::exchange(at.listeners.of[k], {})) {
            if (static_cast<int>(p) == by) continue;
            message m;
            m.pushed = true;
            m.votes = false;
            m.key = k;
            answer(p, i, std::move(m));
        }
        if (at.keys[k].holder < 0) return;
        auto const late = 34'000'000 + some(68'000'000);
        at_leisure(at.keys[k].expires - now() + late,
                   [this, i, k, version = at.versions[k]] { on_expiry(i, k, version); });
    }
    void on_expiry(unsigned i, unsigned k, std::uint64_t version) {
        auto const& at = instances_[i];
        if (at.versions[k] != version) return;
        if (now() >= at.frozen_until) return expire_key(i, k);
        at_leisure(at.frozen_until - now(), [this, i, k, version] { on_expiry(i, k, version); });
    }
    void remove(unsigned i, unsigned k) {
        auto& has = instances_[i].keys[k];
        auto const of = std::exchange(has.holder, nobody);
        written(i, k, nobody);
        if (of >= 0) keys_changed(tenure_of(of));
    }

    void expire_early(unsigned i, unsigned k, unsigned t) {
        if (!instances_[i].keys[k].is_of(t)) return;
        ++seen_.early_expiries;
        write_story("key ", names({k}), " of ", t, " expires at ", i);
        remove(i, k);
    }

private:
    /// Returns whether a key was changed. `m.said` is the answer.
    bool take(unsigned p, unsigned i, message& m) {
        auto const& its = tenures_[m.tenure];
        auto& at = instances_[i];
        std::vector<unsigned> free, ours, converted;
        for (std::size_t n = 0; n < its.keys.size(); ++n) {
            auto const k = its.keys[n];
            auto const holder = at.keys[k].holder;
            if (holder == nobody) {
                free.push_back(k);
            } else if (at.keys[k].is_of(token(m.tenure))) {
                if (!its.set) return m.said = verdict::no, false; // SET NX
                ours.push_back(k);
            } else if (n < m.prior.size() && (m.prior[n] == holder || !parts_.compares_prior)) {
                converted.push_back(k);
            } else if (n < m.prior.size() && !parts_.doubts_prior) {
                continue; // and leaves it to the other
            } else if (parts_.grants_all_or_none) {
                if (!parts_.takes_all_or_none) set_keys(p, i, m, free);
                m.said = verdict::no;
                m.obstacle = static_cast<unsigned>(n + 1);
                return false;
            }
        }
        if (its.machine.fenced() && !count(i, m)) return m.said = verdict::refused, false;
        seen_.overwritten += converted.size();
        for (auto const k : converted) {
            auto const of = static_cast<unsigned>(at.keys[k].holder);
            write_story("instance ", i, " replaces ", of, " by ", m.tenure);
            free.push_back(k);
        }
        set_keys(p, i, m, free);
        for (auto const k : ours) lengthen(i, k, m);
        m.said = verdict::yes;
        return true;
    }
    void set_keys(unsigned p, unsigned i, message const& m, std::vector<unsigned> const& those) {
        auto& at = instances_[i];
        for (auto const k : those) {
            auto& has = at.keys[k];
            auto const before = std::exchange(has.holder, static_cast<int>(token(m.tenure)));
            has.expires = now() + real(m.ttl, at.ppm);
            written(i, k, static_cast<int>(p));
            if (before >= 0) keys_changed(tenure_of(before));
            will_expire(i, k, token(m.tenure));
        }
        keys_changed(tenure_of(static_cast<int>(token(m.tenure))));
    }
    void will_expire(unsigned i, unsigned k, unsigned t) {
        if (percent(expiry_) && now() < calm_from_)
            at(some(delay_ * 6), [this, i, k, t] { expire_early(i, k, t); });
    }
    void lengthen(unsigned i, unsigned k, message const& m) {
        auto& has = instances_[i].keys[k];
        has.expires = std::max(has.expires, now() + real(m.ttl, instances_[i].ppm));
        written(i, k, static_cast<int>(tenures_[m.tenure].process));
    }

    bool count(unsigned i, message& m) {
        auto& at = instances_[i];
        auto const& keys = tenures_[m.tenure].keys;
        std::uint64_t greatest = 0;
        for (auto const k : keys) greatest = std::max(greatest, at.keys[k].counter);
        auto const seconds = static_cast<double>(now()) * 1e-9;
        auto const next = next_number(greatest, m.number, seconds);
        if (next.how == numbering::exhausted) return false;
        for (auto const k : keys) {
            at.keys[k].counter = parts_.counts_for_the_set
                                     ? next.number
                                     : next_number(at.keys[k].counter, m.number, seconds).number;
        }
        m.number = next.number;
        return true;
    }

    /// Whether the instance has the keys of the tenure. `all`: each of them.
    bool is_owner(unsigned i, unsigned t, bool all) const {
        auto const own = [&](unsigned k) { return instances_[i].keys[k].is_of(token(t)); };
        auto const& keys = tenures_[t].keys;
        return all ? std::all_of(keys.begin(), keys.end(), own)
                   : std::any_of(keys.begin(), keys.end(), own);
    }
    bool extend(unsigned i, message& m) {
        m.said = verdict::no;
        if (!is_owner(i, m.tenure, parts_.extends_all_or_none)) return false;
        for (auto const k : tenures_[m.tenure].keys)
            if (instances_[i].keys[k].is_of(token(m.tenure))) lengthen(i, k, m);
        m.said = verdict::yes;
        return true;
    }
    void raise(unsigned i, message& m) {
        auto& at = instances_[i];
        auto const& keys = tenures_[m.tenure].keys;
        auto const ours = is_owner(i, m.tenure, true);
        m.said = ours ? verdict::yes : verdict::no;
        if (!ours || !parts_.raise_stores) return;
        for (auto const k : keys) {
            auto& counter = at.keys[k].counter;
            if (counter >= m.number) m.said = verdict::rival;
            counter = std::max(counter, m.number);
        }
    }
    bool release(unsigned p, unsigned i, message& m) {
        m.said = verdict::yes;
        auto changed = false;
        for (auto const k : tenures_[m.tenure].keys) {
            auto& has = instances_[i].keys[k];
            auto const ours = has.is_of(token(m.tenure));
            if (!ours) m.said = verdict::no;
            if (!ours && (parts_.releases_own || has.holder == nobody)) continue;
            check_deletion(has);
            has.holder = nobody;
            changed = true;
            written(i, k, static_cast<int>(p));
        }
        keys_changed(tenure_of(static_cast<int>(token(m.tenure))));
        return changed;
    }
    void read(unsigned p, unsigned i, message& m) {
        auto const k = tenures_[m.tenure].keys[m.watched];
        auto& at = instances_[i];
        at.listeners.of[k].insert(p);
        m.tracked = true;
        m.pttl = at.keys[k].holder == nobody ? -2 : (at.keys[k].expires - now()) / 1'000'000;
    }
};

} // namespace holdfast::test

#endif
