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
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace holdfast::campaign {

/// A campaign that carries out no fault for so long has proved nothing in that time.
inline constexpr std::chrono::seconds longest_calm{60};
/// In the end no lock may be left: the longest ttl is 2 s, and what tells readers or a line that a
/// process waits lasts 5 s at most.
inline constexpr std::chrono::seconds left_behind_for{10};

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
        sentinel_ = std::make_unique<sentinel_servers>(context_, options);
        sentinel_->add_faults(faults_);
    }
    void add_cluster() {
        cluster_group_options options;
        if (tls_) options.tls = make_certificates("IP:127.0.0.1");
        cluster_ = std::make_unique<cluster_servers>(context_, options);
        cluster_->add_faults(faults_);
    }
    void add_clients() {
        faults_.push_back(
            {"client: kill", [this] { clients_->kill(context_.draw(clients_->size())); }});
        faults_.push_back({"client: freeze and thaw", [this] {
                               auto const i = context_.draw(clients_->size());
                               clients_->freeze(i);
                               context_.pause(2'500);
                               clients_->thaw(i);
                           }});
        faults_.push_back({"client: the clock jumps", [this] {
                               clients_->shift_clock(
                                   context_.draw(clients_->size()),
                                   milliseconds(context_.draw(2) == 0 ? 60'000 : -60'000));
                           }});
        faults_.push_back(
            {"client: fork", [this] { clients_->fork(context_.draw(clients_->size())); }});
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

    /// True if nothing was wrong.
    /// `drawing`: the file for a picture, or nothing.
    bool run(std::chrono::seconds length, plan p, std::string const& drawing) {
        auto& results = context_.results();
        swept_folder const histories;
        auto const seed = static_cast<unsigned>(context_.draw(1'000'000'000) + 1);
        client_group clients(plans(p), histories.path(), seed, results);
        clients_ = &clients;
        auto const counts = carry_out(length);
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
        look_for_left_locks();
        auto const all = clients.so_far();
        for (auto const& each : all.findings) results.wrong(each);
        if (faults_.empty() && all.lost > 0)
            results.wrong(std::to_string(all.lost) + " leases were lost without a fault");
        if (!drawing.empty()) picture(all, times_).write(drawing);
        judge judges(context_.windows());
        auto const found = judges.findings(all.claims);
        for (auto const& each : found) results.wrong(each);
        two_holders_ = !found.empty();
        for (auto const& each : memory_findings(all.memory)) results.wrong(each);
        std::cout << "longest time without a fault: " << longest_calm_.count() << " ms\n"
                  << "granted in windows: " << judges.in_windows() << '\n';
        tell_recoveries(all.claims, times_);
        return results.summarize(all, counts, cluster_ ? cluster_->lost_keys() : 0);
    }

    /// In the last run.
    bool found_two_holders() const { return two_holders_; }

private:
    static constexpr std::size_t client_count = 3;

    std::vector<plan> plans(plan p) {
        if (cluster_) p.moving_keys = cluster_->moving_keys();
        if (singles_) p.password_file = singles_->password_file();
        std::vector<plan> all;
        for (std::size_t i = 0; i < client_count; ++i) {
            all.push_back(p);
            auto& instances = all.back().instances;
            if (singles_) instances = singles_->instances(i);
            if (sentinel_) instances.push_back(sentinel_->group().url());
            if (cluster_) instances.push_back(cluster_->group().url());
        }
        return all;
    }
    fault_counts carry_out(std::chrono::seconds length) {
        auto const end = clock_type::now() + length;
        auto last = clock_type::now(); // the end of the last fault that was carried out
        fault_counts counts;
        for (auto const& each : faults_) counts[each.name] = {};
        while (clock_type::now() < end) {
            if (!faults_.empty()) {
                auto const& next = faults_[context_.draw(faults_.size())];
                if (carry_out(next, counts[next.name])) {
                    note_calm(last);
                    last = clock_type::now();
                } else if (note_calm(last)) {
                    last = clock_type::now(); // each minute is a finding
                }
            }
            context_.pause(2'000);
        }
        return counts;
    }
    bool carry_out(fault const& next, fault_count& count) {
        context_.results().say(next.name);
        auto const began = at(clock_type::now());
        try {
            next.happens();
        } catch (std::exception const& e) {
            ++count.failed;
            context_.results().say(std::string("  not carried out: ") + e.what());
            return false;
        }
        ++count.happened;
        times_.push_back({next.name, began, at(clock_type::now())});
        return true;
    }
    /// Repairs all servers, and waits until they work.
    void settle() {
        if (singles_) singles_->settle();
        if (sentinel_) sentinel_->settle();
        if (cluster_) cluster_->settle();
    }
    /// True, and a finding, if no fault was carried out for too long.
    bool note_calm(clock_type::time_point last) {
        auto const calm = since(last);
        longest_calm_ = std::max(longest_calm_, calm);
        if (calm <= longest_calm) return false;
        context_.results().wrong("no fault was carried out for " + std::to_string(calm.count()) +
                                 " ms");
        return true;
    }
    /// S4: the clients have ended, and no lock stays.
    void look_for_left_locks() {
        std::vector<redis_cli> on;
        if (singles_)
            for (auto const& s : singles_->servers()) on.emplace_back(*s);
        if (sentinel_) on.push_back(sentinel_->group().cli(sentinel_->group().primary()));
        if (cluster_) {
            auto& c = cluster_->group();
            for (std::size_t i = 0; i < c.size(); ++i)
                if (c.role(i) == "master") on.push_back(c.cli(i));
        }
        for (auto& cli : on) {
            std::vector<std::string> left;
            auto const none = [&] {
                left = lock_names(cli);
                return left.empty();
            };
            if (!wait_until(none, left_behind_for, 200ms))
                context_.results().wrong(std::to_string(left.size()) +
                                         " locks are left, the first " + left.front());
        }
    }

    fault_context context_;
    bool const tls_;
    // Of run():
    client_group* clients_ = nullptr;
    bool two_holders_ = false;
    std::vector<fault_time> times_;
    milliseconds longest_calm_{0};
    std::unique_ptr<single_servers> singles_;
    std::unique_ptr<sentinel_servers> sentinel_;
    std::unique_ptr<cluster_servers> cluster_;
    fault_list faults_;
};

} // namespace holdfast::campaign

#endif
