// A fault campaign: clients take locks by every call while servers die, hang, restart, fail over
// and move slots. A referee looks for two holders and for fences that do not grow, and each call
// is held against the bound that its header documents.
//
//   campaign sentinel | cluster | mixed [--seconds N] [--seed N]
//
// `mixed` is a list of three instances: a server, a primary behind Sentinel, and a Cluster. The
// servers are of one kind: $HOLDFAST_SERVERS_DIR and $HOLDFAST_SERVER_KIND choose it.
//
// Before each fault the servers are repaired as an operator would do it, so that one fault that
// went wrong does not end the campaign. A fault that throws counts as not carried out. The program
// prints each fault, each repair and each finding with its time, then the number of faults of each
// kind, and a line of results. Its exit status is 0 if nothing was wrong.
#include <holdfast/client.hpp>

#include "integration/referee.hpp"
#include "support/cluster_group.hpp"
#include "support/cluster_repair.hpp"
#include "support/sentinel_group.hpp"
#include "support/server.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds ttl{1'500};
constexpr milliseconds instance_timeout{500};
/// Beyond a bound, and beyond the pauses of the machine: what the scheduler of a busy machine adds.
constexpr milliseconds slack{400};
/// A campaign that carries out no fault for so long has proved nothing in that time.
constexpr std::chrono::seconds longest_calm{60};
/// For a Cluster to get over a fault. If it does not, a repair comes before the next one.
constexpr std::chrono::seconds recovery_time{20};

milliseconds since(clock_type::time_point t) {
    return std::chrono::duration_cast<milliseconds>(clock_type::now() - t);
}

client_options options_of_clients() {
    return {.max_ttl = 2s,
            .instance_timeout = instance_timeout,
            .connect_timeout = instance_timeout,
            .max_reconnect_delay = 100ms};
}

/// The faults of one kind.
struct fault_count {
    std::uint64_t happened = 0;
    std::uint64_t failed = 0; ///< not carried out, or not to the end
};
using fault_counts = std::map<std::string_view, fault_count>;

/// The results of all clients. From any thread.
class record {
public:
    /// Prints a line with the time since the start.
    void say(std::string_view text) const {
        std::lock_guard const lock(mutex_);
        print(text);
    }
    void call(std::string_view name, milliseconds took, milliseconds bound, error const& e) {
        std::lock_guard const lock(mutex_);
        ++calls_;
        auto& longest = longest_[std::string(name)];
        longest = std::max(longest, took);
        if (took > bound) {
            std::ostringstream text;
            text << name << " took " << took.count() << " ms, its bound is " << bound.count()
                 << " ms; it ended with: " << e.what();
            note_wrong(text.str());
        }
        if (e) ++outcomes_[e.code().message()];
    }
    void wrong(std::string text) {
        std::lock_guard const lock(mutex_);
        note_wrong(std::move(text));
    }
    void paused(milliseconds length) {
        std::lock_guard const lock(mutex_);
        longest_pause_ = std::max(longest_pause_, length);
    }
    void granted() { ++grants_; }
    void lost() { ++losses_; }
    std::uint64_t grants() const { return grants_; }

    bool summarize(fault_counts const& faults, std::size_t lost_keys) const {
        std::lock_guard const lock(mutex_);
        std::uint64_t happened = 0;
        for (auto const& [name, count] : faults) {
            happened += count.happened;
            std::cout << count.happened << " x " << name;
            if (count.failed > 0) std::cout << ", not carried out: " << count.failed;
            std::cout << '\n';
        }
        std::cout << "longest pause of a client: " << longest_pause_.count() << " ms\n";
        for (auto const& [name, took] : longest_)
            std::cout << "longest " << name << ": " << took.count() << " ms\n";
        for (auto const& [name, count] : outcomes_) std::cout << count << " x " << name << '\n';
        for (auto const& text : wrong_) std::cout << "WRONG: " << text << '\n';
        std::cout << "calls=" << calls_ << " grants=" << grants_ << " losses=" << losses_
                  << " faults=" << happened << " keys_lost_in_repairs=" << lost_keys
                  << " wrong=" << wrong_.size() << std::endl;
        return wrong_.empty();
    }

private:
    void note_wrong(std::string text) {
        print("WRONG: " + text);
        wrong_.push_back(std::move(text));
    }
    void print(std::string_view text) const {
        std::cout << std::fixed << std::setprecision(1) << std::setw(7)
                  << static_cast<double>(since(began_).count()) / 1'000 << "  " << text
                  << std::endl;
    }

    clock_type::time_point const began_ = clock_type::now();
    mutable std::mutex mutex_;
    std::uint64_t calls_ = 0;
    std::atomic<std::uint64_t> grants_{0}, losses_{0};
    milliseconds longest_pause_{0};
    std::map<std::string, milliseconds> longest_;
    std::map<std::string, std::uint64_t> outcomes_;
    std::vector<std::string> wrong_;
};

/// A client in a thread of its own, with several coroutines for each key.
class worker {
public:
    worker(std::vector<address> const& addresses, std::vector<std::string> const& keys,
           unsigned seed, referee& judge, record& results)
        : random_(seed)
        , locks_(context_.get_executor(), addresses, options_of_clients())
        , judge_(judge)
        , results_(results) {
        asio::co_spawn(context_, note_pauses(), asio::detached);
        for (auto const& key : keys) {
            for (int i = 0; i < 3; ++i) {
                ++running_;
                asio::co_spawn(context_, work(key), [this](std::exception_ptr e) {
                    if (e) results_.wrong("a call threw");
                    --running_;
                });
            }
        }
        thread_ = std::jthread([this] {
            auto const guard = asio::make_work_guard(context_);
            context_.run();
        });
    }
    ~worker() { stop(); }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;

    /// Lets the coroutines end, and drains and shuts down the client, each within its bound.
    void stop() {
        stopping_ = true;
        if (!thread_.joinable()) return;
        if (!wait_until([&] { return running_ == 0; }, 60s))
            results_.wrong("a call has not ended after 60 s");
        end("drain", instance_timeout * 4 + ttl,
            [this](auto done) { locks_.drain(ttl, [done](auto const&...) { *done = true; }); });
        end("shutdown", instance_timeout * 4,
            [this](auto done) { locks_.shutdown([done](auto const&...) { *done = true; }); });
        context_.stop();
        thread_.join();
    }

private:
    using flag = std::shared_ptr<std::atomic<bool>>;

    void end(std::string_view name, milliseconds bound, std::function<void(flag)> const& begin) {
        auto const done = std::make_shared<std::atomic<bool>>(false);
        auto const began = clock_type::now();
        asio::post(context_, [&] { begin(done); });
        if (!wait_until([&] { return done->load(); }, 30s))
            results_.wrong(std::string(name) + " has not ended after 30 s");
        results_.call(name, since(began), bound + slack + lately_paused(), error());
    }

    /// Notes for how long this thread does not run. The note of a pause shrinks to a third in 20 s.
    asio::awaitable<void> note_pauses() {
        asio::steady_timer timer(context_);
        auto const quietly = asio::as_tuple(asio::deferred);
        while (!stopping_) {
            auto const due = clock_type::now() + 5ms;
            timer.expires_at(due);
            co_await timer.async_wait(quietly);
            auto const late = clock_type::now() - due;
            pause_ = std::max<clock_type::duration>(pause_.load() - pause_.load() / 4'000, late);
            results_.paused(std::chrono::duration_cast<milliseconds>(late));
        }
    }

    /// The longest time for which this thread has not run lately.
    milliseconds lately_paused() const { return std::chrono::ceil<milliseconds>(pause_.load()); }

    unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

    asio::awaitable<void> work(std::string key) {
        auto const fenced = key.starts_with("fenced");
        auto const lock =
            locks_.make_lock(key, {.ttl = ttl, .fencing = fenced, .fair = key.starts_with("fair")});
        asio::steady_timer timer(context_);
        auto const quietly = asio::as_tuple(asio::deferred);
        while (!stopping_) {
            milliseconds const limit(100 + draw(2'000));
            auto const began = clock_type::now();
            error e;
            lease l;
            std::string_view name;
            milliseconds bound;
            switch (draw(3)) {
            case 0: {
                // A round, and the question for the reason.
                name = "try_acquire";
                bound = 4 * instance_timeout + ttl / 3;
                auto acquired = co_await lock.try_acquire(quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                break;
            }
            case 1: {
                name = "try_acquire_for";
                bound = limit + 2 * instance_timeout;
                auto acquired = co_await lock.try_acquire_for(limit, quietly);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
                break;
            }
            default: {
                name = "acquire, cancelled";
                bound = limit;
                auto const limited = asio::cancel_after(limit, quietly);
                auto acquired = co_await lock.acquire(limited);
                e = std::get<0>(acquired);
                l = std::move(std::get<1>(acquired));
            }
            }
            results_.call(name, since(began), bound + slack + lately_paused(), e);
            if (e) {
                timer.expires_after(milliseconds(2 + draw(40)));
                co_await timer.async_wait(quietly);
                continue;
            }
            auto const seen = judge_.begins(key, l, fenced);
            if (seen.overlaps) results_.wrong("two clients had the key " + key);
            if (seen.regresses) results_.wrong("the fence of " + key + " did not grow");
            results_.granted();
            co_await hold(l, timer);
            if (!l.held()) results_.lost();
            judge_.ends(key, l);
            auto const released = clock_type::now();
            co_await l.release();
            results_.call("release", since(released),
                          2 * instance_timeout + slack + lately_paused(), error());
        }
    }

    /// For a moment, or beyond several renewals, or with an extension to another ttl.
    asio::awaitable<void> hold(lease& l, asio::steady_timer& timer) {
        auto const quietly = asio::as_tuple(asio::deferred);
        auto const how = draw(20);
        timer.expires_after(how == 0 ? milliseconds(2'000) : milliseconds(1 + draw(10)));
        co_await timer.async_wait(quietly);
        if (how != 1 || !l.held()) co_return;
        auto const began = clock_type::now();
        milliseconds const other(draw(2) == 0 ? 500 : 2'000);
        auto extended = co_await l.extend(other, quietly);
        results_.call("extend", since(began), 2 * instance_timeout + slack + lately_paused(),
                      std::get<0>(extended));
    }

    std::mt19937 random_;
    asio::io_context context_{1};
    client locks_;
    referee& judge_;
    record& results_;
    std::atomic<clock_type::duration> pause_{clock_type::duration::zero()};
    std::atomic<bool> stopping_{false};
    std::atomic<int> running_{0};
    std::jthread thread_;
};

//
// Faults
//

struct fault {
    std::string_view name;
    std::function<void()> happens;
};

class campaign {
public:
    explicit campaign(unsigned seed)
        : random_(seed) {}

    void add_server() {
        single_ = std::make_unique<server>();
        addresses_.emplace_back(single_->url());
        // These do not wait for the other servers, so that two instances may fail together.
        faults_.push_back({"server: freeze and thaw", [this] { freeze(*single_); }});
        faults_.push_back({"server: kill and start", [this] {
                               single_->kill();
                               pause();
                               single_->restart();
                           }});
    }

    void add_sentinel() {
        sentinel_ = std::make_unique<sentinel_group>();
        addresses_.emplace_back(sentinel_->url());
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
        addresses_.emplace_back(cluster_->url());
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

    bool run(std::chrono::seconds length) {
        referee judge;
        record results;
        std::vector<std::string> keys;
        for (std::string const kind : {"plain", "fenced", "fair"}) {
            for (int i = 0; i < 3; ++i) keys.push_back(kind + std::to_string(i));
            if (cluster_) keys.push_back(migrating_key(kind));
        }
        std::vector<std::unique_ptr<worker>> workers;
        for (int i = 0; i < 3; ++i)
            workers.push_back(std::make_unique<worker>(
                addresses_, keys, static_cast<unsigned>(random_()), judge, results));
        results_ = &results;
        auto const end = clock_type::now() + length;
        auto last = clock_type::now(); // the end of the last fault that was carried out
        fault_counts faults;
        for (auto const& each : faults_) faults[each.name] = {};
        while (clock_type::now() < end) {
            auto const& next = faults_[draw(faults_.size())];
            results.say(next.name);
            try {
                next.happens();
                ++faults[next.name].happened;
                note_calm(last);
                last = clock_type::now();
            } catch (std::exception const& e) {
                ++faults[next.name].failed;
                results.say(std::string("  not carried out: ") + e.what());
                if (note_calm(last)) last = clock_type::now(); // each minute is a finding
            }
            pause(2'000);
        }
        try {
            settle();
        } catch (std::exception const& e) {
            results.wrong(std::string("the servers did not settle after the last fault: ") +
                          e.what());
        }
        auto const before = results.grants();
        if (!wait_until([&] { return results.grants() > before + 50; }, 60s))
            results.wrong("no grants after the last fault");
        for (auto const& each : workers) each->stop();
        std::cout << "longest time without a fault: " << longest_calm_.count() << " ms\n";
        return results.summarize(faults, lost_keys_);
    }

private:
    void add(std::string_view name, std::function<void()> happens) {
        faults_.push_back({name, [this, happens = std::move(happens)] {
                               settle();
                               happens();
                           }});
    }
    /// Repairs all servers, and waits until they work.
    void settle() {
        if (single_) revive(*single_);
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
        for (auto const began = clock_type::now();;) {
            try {
                return moving.move_keys(most);
            } catch (cli_error const& e) {
                if (!contains(e.what(), "BUSYKEY") || since(began) > 5s) throw;
                find_doubles(from, to);
                std::this_thread::sleep_for(100ms);
            }
        }
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
    record* results_ = nullptr; // of run()
    std::size_t lost_keys_ = 0;
    milliseconds longest_calm_{0};
    std::unique_ptr<server> single_;
    std::unique_ptr<sentinel_group> sentinel_;
    std::unique_ptr<cluster_group> cluster_;
    std::vector<address> addresses_;
    std::vector<fault> faults_;
};

unsigned number(std::string_view option, std::string const& text) {
    std::istringstream in(text);
    int n = 0;
    if (!(in >> n) || !in.eof() || n <= 0)
        throw std::invalid_argument(std::string(option) + ": \"" + text +
                                    "\" is not a positive number");
    return static_cast<unsigned>(n);
}

} // namespace

int main(int count, char** arguments) {
    try {
        std::string const kind = count > 1 ? arguments[1] : "";
        unsigned seconds = 20, seed = 1;
        for (int i = 2; i + 1 < count; i += 2) {
            std::string_view const option = arguments[i];
            if (option == "--seconds") {
                seconds = number(option, arguments[i + 1]);
            } else if (option == "--seed") {
                seed = number(option, arguments[i + 1]);
            } else {
                throw std::invalid_argument("unknown option " + std::string(option));
            }
        }
        campaign all(seed);
        if (kind == "mixed") all.add_server();
        if (kind == "sentinel" || kind == "mixed") all.add_sentinel();
        if (kind == "cluster" || kind == "mixed") all.add_cluster();
        if (kind != "sentinel" && kind != "cluster" && kind != "mixed")
            throw std::invalid_argument(
                "usage: campaign sentinel | cluster | mixed [--seconds N] [--seed N]");
        return all.run(std::chrono::seconds(seconds)) ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "campaign: " << e.what() << '\n';
        return 2;
    }
}
