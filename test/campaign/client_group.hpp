// The client processes of a campaign.
#ifndef HOLDFAST_TEST_CAMPAIGN_CLIENT_GROUP_HPP
#define HOLDFAST_TEST_CAMPAIGN_CLIENT_GROUP_HPP

#include "campaign/history.hpp"
#include "campaign/plan.hpp"
#include "campaign/results.hpp"
#include "support/child_process.hpp"
#include "support/shifted_clock.hpp"
#include "support/swept_folder.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// A lease that one of them gives away goes to the next one. All functions but the reading of the
/// processes' output are called by one thread: the processes end with the thread that has started
/// them.
class client_group {
public:
    /// `plans`: one for each. `folder`: for the histories.
    client_group(std::vector<plan> plans, std::string folder, unsigned seed, record& results)
        : seed_(seed)
        , results_(results)
        , plans_(std::move(plans))
        , folder_(std::move(folder)) {
        for (std::size_t i = 0; i < plans_.size(); ++i) {
            clocks_.push_back(std::make_unique<member_clock>());
            auto next = start(i);
            std::lock_guard const lock(mutex_);
            members_.push_back(std::move(next));
        }
    }
    ~client_group() { end_readers(); }
    client_group(client_group const&) = delete;
    client_group& operator=(client_group const&) = delete;

    std::size_t size() const { return members_.size(); }
    /// Another process takes its place.
    void kill(std::size_t i) {
        members_[i]->gone = true;
        if (members_[i]->process.has_ended()) {
            note_end(*members_[i]);
        } else {
            members_[i]->process.kill();
        }
        auto next = start(i);
        {
            std::lock_guard const lock(mutex_);
            std::swap(members_[i], next);
        }
    }
    /// One that has ended by itself is a finding.
    void replace_ended() {
        for (std::size_t i = 0; i < size(); ++i)
            if (members_[i]->process.has_ended()) kill(i);
    }
    /// Stops the process. Lines that are sent to it wait until it goes on.
    void freeze(std::size_t i) { members_[i]->process.stop(); }
    void thaw(std::size_t i) { members_[i]->process.go_on(); }

    /// The clock of the system is so far off from now on, also for a process that takes its place.
    void shift_clock(std::size_t i, milliseconds to) {
        clocks_[i]->at.advance(to - clocks_[i]->at.shift());
    }
    /// The process begins another one, with copies of its connections.
    void fork(std::size_t i) {
        std::lock_guard const lock(mutex_);
        members_[i]->process.say("fork");
    }

    /// What all of them have written until now.
    history so_far() const {
        history all;
        for (unsigned i = 0; i < started_; ++i) all.read(path_of(i), i);
        return all;
    }
    /// From now on none gives a lease away. All that were given are with the next process.
    void keep() {
        say_to_all("keep");
        auto const all_keep = [this] {
            return std::ranges::all_of(members_, [](auto const& m) { return m->kept.load(); });
        };
        if (!test::wait_until(all_keep, std::chrono::seconds(60), 10ms))
            results_.wrong("a client does not keep its leases");
    }
    /// Ends them. Each has a limit for its last calls.
    void stop() {
        say_to_all("stop");
        for (auto const& m : members_) {
            if (m->process.status(std::chrono::seconds(120)) != 0) note_end(*m);
        }
        end_readers();
    }

private:
    struct member {
        explicit member(std::vector<std::string> arguments)
            : process("/usr/bin/env", std::move(arguments)) {}
        ~member() { gone = true; }
        test::child_process process;
        std::atomic<bool> gone{false}, kept{false};
        std::jthread reader;
    };

    struct member_clock {
        test::swept_folder folder;
        test::shifted_clock at{folder.path()};
    };

    std::string path_of(unsigned number) const {
        return folder_ + "/history-" + std::to_string(number);
    }
    std::unique_ptr<member> start(std::size_t place) {
        auto arguments = plans_[place].arguments();
        auto const number = started_++;
        // It exists before it is read.
        history_file const made(path_of(number));
        auto const seed = std::to_string(seed_ + number);
        auto const program = std::filesystem::read_symlink("/proc/self/exe").string();
        arguments.insert(arguments.begin(), {program, "--driver", seed, path_of(number)});
        auto const clock = clocks_[place]->at.environment();
        arguments.insert(arguments.begin(), clock.begin(), clock.end());
        auto m = std::make_unique<member>(std::move(arguments));
        m->reader = std::jthread([this, m = m.get()] { read(*m); });
        return m;
    }
    void say_to_all(std::string const& order) {
        for (std::size_t i = 0; i < size(); ++i) {
            try {
                std::lock_guard const lock(mutex_);
                members_[i]->process.say(order);
            } catch (std::exception const& e) {
                results_.wrong("a client does not hear: " + std::string(e.what()));
            }
        }
    }
    void note_end(member& m) {
        results_.wrong("a client has ended with the status " +
                       std::to_string(m.process.status(std::chrono::seconds(0))));
    }
    void end_readers() {
        for (auto const& m : members_) m->gone = true;
        for (auto const& m : members_)
            if (m->reader.joinable()) m->reader.join();
    }
    void read(member& from) {
        while (!from.gone && !from.process.output_ended()) {
            auto const said = from.process.line(100ms);
            if (said.starts_with("give ")) pass_on(from, "take " + said.substr(5));
            if (said == "kept") from.kept = true;
        }
    }
    /// A process that has ended, or is frozen, lets the lease go with its ttl.
    void pass_on(member const& from, std::string const& lease) {
        std::lock_guard const lock(mutex_);
        for (std::size_t i = 0; i < size(); ++i) {
            if (members_[i].get() != &from) continue;
            try {
                members_[(i + 1) % size()]->process.say(lease);
            } catch (std::exception const&) {
            }
        }
    }

    unsigned const seed_;
    record& results_;
    std::vector<plan> const plans_;
    std::string const folder_;
    std::vector<std::unique_ptr<member_clock>> clocks_;
    unsigned started_ = 0;
    std::mutex mutex_; ///< of the list, and of what is said
    std::vector<std::unique_ptr<member>> members_;
};

} // namespace holdfast::campaign

#endif
