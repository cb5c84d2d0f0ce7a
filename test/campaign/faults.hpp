// The faults of a campaign, and what they share.
#ifndef HOLDFAST_TEST_CAMPAIGN_FAULTS_HPP
#define HOLDFAST_TEST_CAMPAIGN_FAULTS_HPP

#include "campaign/history.hpp"
#include "campaign/judge.hpp"
#include "campaign/plan.hpp"
#include "campaign/results.hpp"
#include "support/server.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::campaign {

using namespace holdfast::test;

/// N3: two may hold a lock for about a second after SWAPDB, and the check that finds it out needs
/// an answer.
inline constexpr milliseconds unannounced = 1'000ms + instance_timeout;

struct fault {
    std::string name;
    std::function<void()> happens;
};
using fault_list = std::vector<fault>;

/// Chance, the length of faults, and what is noted.
class fault_context {
public:
    explicit fault_context(unsigned seed)
        : random_(seed) {}

    std::size_t draw(std::size_t below) { return random_() % below; }
    // The length of a fault is no synchronisation: whatever happens meanwhile must be right.
    void pause(std::size_t most = 600) {
        std::this_thread::sleep_for(milliseconds(1 + draw(most)));
    }
    void freeze(server& s) {
        s.freeze();
        pause(1'500);
        s.thaw();
    }
    void revive(server& s) {
        if (s.frozen()) s.thaw();
        if (!s.running()) s.restart();
    }
    /// From now on two may have a lock.
    void open_window(milliseconds length = unannounced) {
        auto const now = clock_type::now();
        windows_.push_back({at(now), at(now + length)});
    }
    /// The servers were repaired, and the fault begins.
    void begin() { began_ = clock_type::now(); }
    clock_type::time_point began() const { return began_; }
    std::vector<window> const& windows() const { return windows_; }
    record& results() { return results_; }

private:
    std::mt19937 random_;
    std::vector<window> windows_;
    clock_type::time_point began_{};
    record results_;
};

/// The servers of a deployment, or a part of them.
class group_of_servers {
public:
    explicit group_of_servers(fault_context& context)
        : context_(context) {}
    virtual ~group_of_servers() = default;
    group_of_servers(group_of_servers const&) = delete;
    group_of_servers& operator=(group_of_servers const&) = delete;

    virtual void add_faults(fault_list& list) = 0;
    /// Repairs all of them, and waits until they work.
    virtual void settle() = 0;

protected:
    /// A fault that begins with a repair of what those before it have left.
    void add(fault_list& list, std::string name, std::function<void()> happens) {
        list.push_back({std::move(name), [this, happens = std::move(happens)] {
                            settle();
                            context_.begin();
                            happens();
                        }});
    }

    fault_context& context_;
};

} // namespace holdfast::campaign

#endif
