// What the clients of a campaign do, also as arguments of their processes.
#ifndef HOLDFAST_TEST_CAMPAIGN_PLAN_HPP
#define HOLDFAST_TEST_CAMPAIGN_PLAN_HPP

#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::campaign {

inline constexpr std::chrono::milliseconds ttl{1'500};
/// The longest ttl of the clients, and their max_ttl.
inline constexpr std::chrono::milliseconds longest_ttl{2'000};
inline constexpr std::chrono::milliseconds instance_timeout{500};
/// Beyond a bound, and beyond the pauses of the machine: what the scheduler of a busy machine adds.
inline constexpr std::chrono::milliseconds slack{400};

/// One of those below has a lock of its own as well.
inline std::string const key_with_own_lock = "multi1";
/// Those of the locks on several keys.
inline std::vector<std::vector<std::string>> const key_sets{
    {"multi0", "multi1"}, {"multi2", "multi1"}, {"multi0", "multi2", "multi3"}};

/// The parts of a text with commas between them.
inline std::vector<std::string> words(std::string const& list, char separator = ',') {
    std::vector<std::string> all;
    std::istringstream in(list);
    for (std::string each; std::getline(in, each, separator);)
        if (!each.empty()) all.push_back(each);
    return all;
}

struct plan {
    std::set<std::string> kinds;             ///< of locks
    std::vector<std::string> instances{};    ///< their addresses
    std::vector<std::string> moving_keys{};  ///< more keys, for plain locks, fences and fair ones
    std::string password_file{};             ///< of the single servers
    std::string routes_file{}, names_file{}; ///< see use_network()
    std::string without_guard{};             ///< what is switched off: restarts, turns or none
    bool judges_times = true;

    /// A word for each member.
    std::vector<std::string> arguments() const {
        return {joined(kinds, ','),
                joined(instances, ' '),
                joined(moving_keys, ','),
                password_file,
                routes_file,
                names_file,
                without_guard,
                judges_times ? "judged" : "told"};
    }
    static plan of(std::vector<std::string> const& a) {
        if (a.size() != 8) throw std::invalid_argument("no plan of a campaign");
        auto const kinds = words(a[0]);
        return {.kinds = {kinds.begin(), kinds.end()},
                .instances = words(a[1], ' '), // an address may have commas
                .moving_keys = words(a[2]),
                .password_file = a[3],
                .routes_file = a[4],
                .names_file = a[5],
                .without_guard = a[6],
                .judges_times = a[7] == "judged"};
    }

private:
    template <class Words>
    static std::string joined(Words const& all, char separator) {
        std::string text;
        for (auto const& each : all) {
            if (!text.empty()) text += separator;
            text += each;
        }
        return text;
    }
};

} // namespace holdfast::campaign

#endif
