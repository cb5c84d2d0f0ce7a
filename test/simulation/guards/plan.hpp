// The plan of the faults of a schedule, for the simulation of the guards.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_PLAN_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_PLAN_HPP

#include "protocol/rules.hpp"
#include "protocol/server/standstill.hpp"

#include "simulation/guards/servers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>

namespace holdfast::test {

class guarded_plan : protected guarded_servers {
protected:
    guarded_plan(std::uint64_t seed, guards_tally& seen, guards_setup const& setup,
                 std::ostream* story)
        : guarded_servers(seed, seen, setup, story) {
        plan();
    }
    ~guarded_plan() = default;

    virtual void await_quiet() = 0;

private:
    void plan() {
        auto const when = [this] { return warm_ + some(duration(horizon_ - warm_)); };
        if (setup_.long_rounds) {
            // Faults at the places where a violation is possible: client 0 loses connections,
            // messages of client 1 to instance 1 are late, and instance 0 forgets its keys.
            auto const soon = [this] { return warm_ + some(max_ttl_ / 4); };
            for (auto n = 1 + below(3); n > 0; --n)
                plan_break(soon(), 0, one_in(2) ? 0 : 1, max_ttl_.count() / 10);
            plan_stall(soon(), 1, 1, max_ttl_.count() / 5 + some(max_ttl_ / 2));
            plan_break(soon() + max_ttl_.count() / 8, 0, 1, max_ttl_.count());
            at(soon(), [this] { restart(0, 1, persistence::none); });
        } else if (setup_.settings_change == guards_setup::unseen) {
            // One client is away while the instances run with persistence off.
            auto const t = when();
            for (unsigned i = 0; i < instances_.size(); ++i) {
                instances_[i].keeps = persistence::always;
                auto const forgets = t + some(max_ttl_ / 16);
                plan_break(t, 0, i, max_ttl_.count() / 2);
                at(forgets, [this, i] { restart(i, 1, persistence::none); });
                at(forgets + some(max_ttl_ / 4), [this, i] { restart(i, 1, persistence::always); });
            }
        } else if (setup_.lone_standstill) {
            plan_standstill(when(), noticeable(max_ttl_));
        } else if (setup_.all_but_one) {
            auto const by = noticeable(max_ttl_ * 2);
            auto const t = when();
            auto const spared = some_instance();
            for (unsigned i = 0; i < instances_.size(); ++i) {
                if (i != spared) at(t, [this, i, by] { jump(i, by, true); });
            }
        } else if (setup_.away) {
            plan_absence(when());
        } else if (setup_.single) {
            auto const i = some_instance();
            auto const by = noticeable(max_ttl_ * 2);
            at(when(), [this, i, by] { jump(i, by, true); });
        } else if (setup_.slow) {
            for (auto n = below(6); n > 0; --n) plan_pause(when());
            for (auto n = below(4); n > 0; --n) plan_break(when());
        } else {
            if (setup_.restarts) {
                for (auto n = 1 + below(3); n > 0; --n) plan_restarts(when());
            }
            if (setup_.jumps) {
                for (auto n = 1 + below(3); n > 0; --n) plan_jumps(when());
            }
            if (setup_.standstills) {
                for (auto n = 1 + below(3); n > 0; --n)
                    plan_standstill(when(), noticeable(max_ttl_));
            }
            if (setup_.replacements) {
                for (auto n = 1 + below(3); n > 0; --n) plan_replacements(when());
            }
            for (auto n = one_in(3) ? 0 : below(2 + 2 * instances_.size()); n > 0; --n) {
                switch (below(4)) {
                case 0:
                    plan_pause(when());
                    break;
                case 1:
                    plan_stall(when());
                    break;
                case 2:
                    plan_break(when());
                    break;
                default:
                    plan_freeze(when());
                    break;
                }
            }
        }
        // At the horizon the simulation begins to wait until all is quiet.
        at(horizon_, [this] { await_quiet(); });
    }

    unsigned some_client() { return static_cast<unsigned>(below(clients_.size())); }
    unsigned some_instance() { return static_cast<unsigned>(below(instances_.size())); }
    true_time some_span() { return some(one_in(3) ? max_ttl_ : max_ttl_ / 8) + 1; }

    void lasts_until(true_time t) { quiet_at_ = std::max(quiet_at_, t); }

    void plan_pause(true_time when) {
        auto const c = some_client();
        auto const span = some_span();
        lasts_until(when + span);
        at(when, [this, c, span] { pause(clients_[c], span); });
    }

    void plan_break(true_time when) {
        plan_break(when, some_client(), some_instance(), some_span());
    }
    void plan_break(true_time when, unsigned c, unsigned i, true_time span) {
        lasts_until(when + span);
        at(when, [this, c, i, span] { break_connection(c, i, span); });
    }

    /// The network loses every packet for a while. Messages arrive late, by retransmission.
    void plan_stall(true_time when) {
        plan_stall(when, some_client(), some_instance(), some_span());
    }
    void plan_stall(true_time when, unsigned c, unsigned i, true_time span) {
        lasts_until(when + span);
        at(when, [this, c, i, span] {
            auto& conn = clients_[c].connections[i];
            conn.stalled_until = std::max(conn.stalled_until, now() + span);
        });
    }

    void plan_freeze(true_time when) {
        auto const i = some_instance();
        auto const span = some_span();
        lasts_until(when + span);
        at(when, [this, i, span] { freeze(i, span); });
    }

    /// Restarts any number of instances, together or one after the other.
    void plan_restarts(true_time when) {
        auto const count = one_in(4) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        if (count == instances_.size()) ++seen_.all_restarted;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            auto const down = one_in(2) ? some(delay_ * 4) : some_span() / 4;
            auto const t = when + some(apart);
            if (setup_.aged && i == 0) continue;
            lasts_until(t + down);
            at(t, [this, i, down] { restart(i, down, std::nullopt); });
        }
    }

    /// A span that is longer than drift and delays can explain.
    duration noticeable(duration most) {
        return 4 * check_period / 100 + duration(64 * delay_.count()) + duration(some(most));
    }

    void plan_standstill(true_time when, duration span) {
        auto const c = some_client();
        lasts_until(when + span.count());
        at(when, [this, c, span = span.count()] {
            auto& me = clients_[c];
            if (!me.alive || (!me.stops.empty() && now() <= me.stops.back().second)) return;
            ++seen_.standstills;
            me.stops.emplace_back(now(), now() + span);
            pause(me, span);
            me.unnoticed += duration(stretched(span, me.ppm));
            auto const trip = 32 * delay_.count() + 4;
            if (!setup_.lone_standstill || trip >= check_period.count()) return;
            at(span + check_period.count() + check_period.count() / 100 + trip, [this, c] {
                if (clients_[c].unnoticed > duration::zero())
                    fail("ours", "a standstill was not noticed");
                for (unsigned i = 0; i < instances_.size(); ++i) {
                    if (instances_.size() > 1 && doubted(c, i)) {
                        fail("ours", "an instance is in doubt after a standstill of ours");
                    }
                }
            });
        });
    }

    /// A client is away for so long that drift may explain the difference between the jumps.
    void plan_absence(true_time when) {
        auto const c = some_client();
        auto const spared = some_instance();
        auto const least = max_ttl_ + protocol::standstill::longest_interval;
        auto const span = least.count() + some(std::chrono::minutes(10));
        auto by = noticeable(max_ttl_ * 2) + protocol::redlock_rules::drift(max_ttl_);
        for (unsigned i = 0; i < instances_.size(); ++i) {
            // The instance without a jump comes back last.
            plan_break(when, c, i, i == spared ? 2 * span : span);
            if (i == spared) continue;
            at(when + 1 + some(duration(span)), [this, i, by] { jump(i, by); });
            by += noticeable(std::chrono::milliseconds(1));
        }
    }

    void plan_jumps(true_time when) {
        auto const count = one_in(3) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            std::array<duration, 5> const sizes{std::chrono::milliseconds(20), max_ttl_ / 10,
                                                max_ttl_, max_ttl_ * 2, std::chrono::seconds(120)};
            duration const size(1 + some(sizes[below(sizes.size())]));
            auto const t = when + some(apart);
            auto const back = one_in(5);
            lasts_until(t);
            at(t, [this, i, size, back] { jump(i, back ? -size : size); });
            if (!one_in(4)) continue;
            auto const later = t + some(one_in(2) ? check_period : max_ttl_);
            lasts_until(later);
            at(later, [this, i, size, back] { jump(i, back ? size : -size); });
        }
    }

    /// Replaces the data of any number of instances, together or one after the other.
    void plan_replacements(true_time when) {
        auto const count = one_in(4) ? instances_.size() : 1 + below(instances_.size());
        auto const first = some_instance();
        auto const apart = one_in(2) ? max_ttl_ / 100 : max_ttl_ / 4;
        for (unsigned n = 0; n < count; ++n) {
            auto const i = static_cast<unsigned>((first + n) % instances_.size());
            auto const t = when + some(apart);
            auto const synced = t + some(delay_ * 8);
            auto const promoted = synced + (one_in(2) ? some(delay_ * 8) : some_span() / 4);
            lasts_until(promoted);
            if (one_in(2)) {
                at(t, [this, i] { flush(i); });
                continue;
            }
            at(t, [this, i] { instances_[i].replica = true; });
            at(synced, [this, i] { replace(i); });
            at(promoted, [this, i] { promote(i); });
        }
    }
};

} // namespace holdfast::test

#endif
