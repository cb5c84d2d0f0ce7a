// A world with one Sentinel deployment and clients on both sides of partitions.
//
// Replication is asynchronous: a promoted replica may lack the last writes. The old primary goes on
// as a primary until it hears of the fail-over. Sentinels learn of it after times of their own, and
// may hear nothing for long. Clients are cut off from servers and from sentinels. Messages of a cut
// are lost, or arrive when it ends. Clients stop for a while. Wall clocks of servers differ.
//
// Each client has the real sentinel_directory and promotion_guard, and one lease at a time. Leases
// may have fences: a fail-over may lose the last numbers, as it may lose grants, and then only the
// hints of clients keep fences growing (fences.hpp).
//
// Properties:
//   S1      no two leases are valid at once, each by its holder's clock;
//   S2      no two leases have the same fence, and a tenure that began after another one was won
//           has the greater number;
//   live    when all is well again for the longest ttl and the confirmation time, each client has
//           a confirmed primary, and its grants and extensions count.
#ifndef HOLDFAST_TEST_SIMULATION_FAILOVERS_FAILOVERS_HPP
#define HOLDFAST_TEST_SIMULATION_FAILOVERS_FAILOVERS_HPP

#include "protocol/rules.hpp"
#include "protocol/sentinel/promotion_guard.hpp"
#include "protocol/sentinel/sentinel_directory.hpp"

#include "simulation/failovers/fences.hpp"
#include "simulation/failovers/servers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

template <class Parts>
class failover_world : failover_fences {
public:
    failover_world(std::uint64_t seed, failover_tally& seen, failover_setup const& setup,
                   std::ostream* story = nullptr)
        : failover_fences(seed, seen, setup, story) {
        auto const wait = (max_ttl_ + m).count();
        auto const warm = wait + 2 * second;
        horizon_ = warm + 4 * wait;
        done_at_ = horizon_ + 2 * wait + 14 * second;
        auto const extreme = one_in(3);
        for (unsigned c = 0; c < 3; ++c) {
            clients_.emplace_back(sentinels(), max_ttl_, setup.replicas);
        }
        for (unsigned c = 0; c < clients_.size(); ++c) {
            auto& me = clients_[c];
            me.ppm = extreme ? (c == 0 ? -max_ppm : max_ppm) : between(-max_ppm, max_ppm);
            me.ttl = max_ttl_ / (one_in(2) ? 1 : 2);
            me.until.resize(servers_.size() + sentinels_.size());
            for (unsigned i = 0; i < sentinels(); ++i)
                me.directory.members().identified(i, 100 + i);
            auto const late = c > 0 && one_in(4);
            at(late ? some(horizon_) : some(second), me, [this, c] {
                ask(c);
                act(c);
                check_later(c);
            });
        }
        for (auto n = 1 + below(3); n > 0; --n) at(warm + some(3 * wait), [this] { disturb(); });
    }

    std::string run() {
        at(done_at_, [this] { finish(); });
        while (!done_ && happens()) {
        }
        return violation();
    }

private:
    struct client : process {
        client(unsigned sentinels, duration longest, unsigned wanted)
            : directory(sentinels, m)
            , guard(longest, m)
            , replicas(wanted) {}

        std::int64_t ppm = 0;
        duration ttl{};
        typename Parts::directory directory;
        typename Parts::guard guard;
        typename Parts::replica_guard replicas;
        unsigned link = 0;            ///< counts the links to primaries
        named_primary knows{};        ///< the last primary that answered
        time_point known_since{};     ///< its first answer
        std::uint64_t history = 0;    ///< its replication id in that
        bool met = false;             ///< the primary has been checked on this link
        std::vector<true_time> until; ///< cuts, from servers and then from sentinels
        bool cut_loses = true;
        true_time misses_news = 0; ///< until then it loses each sentinel that has news

        std::optional<request> trying; ///< to acquire or to extend
        std::optional<unsigned> held;  ///< token
        time_point deadline{};
        unsigned held_on = 0;
    };

    unsigned sentinels() const { return static_cast<unsigned>(sentinels_.size()); }
    time_point local(unsigned c) const {
        return time_point(std::chrono::hours(1) + duration(stretched(now(), clients_[c].ppm)));
    }
    bool is_valid(unsigned c) const { return clients_[c].held && local(c) < clients_[c].deadline; }

    //
    // Faults
    //

    /// A fail-over, with stuck sentinels and cuts around it.
    void disturb() {
        auto const longest = 2 * (max_ttl_ + m).count();
        auto const span = [&] { return some(one_in(2) ? longest : 3 * second); };
        if (one_in(2)) {
            auto& s = sentinels_[below(sentinels())];
            s.stuck_until = std::min(now() + span(), horizon_);
        }
        auto const old = elected();
        for (unsigned c = 0; c < clients_.size(); ++c) {
            if (one_in(2)) continue;
            // This client stays with the old primary.
            ++seen_.cuts;
            auto const end = std::min(now() + span(), horizon_);
            clients_[c].cut_loses = one_in(2);
            for (unsigned n = 0; n < clients_[c].until.size(); ++n) {
                auto const stuck =
                    n >= servers_.size() && sentinels_[n - servers_.size()].stuck_until > now();
                if (n == old || stuck || one_in(8)) continue;
                clients_[c].until[n] = end;
            }
        }
        if (one_in(3)) {
            // Or a client is cut off from the old primary.
            clients_[below(clients_.size())].until[old] = std::min(now() + span(), horizon_);
        }
        if (one_in(4)) pause(clients_[below(clients_.size())], some(3 * second));
        auto const away = std::min(now() + span(), horizon_) - now();
        auto const when = some(second);
        auto const back = setup_.harsh && disturb_more(when, longest);
        at(when, [this, away = back ? 0 : away] { fail_over(away); });
    }

    /// Faults at the edges of the times that the guards wait for. True if the old primary soon
    /// hears of its fail-over, because it may be promoted again.
    bool disturb_more(true_time when, true_time longest) {
        for (auto& c : clients_) {
            if (!one_in(3)) continue;
            // Its last confirmation of the old primary comes just before the news.
            std::fill(c.until.begin(), c.until.end(), 0);
            c.misses_news = std::min(now() + longest, horizon_);
        }
        // The primary answers late: at any time, or when the quarantine of grants ends.
        at(when + some(longest), [this] { freeze(); });
        auto const end = when + longest / 2 + between(-max_ttl_.count() / 2, second);
        if (one_in(2)) at(end, [this] { freeze(); });
        if (!one_in(3)) return false;
        at(when + second / 2 + some(second), [this] { fail_over(0); });
        return true;
    }

    void freeze() {
        ++seen_.freezes;
        auto& s = servers_[elected()];
        s.frozen_until = std::max(s.frozen_until, now() + some(max_ttl_ / 2));
    }

    bool is_cut(unsigned c, unsigned node) const { return now() < clients_[c].until[node]; }

    /// Carries a message between a client and a node. One of a cut is lost, or comes after it.
    template <class Act>
    void carry(unsigned c, unsigned node, Act act) {
        auto wait = true_time(0);
        if (is_cut(c, node)) {
            if (clients_[c].cut_loses) return;
            ++seen_.late_commands;
            wait = clients_[c].until[node] - now();
        }
        at(wait + travel(), [this, c, node, act = std::move(act)] {
            if (is_cut(c, node)) return carry(c, node, act);
            if (node < servers_.size() && now() < servers_[node].frozen_until)
                return at(servers_[node].frozen_until - now(), act);
            act();
        });
    }
    unsigned node_of_sentinel(unsigned i) const {
        return static_cast<unsigned>(servers_.size()) + i;
    }

    //
    // Sentinels and the primary
    //

    void ask(unsigned c) {
        auto& me = clients_[c];
        if (local(c) >= me.directory.next_round() || (setup_.harsh && one_in(3))) {
            auto const begun = local(c);
            me.directory.begin_round(begun);
            for (unsigned i = 0; i < sentinels(); ++i) {
                carry(c, node_of_sentinel(i), [this, c, i, begun] {
                    auto const says = sentinels_[i].says;
                    carry(c, node_of_sentinel(i), [this, c, i, begun, says] {
                        in(clients_[c], [this, c, i, begun, says] {
                            apply(c, clients_[c].directory.answered(i, says, begun, local(c)));
                        });
                    });
                });
            }
        }
        at(second / 10, me, [this, c] { ask(c); });
    }

    void announce(unsigned from) override {
        for (unsigned c = 0; c < clients_.size(); ++c) {
            auto const node = node_of_sentinel(from);
            auto& until = clients_[c].until[node];
            until = std::max(until, clients_[c].misses_news);
            if (is_cut(c, node)) continue;
            carry(c, node, [this, c, to = sentinels_[from].says.server] {
                in(clients_[c],
                   [this, c, to] { apply(c, clients_[c].directory.switched(to, local(c))); });
            });
        }
    }

    void leave(unsigned c, protocol::leave_reason reason) {
        apply(c, clients_[c].directory.leave(reason, local(c)));
    }

    void apply(unsigned c, protocol::directory_action action) {
        using protocol::directory_action;
        auto& me = clients_[c];
        if (action == directory_action::none) return;
        ++me.link;
        me.met = false;
        me.trying.reset(); // its outcome is unknown
        if (action == directory_action::leave) {
            ++seen_.leaves;
            write_story("client ", c, " leaves its primary");
            return;
        }
        ++seen_.moves;
        auto const primary = *me.directory.named();
        write_story("client ", c, " moves to ", primary.server, " in epoch ", primary.epoch);
        me.guard.named(primary, local(c));
        check(c);
    }

    /// Asks the primary for its role and its replicas.
    void check(unsigned c) {
        auto& me = clients_[c];
        if (!me.directory.named()) return;
        auto const i = me.directory.named()->server;
        carry(c, i, [this, c, i, link = me.link] {
            carry(c, i,
                  [this, c, link, primary = servers_[i].is_primary(), history = servers_[i].history,
                   list = list_of(i)] {
                      in(clients_[c], [=, this] { on_checked(c, link, primary, history, list); });
                  });
        });
    }

    void on_checked(unsigned c, unsigned link, bool primary, std::uint64_t history,
                    protocol::replica_list const& list) {
        auto& me = clients_[c];
        if (me.link != link) return;
        if (!primary || meets_other_history(c, history))
            return leave(c, protocol::leave_reason::not_primary);
        if (me.met) {
            me.replicas.listed(list);
        } else {
            me.replicas.connected(list);
        }
        me.met = true;
    }

    /// True if the primary was demoted and promoted again before the client heard of it.
    bool meets_other_history(unsigned c, std::uint64_t history) {
        auto& me = clients_[c];
        auto const primary = *me.directory.named();
        if (me.knows != primary) {
            me.knows = primary;
            me.known_since = local(c);
            me.history = history;
        }
        if (!setup_.checks_history || history == me.history) return false;
        ++seen_.other_histories;
        return true;
    }

    /// As in restart_guard, a server that the client first meets may have forgotten grants.
    bool counts_grants(unsigned c) const {
        auto const& me = clients_[c];
        if (setup_.checks_history && me.knows == me.directory.named() &&
            local(c) < me.known_since + max_ttl_)
            return false;
        return me.guard.counts_grants(local(c), me.directory.confirmed_until());
    }

    void check_later(unsigned c) {
        at(second, clients_[c], [this, c] {
            check(c);
            check_later(c);
        });
    }

    //
    // The lease of a client
    //

    void act(unsigned c) {
        auto& me = clients_[c];
        auto const pause = 1 + some(one_in(2) ? second / 20 : me.ttl.count() / 3);
        at(pause, me, [this, c] { act(c); });
        if (me.trying || !me.directory.named()) return;
        if (me.held && !is_valid(c)) me.held.reset(); // its holder was told
        if (me.held) {
            if (one_in(8)) return release(c);
            return submit(c, command::extend, *me.held);
        }
        // Mostly only when it can count.
        auto const counts = counts_grants(c) && me.replicas.votes();
        if (counts || (setup_.asks_early && one_in(setup_.harsh ? 2 : 4)))
            submit(c, command::acquire, ++tokens_);
    }

    void submit(unsigned c, command op, unsigned token) {
        auto& me = clients_[c];
        auto const i = me.directory.named()->server;
        request r;
        r.client = c;
        r.link = me.link;
        r.op = op;
        r.token = token;
        r.ttl = me.ttl;
        r.sent = local(c);
        if (op == command::acquire) begin_tenure(r);
        if (setup_.waits() && me.replicas.votes()) r.replicas = me.replicas.needed();
        me.trying = r;
        carry(c, i, [this, i, r] { execute(i, r); });
        at(real(me.ttl / 2, me.ppm), me, [this, c, token, sent = r.sent] {
            auto& late = clients_[c];
            if (!late.trying || late.trying->token != token || late.trying->sent != sent) return;
            give_back(c, *late.trying);
            late.trying.reset();
            // A write that misses a replica is no reason to suspect the primary.
            if (!setup_.waits()) leave(c, protocol::leave_reason::suspect);
        });
    }

    void release(unsigned c) {
        auto& me = clients_[c];
        ++seen_.released;
        request r;
        r.client = c;
        r.op = command::release;
        r.token = *std::exchange(me.held, std::nullopt);
        carry(c, me.directory.named()->server,
              [this, r, i = me.directory.named()->server] { execute(i, r); });
    }

    void give_back(unsigned c, request r) {
        if (r.op != command::acquire || !clients_[c].directory.named()) return;
        r.op = command::release;
        auto const i = clients_[c].directory.named()->server;
        carry(c, i, [this, i, r] { execute(i, r); });
    }

    void answer(request r) override {
        if (r.op == command::release) return;
        auto const c = r.client;
        if (!clients_[c].directory.named() || clients_[c].link != r.link) return;
        carry(c, clients_[c].directory.named()->server,
              [this, c, r] { in(clients_[c], [this, c, r] { on_answer(c, r); }); });
    }

    void on_answer(unsigned c, request const& r) {
        auto& me = clients_[c];
        auto const awaited = me.link == r.link && me.trying && me.trying->token == r.token &&
                             me.trying->sent == r.sent;
        if (!awaited) return;
        me.trying.reset();
        if (r.said == verdict::refused) {
            ++seen_.read_only;
            return leave(c, protocol::leave_reason::read_only);
        }
        if (meets_other_history(c, r.history)) {
            give_back(c, r);
            return leave(c, protocol::leave_reason::not_primary);
        }
        if (r.said == verdict::no) {
            ++seen_.contended;
            return;
        }
        auto const covered =
            !setup_.waits() || (r.replicas != 0 && me.replicas.waited(r.told, true));
        if (!covered) {
            ++seen_.missed_waits;
            return give_back(c, r);
        }
        auto const until = me.directory.confirmed_until();
        auto const deadline = protocol::redlock_rules::deadline(r.sent, local(c), r.ttl);
        if (r.op == command::extend) {
            if (!me.guard.counts_extensions(local(c), until)) {
                ++seen_.uncounted_extensions;
                return;
            }
            if (!is_valid(c) || me.held != r.token) return;
            ++seen_.extended;
            if (me.directory.named()->server != me.held_on) ++seen_.kept_over_failover;
            me.held_on = me.directory.named()->server;
            me.deadline = std::max(me.deadline, deadline);
            return check_overlap(c);
        }
        if (!counts_grants(c) || local(c) >= deadline) {
            ++seen_.uncounted_grants;
            return give_back(c, r);
        }
        ++seen_.won;
        me.held_on = me.directory.named()->server;
        if (me.held_on != elected()) ++seen_.won_at_old;
        me.held = r.token;
        me.deadline = deadline;
        write_story("client ", c, " wins ", r.token);
        issue(r);
        check_overlap(c);
    }

    void check_overlap(unsigned c) {
        if (!setup_.one_holder) return;
        for (unsigned other = 0; other < clients_.size(); ++other) {
            if (other != c && is_valid(c) && is_valid(other))
                fail("S1", "clients " + std::to_string(c) + " and " + std::to_string(other) +
                               " hold the lock at once");
        }
    }

    void finish() {
        done_ = true;
        for (unsigned c = 0; c < clients_.size(); ++c) {
            auto const& me = clients_[c];
            auto const until = me.directory.confirmed_until();
            if (!me.guard.counts_grants(local(c), until) ||
                !me.guard.counts_extensions(local(c), until))
                fail("live", "client " + std::to_string(c) + " has no primary that counts");
            if (me.directory.named() && me.directory.named()->server != elected())
                fail("live", "client " + std::to_string(c) + " uses an old primary");
        }
    }

    std::deque<client> clients_;
    unsigned tokens_ = 0;
    true_time horizon_ = 0, done_at_ = 0;
    bool done_ = false;
};

} // namespace holdfast::test

#endif
