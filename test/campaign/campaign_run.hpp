// The run of a campaign: faults on the servers while client processes take locks, and the judgement
// at the end.
#ifndef HOLDFAST_TEST_CAMPAIGN_CAMPAIGN_RUN_HPP
#define HOLDFAST_TEST_CAMPAIGN_CAMPAIGN_RUN_HPP

#include "campaign/client_group.hpp"
#include "campaign/cluster_servers.hpp"
#include "campaign/faults.hpp"
#include "campaign/judge.hpp"
#include "campaign/picture.hpp"
#include "campaign/recovery.hpp"
#include "campaign/results.hpp"
#include "campaign/sentinel_servers.hpp"
#include "campaign/single_servers.hpp"
#include "campaign/turns.hpp"
#include "support/certificates.hpp"
#include "support/lock_monitor.hpp"
#include "support/redis_cli.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::campaign {

/// A campaign that carries out no fault for so long has proved nothing in that time.
inline constexpr std::chrono::seconds longest_calm{60};
/// In the end no lock may be left: the longest ttl is 2 s, and what tells readers or a line that a
/// process waits lasts 5 s at most.
inline constexpr std::chrono::seconds left_behind_for{10};

/// max_ttl of the clients, and 2 s for a new primary.
inline constexpr std::chrono::seconds longest_lease{4};

/// A line of a fair key is disturbed until what a fault has left in it has gone: a reservation, a
/// lease, and places of the dead.
inline constexpr moment line_is_disturbed = 6s;
/// A process whose turn it is has 200 ms to come.
inline constexpr moment most_pause_in_turn = 50ms;

class campaign_run {
public:
    /// `tls`: the clients reach all servers by TLS.
    campaign_run(unsigned seed, bool tls)
        : context_(seed)
        , tls_(tls) {}

    void add_servers(std::size_t count) {
        singles_ = std::make_unique<single_servers>(context_, count, client_count, tls_);
        singles_->add_faults(faults_);
    }
    void add_sentinel() {
        sentinel_group_options options;
        if (tls_) options.tls = make_certificates("IP:127.0.0.1");
        sentinel_ = std::make_unique<sentinel_servers>(context_, client_count, options);
        sentinel_->add_faults(faults_);
    }
    void add_cluster() {
        cluster_group_options options;
        if (tls_) options.tls = make_certificates("IP:127.0.0.1");
        cluster_ = std::make_unique<cluster_servers>(context_, client_count, options);
        cluster_->add_faults(faults_);
    }
    void add_clients() {
        faults_.push_back({"client: kill", end_of_lease, [this] {
                               // N11: a client that starts after a fail-over or restart may not
                               // know of it, until what was granted before has ended.
                               std::this_thread::sleep_until(last_ + longest_lease);
                               context_.begin();
                               clients_->kill(context_.draw(clients_->size()));
                           }});
        faults_.push_back({"client: freeze and thaw", end_of_lease, [this] {
                               auto const i = context_.draw(clients_->size());
                               clients_->freeze(i);
                               context_.pause(longest_outage);
                               clients_->thaw(i);
                           }});
        // Fences rest on it where an instance has lost counters.
        faults_.push_back({"client: the clock jumps", end_of_lease, [this] {
                               auto const to = milliseconds(context_.draw(801)) - 400ms;
                               clients_->shift_clock(context_.draw(clients_->size()), to);
                           }});
        faults_.push_back({"client: fork", end_of_lease,
                           [this] { clients_->fork(context_.draw(clients_->size())); }});
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
    /// Without faults no lease may be lost.
    void choose_none() { faults_.clear(); }

    /// The next fault comes so long after one, instead of soon, so that recovery can be judged.
    void keep_apart(std::chrono::seconds length) { apart_ = length; }

    /// Files to write, or nothing.
    struct outputs {
        std::string picture;
        std::string histories; ///< the folder for them, if something was wrong
    };
    /// True if nothing was wrong.
    bool run(std::chrono::seconds length, plan p, outputs const& to) {
        auto& results = context_.results();
        swept_folder const histories;
        auto const seed = static_cast<unsigned>(context_.draw(1'000'000'000) + 1);
        client_group clients(plans(p, histories), histories.path(), seed, results);
        clients_ = &clients;
        auto const counts = carry_out(length);
        settle();
        auto const settled = at(clock_type::now());
        std::string stuck;
        auto const goes_on = [&] {
            stuck = not_granted_since(settled, clients.so_far().claims);
            return stuck.empty();
        };
        if (!wait_until(goes_on, 60s, 1s))
            results.wrong("no grants after the last fault: " + stuck);
        auto const wanted = keys_without_readers(clients.so_far().claims);
        clients.keep();
        wait_for_ends(wanted);
        clients.stop();
        look_for_left_locks(wanted);
        for (auto const* const group : groups())
            if (!group->lines_are_used())
                results.wrong("the faults of lines are void: a client has not come by its own");
        auto const all = clients.so_far();
        for (auto const& each : all.findings) results.wrong(each);
        auto const unexplained_losses = unexplained(all.lost, all.pauses);
        if (faults_.empty() && unexplained_losses > 0)
            results.wrong(std::to_string(unexplained_losses) +
                          " leases were lost without a fault, and without a pause of the client");
        if (!to.picture.empty()) picture(all, times_).write(to.picture);
        judge judges(context_.windows(), at(results.began()));
        auto const found = judges.findings(all.claims);
        for (auto const& each : found) results.wrong(each);
        two_holders_ = judges.overlaps() > 0;
        auto const in_turn = look_at_turns(all.claims, disturbed(all.pauses));
        out_of_turn_ = in_turn.disorderly();
        for (auto const& each : in_turn.out) results.say(each);
        if (out_of_turn_ && p.judges_times) results.wrong("a fair lock is not fair");
        for (auto const& each : refusals(all.refused, disturbed(all.pauses))) results.wrong(each);
        for (auto const& each : memory_findings(all.usage)) results.wrong(each);
        for (auto const& each : processor_findings(all.usage)) results.wrong(each);
        std::cout << "longest time without a fault: " << longest_calm_.count() << " ms\n"
                  << "granted in windows: " << judges.in_windows() << '\n'
                  << "turns of processes: " << in_turn.judged
                  << ", out of turn: " << in_turn.out.size() << '\n';
        for (auto const& [name, each] : recoveries(all.claims, times_, all.pauses, ttl)) {
            std::cout << "longest without a holder after " << name << ": " << each.text() << '\n';
            if (apart_ && p.judges_times && each.beyond > slack)
                results.wrong(name + ": no holder for longer than the bound: " + each.text());
        }
        auto const right = results.summarize(all, counts, cluster_ ? cluster_->lost_keys() : 0);
        if (!right && !to.histories.empty())
            std::filesystem::copy(histories.path(), to.histories,
                                  std::filesystem::copy_options::recursive |
                                      std::filesystem::copy_options::overwrite_existing);
        return right;
    }

    /// If the last run has found what the guard is for.
    bool found_without(std::string const& guard) const {
        return guard == "turns" ? out_of_turn_ : two_holders_;
    }

private:
    static constexpr std::size_t client_count = 3;

    std::vector<plan> plans(plan p, swept_folder const& files) {
        if (cluster_) p.moving_keys = cluster_->moving_keys();
        if (singles_) {
            p.password_file = singles_->password_file();
            p.names_file = singles_->names_file();
        }
        std::vector<plan> all;
        for (std::size_t i = 0; i < client_count; ++i) {
            all.push_back(p);
            std::string routes;
            for (auto const* const group : groups()) routes += group->routes(i);
            all.back().routes_file = files.write("routes-" + std::to_string(i), routes);
            auto& instances = all.back().instances;
            if (singles_) instances = singles_->instances();
            if (sentinel_) instances.push_back(sentinel_->group().url());
            if (cluster_) instances.push_back(cluster_->group().url());
        }
        return all;
    }
    std::vector<window> disturbed(std::vector<pause> const& pauses) const {
        std::vector<window> all;
        for (auto const& p : pauses)
            if (p.to - p.from >= most_pause_in_turn) all.push_back({p.from, p.to});
        for (auto const& f : times_) all.push_back({f.from, f.to + line_is_disturbed});
        return all;
    }
    fault_counts carry_out(std::chrono::seconds length) {
        auto const end = clock_type::now() + length;
        last_ = clock_type::now();
        fault_counts counts;
        for (auto const& each : faults_) counts[each.name] = {};
        while (clock_type::now() < end) {
            if (!faults_.empty()) {
                auto const& next = faults_[context_.draw(faults_.size())];
                carry_out(next, counts[next.name]);
            }
            apart_ ? context_.last(*apart_) : context_.pause(2'000ms);
        }
        if (!faults_.empty()) note_calm(clock_type::now());
        if (!faults_.empty() && times_.empty()) context_.results().wrong("there was no fault");
        return counts;
    }
    void carry_out(fault const& next, fault_count& count) {
        context_.results().say(next.name);
        clients_->replace_ended();
        context_.begin();
        try {
            next.happens();
        } catch (std::exception const& e) {
            ++count.failed;
            context_.results().say(std::string("  not carried out: ") + e.what());
            if (note_calm(clock_type::now())) last_ = clock_type::now(); // each minute is a finding
            return;
        }
        ++count.happened;
        note_calm(context_.began());
        last_ = clock_type::now();
        auto const length = std::chrono::duration_cast<milliseconds>(last_ - context_.began());
        times_.push_back({next.name, at(context_.began()), at(last_),
                          next.bound + context_.excess() + (next.adds_length ? length : 0ms)});
    }
    /// Repairs all servers, and waits until they work.
    void settle() {
        for (auto* const group : groups()) {
            try {
                group->settle();
            } catch (std::exception const& e) {
                context_.results().wrong(
                    std::string("servers did not settle after the last fault: ") + e.what());
            }
        }
    }
    std::vector<group_of_servers*> groups() const {
        std::vector<group_of_servers*> all;
        if (singles_) all.push_back(singles_.get());
        if (sentinel_) all.push_back(sentinel_.get());
        if (cluster_) all.push_back(cluster_.get());
        return all;
    }
    /// Keys that were taken often before, and not since then.
    static std::string not_granted_since(moment settled, std::vector<claim> const& claims) {
        constexpr unsigned often = 20;
        std::map<std::string, unsigned> before;
        std::set<std::string> since;
        for (auto const& c : claims) {
            if (c.begins > settled) {
                since.insert(c.key);
            } else {
                ++before[c.key];
            }
        }
        std::string missing;
        for (auto const& [key, count] : before)
            if (count >= often && !since.contains(key)) missing += ' ' + key;
        return since.empty() ? "none at all" : missing;
    }
    /// True, and a finding, if no fault was carried out for too long.
    bool note_calm(clock_type::time_point until) {
        auto const calm = std::chrono::duration_cast<milliseconds>(until - last_);
        longest_calm_ = std::max(longest_calm_, calm);
        if (calm <= longest_calm) return false;
        context_.results().wrong("no fault was carried out for " + std::to_string(calm.count()) +
                                 " ms");
        return true;
    }
    /// N43: readers who shared one on the servers may leave it to its ttl.
    static std::set<std::string> keys_without_readers(std::vector<claim> const& claims) {
        std::set<std::string> all;
        for (auto const& c : claims)
            if (c.how == lock_access::exclusive || c.how == lock_access::permit) all.insert(c.key);
        return all;
    }
    /// All leases of now have ended, also those of processes that were killed, and those that were
    /// given to one.
    void wait_for_ends(std::set<std::string> const& wanted) {
        std::set<std::string> before, now;
        auto const ended = [&] {
            now.clear();
            ask_servers([&](redis_cli cli) { note_tokens(cli, wanted, now); });
            return std::ranges::none_of(before, [&](auto const& t) { return now.contains(t); });
        };
        ask_servers([&](redis_cli cli) { note_tokens(cli, wanted, before); });
        if (!wait_until(ended, 60s, 200ms))
            context_.results().wrong("a lease has not ended for 60 s");
    }
    /// The tokens at these keys, each of one tenure.
    static void note_tokens(redis_cli& cli, std::set<std::string> const& wanted,
                            std::set<std::string>& all) {
        for (auto const& key : lock_names(cli)) {
            if (!wanted.contains(key)) continue;
            auto const one = cli.command({"GET", key});
            if (one.is_string()) all.insert(key + ' ' + one.string());
            if (!one.is_error()) continue;
            auto const slots = cli.command({"ZRANGE", key, "0", "-1"});
            for (auto const& each : slots.elements()) all.insert(key + ' ' + each.string());
        }
    }
    /// S4: the clients have ended. They have released what they held on all servers, and no other
    /// key stays that does not expire. `wanted`: keys of their locks.
    void look_for_left_locks(std::set<std::string> const& wanted) {
        ask_servers([&](redis_cli cli) {
            std::vector<std::string> left;
            auto const none = [&] {
                left = lock_names(cli);
                return left.empty();
            };
            none();
            for (auto const& key : left)
                if (wanted.contains(key))
                    context_.results().wrong(key + " was not released everywhere");
            if (!wait_until(none, left_behind_for, 200ms))
                context_.results().wrong(std::to_string(left.size()) +
                                         " locks are left, the first " + left.front());
        });
    }
    /// Those that have locks: single servers, and primaries.
    template <class Ask>
    void ask_servers(Ask ask) {
        auto const guarded = [&](auto const& asks) {
            try {
                asks();
            } catch (std::exception const& e) {
                context_.results().wrong(std::string("no look at the keys of a server: ") +
                                         e.what());
            }
        };
        if (singles_)
            for (auto const& s : singles_->servers()) guarded([&] { ask(redis_cli(*s)); });
        if (sentinel_)
            guarded([&] {
                auto& g = sentinel_->group();
                ask(g.cli(g.primary()));
            });
        for (std::size_t i = 0; cluster_ && i < cluster_->group().size(); ++i)
            guarded([&] {
                auto& c = cluster_->group();
                if (c.role(i) == "master") ask(c.cli(i));
            });
    }

    fault_context context_;
    bool const tls_;
    std::optional<std::chrono::seconds> apart_;
    // Of run():
    client_group* clients_ = nullptr;
    bool two_holders_ = false, out_of_turn_ = false;
    std::vector<fault_time> times_;
    milliseconds longest_calm_{0};
    clock_type::time_point last_; ///< the end of the last fault that was carried out
    std::unique_ptr<single_servers> singles_;
    std::unique_ptr<sentinel_servers> sentinel_;
    std::unique_ptr<cluster_servers> cluster_;
    fault_list faults_;
};

} // namespace holdfast::campaign

#endif
