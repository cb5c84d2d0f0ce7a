// The servers of a campaign, their faults and repairs, and the run of the clients beside them.
#ifndef HOLDFAST_TEST_CAMPAIGN_CAMPAIGN_RUN_HPP
#define HOLDFAST_TEST_CAMPAIGN_CAMPAIGN_RUN_HPP

#include "campaign/client_group.hpp"
#include "campaign/judge.hpp"
#include "campaign/lines.hpp"
#include "campaign/picture.hpp"
#include "campaign/results.hpp"
#include "support/cluster_group.hpp"
#include "support/cluster_repair.hpp"
#include "support/redis_cli.hpp"
#include "support/sentinel_group.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::campaign {

using namespace holdfast::test;

/// A campaign that carries out no fault for so long has proved nothing in that time.
inline constexpr std::chrono::seconds longest_calm{60};
/// N3: two may hold a lock for about a second after SWAPDB, and the check that finds it out needs
/// an answer.
inline constexpr milliseconds unannounced = 1'000ms + instance_timeout;
/// For a Cluster to get over a fault. If it does not, a repair comes before the next one.
inline constexpr std::chrono::seconds recovery_time{20};

struct fault {
    std::string name;
    std::function<void()> happens;
};

class campaign_run {
public:
    explicit campaign_run(unsigned seed)
        : random_(seed) {}

    /// So many servers, each an instance. Two of their faults may come one soon after the other.
    void add_servers(std::size_t count) {
        server_options options;
        options.shiftable_clock = true;
        for (std::size_t i = 0; i < count; ++i)
            lines_.add(*singles_.emplace_back(std::make_unique<server>(options)));
        faults_.push_back({"server: freeze and thaw", [this] { freeze(any_server()); }});
        faults_.push_back({"server: kill and start empty", [this] {
                               auto& s = any_server();
                               s.kill();
                               pause();
                               s.restart();
                           }});
        faults_.push_back({"server: restart in a moment", [this] {
                               auto& s = any_server();
                               s.kill();
                               s.restart();
                           }});
        command_fault("server: connections are killed", {"CLIENT", "KILL", "TYPE", "normal"});
        command_fault("server: clients are paused", {"CLIENT", "PAUSE", "900", "ALL"});
        command_fault("server: all keys are deleted", {"FLUSHALL"});
        command_fault("server: databases are swapped", {"SWAPDB", "0", "1"}, unannounced);
        faults_.push_back({"server: the clock jumps", [this] {
                               windows_.push_back(window_of(unannounced));
                               any_server().shift_clock(
                                   milliseconds(draw(2) == 0 ? 5'000 : -5'000));
                           }});
        add_lines();
        setting_fault("server: no memory is left", "maxmemory", "1", "0");
        setting_fault("server: no further clients", "maxclients", "1", "10000");
        setting_fault("server: no key can be tracked", "tracking-table-max-keys", "1", "1000000");
    }

    void add_sentinel() {
        sentinel_ = std::make_unique<sentinel_group>();
        instances_.push_back(sentinel_->url());
        auto& g = *sentinel_;
        add("sentinel: kill of the primary", [&g] {
            auto const before = g.majority();
            auto const victim = g.primary();
            g.member(victim).kill();
            if (before) g.wait_for_switch(*before);
            g.member(victim).restart();
            g.wait_until_settled();
        });
        add("sentinel: the primary freezes and is replaced", [this, &g] {
            auto const before = g.majority();
            auto const victim = g.primary();
            g.member(victim).freeze();
            if (before) g.wait_for_switch(*before);
            pause();
            g.member(victim).thaw();
            g.wait_until_settled();
        });
        add("sentinel: the primary freezes for a moment",
            [this, &g] { freeze(g.member(g.primary())); });
        add("sentinel: planned fail-over", [&g] {
            auto const before = g.majority();
            g.begin_failover();
            if (before) g.wait_for_switch(*before);
            g.wait_until_settled();
        });
        add("sentinel: a sentinel freezes",
            [this, &g] { freeze(g.sentinel(draw(g.sentinels()))); });
        add("sentinel: the primary restarts empty", [&g] {
            g.restart_empty(g.primary());
            g.wait_until_settled();
        });
        add("sentinel: replicas are cut off, and the primary is killed", [this, &g] {
            auto const before = g.majority();
            auto const victim = g.primary();
            for (std::size_t i = 0; i < g.members(); ++i)
                if (i != victim) g.cut_replication(i);
            pause();
            g.member(victim).kill();
            if (before) g.wait_for_switch(*before);
            g.member(victim).restart();
            for (std::size_t i = 0; i < g.members(); ++i)
                if (i != g.primary()) g.restore_replication(i);
            g.wait_until_settled();
        });
    }

    void add_cluster() {
        cluster_ = std::make_unique<cluster_group>();
        instances_.push_back(cluster_->url());
        auto& c = *cluster_;
        add("cluster: kill of a primary", [this, &c] {
            auto const slot = any_slot();
            auto const victim = c.owner(slot);
            c.node(victim).kill();
            c.wait_for_other_owner(slot, victim, recovery_time);
            c.node(victim).restart();
            c.wait_until_agreed(recovery_time);
        });
        add("cluster: a primary freezes and is replaced", [this, &c] {
            auto const slot = any_slot();
            auto const victim = c.owner(slot);
            c.node(victim).freeze();
            c.wait_for_other_owner(slot, victim, recovery_time);
            c.node(victim).thaw();
            c.wait_until_agreed(recovery_time);
        });
        add("cluster: a primary freezes for a moment",
            [this, &c] { freeze(c.node(c.owner(any_slot()))); });
        for (auto const how : {cluster_group::takeover::planned, cluster_group::takeover::force}) {
            add(how == cluster_group::takeover::planned ? "cluster: planned fail-over"
                                                        : "cluster: forced fail-over",
                [this, &c, how] {
                    auto const slot = any_slot();
                    auto const before = c.owner(slot);
                    auto const replicas = c.replicas_of(before);
                    if (replicas.empty()) throw std::runtime_error("the primary has no replica");
                    fail_over(slot, replicas.front(), how);
                    c.wait_until_agreed(recovery_time);
                });
        }
        add("cluster: slots migrate", [this, &c] {
            auto const [from, to] = ends_of_migration();
            slot_migration moving(c, migrating, from, to);
            moving.begin();
            while (move_keys(moving, from, to, 1) > 0) pause(100);
            pause();
            finish(moving, from, to);
            migrate_back(to, from);
        });
        add("cluster: the target of a migration freezes", [this, &c] {
            auto const [from, to] = ends_of_migration();
            slot_migration moving(c, migrating, from, to);
            moving.begin();
            move_keys(moving, from, to, 1);
            c.node(to).freeze();
            pause(1'000);
            c.node(to).thaw();
            finish(moving, from, to);
            migrate_back(to, from);
        });
        add("cluster: a primary restarts empty", [this, &c] {
            c.restart_empty(c.owner(any_slot()));
            c.wait_until_agreed(recovery_time);
        });
    }

    /// The names of all faults.
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (auto const& each : faults_) all.push_back(each.name);
        return all;
    }
    /// Leaves those out whose names contain none of these texts.
    void choose(std::vector<std::string> const& texts) {
        std::erase_if(faults_, [&](fault const& each) {
            return std::ranges::none_of(
                texts, [&](auto const& t) { return test::contains(each.name, t); });
        });
        if (faults_.empty()) throw std::invalid_argument("--faults: there are none of that name");
    }

    /// The faults of the client processes.
    void add_clients() {
        faults_.push_back({"client: kill", [this] { clients_->kill(draw(clients_->size())); }});
        faults_.push_back({"client: freeze and thaw", [this] {
                               auto const i = draw(clients_->size());
                               clients_->freeze(i);
                               pause(2'500);
                               clients_->thaw(i);
                           }});
    }

    /// True if nothing was wrong.
    /// `drawing`: the file for a picture, or nothing.
    bool run(std::chrono::seconds length, plan p, std::string const& drawing) {
        record results;
        results_ = &results;
        if (cluster_)
            for (std::string const kind : {"plain", "fenced", "fair"})
                p.moving_keys.push_back(migrating_key(kind));
        std::vector<plan> plans;
        for (std::size_t i = 0; i < lines_.clients(); ++i) {
            plans.push_back(p);
            plans.back().instances = lines_.instances(i);
            std::ranges::copy(instances_, std::back_inserter(plans.back().instances));
        }
        swept_folder const histories;
        auto const seed = static_cast<unsigned>(random_() % 1'000'000'000 + 1);
        client_group clients(plans, histories.path(), seed, results);
        clients_ = &clients;
        auto const faults = carry_out(length);
        try {
            settle();
        } catch (std::exception const& e) {
            results.wrong(std::string("the servers did not settle after the last fault: ") +
                          e.what());
        }
        auto const settled = at(clock_type::now());
        auto const goes_on = [&] {
            auto const all = clients.so_far();
            return std::ranges::count_if(all.granted, [&](moment t) { return t > settled; }) > 50;
        };
        if (!wait_until(goes_on, 60s, 1s)) results.wrong("no grants after the last fault");
        clients.stop();
        auto const all = clients.so_far();
        for (auto const& each : all.findings) results.wrong(each);
        if (!drawing.empty()) picture(all, times_).write(drawing);
        judge judges(windows_);
        auto const found = judges.findings(all.claims);
        for (auto const& each : found) results.wrong(each);
        two_holders_ = !found.empty();
        std::cout << "longest time without a fault: " << longest_calm_.count() << " ms\n";
        std::cout << "granted in windows: " << judges.in_windows() << '\n';
        return results.summarize(all, faults, lost_keys_);
    }

    /// In the last run.
    bool found_two_holders() const { return two_holders_; }

private:
    fault_counts carry_out(std::chrono::seconds length) {
        auto const end = clock_type::now() + length;
        auto last = clock_type::now(); // the end of the last fault that was carried out
        fault_counts faults;
        for (auto const& each : faults_) faults[each.name] = {};
        while (clock_type::now() < end) {
            auto const& next = faults_[draw(faults_.size())];
            results_->say(next.name);
            auto const began = at(clock_type::now());
            try {
                next.happens();
                ++faults[next.name].happened;
                times_.push_back({next.name, began, at(clock_type::now())});
                note_calm(last);
                last = clock_type::now();
            } catch (std::exception const& e) {
                ++faults[next.name].failed;
                results_->say(std::string("  not carried out: ") + e.what());
                if (note_calm(last)) last = clock_type::now(); // each minute is a finding
            }
            pause(2'000);
        }
        return faults;
    }
    void add(std::string name, std::function<void()> happens) {
        faults_.push_back({std::move(name), [this, happens = std::move(happens)] {
                               settle();
                               happens();
                           }});
    }
    /// Repairs all servers, and waits until they work.
    void settle() {
        for (auto const& each : singles_) revive(*each);
        if (sentinel_) {
            for (std::size_t i = 0; i < sentinel_->sentinels(); ++i) revive(sentinel_->sentinel(i));
            for (std::size_t i = 0; i < sentinel_->members(); ++i) revive(sentinel_->member(i));
            sentinel_->wait_until_settled(90s);
        }
        if (cluster_) settle_cluster();
    }
    void revive(server& s) {
        if (s.frozen()) s.thaw();
        if (!s.running()) s.restart();
    }
    void settle_cluster() {
        repair_log log;
        auto const note_steps = [&] {
            for (auto const& step : log.steps) results_->say("  repair: " + step);
            lost_keys_ += log.lost_keys;
        };
        try {
            repair(*cluster_, log);
        } catch (...) {
            note_steps();
            throw;
        }
        note_steps();
    }
    /// True, and a finding, if no fault was carried out for too long.
    bool note_calm(clock_type::time_point last) {
        auto const calm = since(last);
        longest_calm_ = std::max(longest_calm_, calm);
        if (calm <= longest_calm) return false;
        results_->wrong("no fault was carried out for " + std::to_string(calm.count()) + " ms");
        return true;
    }
    /// The owner of the slots that migrate, and another primary.
    std::pair<std::size_t, std::size_t> ends_of_migration() {
        auto const from = cluster_->owner(migrating.first);
        for (int i = 0; i < 100; ++i)
            if (auto const to = cluster_->owner(any_slot()); to != from) return {from, to};
        throw std::runtime_error("one node owns all slots");
    }
    /// Nodes refuse to vote twice for replicas of one primary within twice the node timeout, and
    /// the replica gives up after 5 s. So an operator asks again.
    void fail_over(std::uint16_t slot, std::size_t replica, cluster_group::takeover how) {
        for (int left = 3;; --left) {
            cluster_->begin_failover(replica, how);
            try {
                return cluster_->wait_for_owner(slot, replica, 6s);
            } catch (std::runtime_error const&) {
                if (left == 1) throw;
            }
        }
    }
    /// MIGRATE, again if it was refused because the target has such a key, too. A script of a fair
    /// lock may write the key that calls a process at the target before the old one has moved. It
    /// expires after 3 s at most.
    std::size_t move_keys(slot_migration& moving, std::size_t from, std::size_t to,
                          std::size_t most) {
        std::size_t moved = 0;
        std::string refusal;
        auto const has_moved = [&] {
            try {
                moved = moving.move_keys(most);
                return true;
            } catch (cli_error const& e) {
                refusal = e.what();
                if (!contains(refusal, "BUSYKEY")) throw;
                find_doubles(from, to);
                return false;
            }
        };
        if (!wait_until(has_moved, 5s, 100ms)) throw std::runtime_error(refusal);
        return moved;
    }
    std::set<std::string> keys_at(std::size_t node) {
        std::set<std::string> all;
        auto cli = cluster_->cli(node);
        for (auto slot = migrating.first; slot <= migrating.last; ++slot) {
            auto const keys =
                cli.command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "1000"});
            for (auto const& key : keys.elements()) all.insert(key.string());
        }
        return all;
    }
    /// The source makes no key of a slot that leaves it. So a key that it has before and afterwards
    /// was there all the time.
    void find_doubles(std::size_t from, std::size_t to) {
        auto const before = keys_at(from), there = keys_at(to), after = keys_at(from);
        for (auto const& key : before) {
            if (!there.contains(key) || !after.contains(key)) continue;
            if (contains(key, ":queue")) {
                results_->say("  at both nodes: " + key);
            } else {
                results_->wrong("the key " + key + " is at both nodes");
            }
        }
    }
    /// Moves the keys that are left. All nodes hear of the new owner from the owner itself, before
    /// the slots move back: see cluster_group::migrate().
    void finish(slot_migration& moving, std::size_t from, std::size_t to) {
        while (move_keys(moving, from, to, all_keys) > 0) continue;
        moving.claim();
        for (auto slot = migrating.first; slot <= migrating.last; ++slot)
            cluster_->wait_for_owner(slot, to, recovery_time);
        moving.end();
        cluster_->wait_until_agreed(recovery_time);
    }
    void migrate_back(std::size_t from, std::size_t to) {
        slot_migration moving(*cluster_, migrating, from, to);
        moving.begin();
        finish(moving, from, to);
    }
    void freeze(server& s) {
        s.freeze();
        pause(1'500);
        s.thaw();
    }
    server& any_server() { return *singles_[draw(singles_.size())]; }
    static window window_of(milliseconds length) {
        auto const now = clock_type::now();
        return {at(now), at(now + length)};
    }
    /// Those of the lines between a client and some servers. What a client sent before it gave up
    /// may come later.
    void add_lines() {
        line_fault("line: commands come late", &proxy::hold_requests, &proxy::resume);
        line_fault("line: replies come late", &proxy::hold_replies, &proxy::resume);
        line_fault("line: replies are lost", &proxy::hold_replies, [](proxy& p) {
            p.cut(proxy::cut_kind::reset);
            p.resume();
        });
        line_fault("line: a client is cut off", &proxy::down, &proxy::up);
        line_fault(
            "line: slow", [](proxy& p) { p.delay_replies(300ms); },
            [](proxy& p) { p.delay_replies(0ms); });
        line_fault(
            "line: pushes are lost", [](proxy& p) { p.swallow_pushes(); },
            [](proxy& p) { p.swallow_pushes(false); });
    }
    template <class Begin, class End>
    void line_fault(std::string name, Begin begin, End end) {
        faults_.push_back(
            {std::move(name), [this, begin, end] {
                 auto const client = draw(lines_.clients());
                 auto const first = draw(lines_.servers());
                 auto const count = 1 + draw(lines_.servers());
                 lines_.each(client, first, count, [&](proxy& p) { std::invoke(begin, p); });
                 pause(2'500);
                 lines_.each(client, first, count, [&](proxy& p) { std::invoke(end, p); });
             }});
    }
    /// `length`: of the window after it, in which two may have a lock.
    void command_fault(std::string name, command_line words, milliseconds length = 0ms) {
        faults_.push_back({std::move(name), [this, words = std::move(words), length] {
                               if (length > 0ms) windows_.push_back(window_of(length));
                               auto const said = redis_cli(any_server()).command(words);
                               if (said.is_error()) throw std::runtime_error(said.error());
                           }});
    }
    void setting_fault(std::string name, std::string option, std::string value, std::string usual) {
        faults_.push_back({std::move(name), [=, this] {
                               redis_cli cli(any_server());
                               cli.config(option, value);
                               pause(1'500);
                               cli.config(option, usual);
                           }});
    }
    std::size_t draw(std::size_t below) { return random_() % below; }
    // The length of a fault is no synchronisation: whatever happens meanwhile must be right.
    void pause(std::size_t most = 600) {
        std::this_thread::sleep_for(milliseconds(1 + draw(most)));
    }
    std::uint16_t any_slot() {
        return static_cast<std::uint16_t>(draw(cluster_group::slots - 1'000) + 500);
    }
    /// A key in the slots that migrate.
    std::string migrating_key(std::string const& kind) {
        for (int i = 0;; ++i) {
            auto key = kind + "-moves" + std::to_string(i);
            if (cluster_->slot_of(key) <= migrating.last) return key;
        }
    }

    static constexpr slot_range migrating{0, 59};
    static constexpr std::size_t all_keys = ~std::size_t{0};

    std::mt19937 random_;
    // Of run():
    record* results_ = nullptr;
    client_group* clients_ = nullptr;
    std::vector<window> windows_;
    bool two_holders_ = false;
    std::vector<fault_time> times_;
    std::size_t lost_keys_ = 0;
    milliseconds longest_calm_{0};
    std::vector<std::unique_ptr<server>> singles_;
    std::unique_ptr<sentinel_group> sentinel_;
    std::unique_ptr<cluster_group> cluster_;
    client_lines lines_{3};
    std::vector<std::string> instances_; ///< beside those behind the lines
    std::vector<fault> faults_;
};

} // namespace holdfast::campaign

#endif
