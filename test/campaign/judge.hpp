// Looks for leases that were held at the same time and must not, and for fences that do not grow.
// It knows locks, readers and writers, and permits; a lock on several keys is a claim for each key.
//
// doc/guarantees.md names faults after which mutual exclusion may fail for a while. A lease that
// was granted in such a window may overlap earlier ones until the window ends. Its fence counts for
// nothing.
//
// In a process, those that wait for a key get it in the order in which they asked.
//
// Fences are those of an object with one call, "the next fence". Where they differ, a history of
// such an object is linearizable if and only if no call has a smaller fence than one that ended
// before it began: the fences themselves are the order. Readers are compared with writers alone.
#ifndef HOLDFAST_TEST_CAMPAIGN_JUDGE_HPP
#define HOLDFAST_TEST_CAMPAIGN_JUDGE_HPP

#include <holdfast/options.hpp>

#include "campaign/history.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// From the first moment on, and before the second.
struct window {
    moment from, to;
};

class judge {
public:
    /// `start`: findings tell their time from then on.
    explicit judge(std::vector<window> windows = {}, moment start = {})
        : windows_(std::move(windows))
        , start_(start) {}

    /// What is wrong with these leases.
    std::vector<std::string> findings(std::vector<claim> const& all) {
        found_.clear();
        in_windows_ = overlaps_ = 0;
        std::map<std::string, std::vector<claim>> by_key;
        for (auto const& c : all) {
            if (end_of_window(c.begins)) ++in_windows_;
            if (c.reads && *c.reads < c.ends) {
                auto writes = c, reads = c;
                writes.ends = reads.begins = *c.reads;
                reads.how = lock_access::read;
                reads.fence = 0; // it is the writer's
                by_key[c.key].push_back(writes);
                by_key[c.key].push_back(reads);
            } else {
                by_key[c.key].push_back(c);
            }
        }
        for (auto& [key, claims] : by_key) {
            std::ranges::stable_sort(claims, {}, &claim::begins);
            auto const before = found_.size();
            look_for_two(claims);
            overlaps_ += found_.size() - before;
            look_at_fences(claims);
            look_at_order(claims);
        }
        return std::move(found_);
    }
    /// Findings of the last history that are more holders than there may be.
    std::size_t overlaps() const { return overlaps_; }
    /// Claims of the last history that were granted in a window.
    std::uint64_t in_windows() const { return in_windows_; }

private:
    /// If the moment is in a window.
    std::optional<moment> end_of_window(moment t) const {
        std::optional<moment> end;
        for (auto const& w : windows_)
            if (t >= w.from && t < w.to) end = std::max(end.value_or(w.to), w.to);
        return end;
    }

    /// `claims`: of one key, in the order of their beginnings.
    void look_for_two(std::vector<claim> const& claims) {
        std::vector<claim const*> held;
        for (auto const& c : claims) {
            std::erase_if(held, [&](claim const* other) { return other->ends <= c.begins; });
            auto const excused = end_of_window(c.begins);
            std::size_t permits = 1;
            for (auto const* const other : held) {
                if (excused && std::min(c.ends, other->ends) <= *excused) continue;
                auto const both = other->how == lock_access::permit && c.how == lock_access::permit;
                if (both ? other->slot == c.slot : conflict(*other, c))
                    tell("two have ", c, *other);
                if (both) ++permits;
            }
            if (c.how == lock_access::permit && permits > c.permits) {
                found_.push_back(std::to_string(permits) + " have one of " +
                                 std::to_string(c.permits) + " permits of " + c.key + when(c));
            }
            held.push_back(&c);
        }
    }
    static bool conflict(claim const& a, claim const& b) {
        return a.how != lock_access::read || b.how != lock_access::read;
    }

    /// The greatest fence of those whose time is before another.
    class fences_by_time {
    public:
        fences_by_time(std::vector<claim const*> const& all, moment claim::*time) {
            for (auto const* const c : all) fences_.emplace_back(c->*time, c->fence);
            std::ranges::sort(fences_);
            for (std::size_t i = 1; i < fences_.size(); ++i)
                fences_[i].second = std::max(fences_[i].second, fences_[i - 1].second);
        }
        std::uint64_t greatest_before(moment t) const {
            auto const end = std::ranges::lower_bound(fences_, std::pair(t, std::uint64_t{0}));
            return end == fences_.begin() ? 0 : std::prev(end)->second;
        }

    private:
        std::vector<std::pair<moment, std::uint64_t>> fences_;
    };
    /// Those that were given before a call, or to a lease that had ended before.
    struct earlier_fences {
        explicit earlier_fences(std::vector<claim const*> const& all)
            : given(all, &claim::begins)
            , ended(all, &claim::ends) {}
        std::uint64_t greatest(claim const& c) const {
            return std::max(given.greatest_before(c.asked), ended.greatest_before(c.begins));
        }
        fences_by_time given, ended;
    };
    void look_at_fences(std::vector<claim> const& claims) {
        std::map<unsigned, std::vector<claim const*>> by_slot;
        for (auto const& c : claims)
            if (c.fence != 0 && !end_of_window(c.begins))
                by_slot[c.how == lock_access::permit ? c.slot : 0].push_back(&c);
        for (auto const& [slot, all] : by_slot) {
            std::vector<claim const*> written;
            std::ranges::copy_if(all, std::back_inserter(written),
                                 [](claim const* c) { return c->how != lock_access::read; });
            earlier_fences const any(all), writers(written);
            for (auto const* const c : all) {
                auto const reads = c->how == lock_access::read;
                auto const before = (reads ? writers : any).greatest(*c);
                if (c->adopted ? c->fence < before : c->fence <= before)
                    found_.push_back("the fence " + std::to_string(c->fence) + " of " +
                                     name_of(*c) + " follows " + std::to_string(before) + when(*c));
            }
        }
    }

    /// G24: in a process, waiters get the lock in the order in which they asked.
    void look_at_order(std::vector<claim> const& claims) {
        std::map<unsigned, claim const*> last; // of each process
        for (auto const& c : claims) {
            if (c.how != lock_access::exclusive || !c.waited) continue;
            auto& before = last[c.client];
            if (before != nullptr && c.asked < before->asked)
                found_.push_back("one waited for " + name_of(c) + " longer than the one before, " +
                                 "by " + std::to_string((before->asked - c.asked).count()) + " us" +
                                 when(c));
            before = &c;
        }
    }

    static std::string name_of(claim const& c) {
        return c.how == lock_access::permit ? "the slot " + std::to_string(c.slot) + " of " + c.key
                                            : "the key " + c.key;
    }
    std::string when(claim const& c) const {
        return ", from " + std::to_string((c.begins - start_).count() / 1'000) + " ms on";
    }
    void tell(std::string const& what, claim const& c, claim const& other) {
        auto const both = std::min(c.ends, other.ends) - c.begins;
        found_.push_back(what + name_of(c) + " for " + std::to_string(both.count()) + " us" +
                         when(c));
    }

    std::vector<window> windows_;
    moment const start_;
    std::vector<std::string> found_;
    std::size_t overlaps_ = 0;
    std::uint64_t in_windows_ = 0;
};

/// Leases that were lost although nothing had happened. A lease of 500 ms is extended after a third
/// of that, so a client that stands still for longer than the rest loses it.
inline std::size_t unexplained(std::vector<loss> const& lost, std::vector<pause> const& pauses) {
    constexpr moment long_pause = 300ms, seen_within = 1s, noted_within = 50ms;
    return static_cast<std::size_t>(std::ranges::count_if(lost, [&](loss const& l) {
        return std::ranges::none_of(pauses, [&](pause const& p) {
            return p.client == l.client && p.to - p.from >= long_pause &&
                   p.to >= l.seen - seen_within && p.from <= l.seen + noted_within;
        });
    }));
}

/// A process that adopts a lease which lasts cannot have the lock itself, whatever it waits for. In
/// these windows, and soon after, the lease may have been lost.
inline std::vector<std::string> refusals(std::vector<refusal> const& all,
                                         std::vector<window> const& disturbed) {
    constexpr moment soon = 1s;
    std::vector<std::string> found;
    for (auto const& r : all) {
        if (std::ranges::any_of(disturbed, [&](window const& w) {
                return w.from <= r.told && r.asked <= w.to + soon;
            }))
            continue;
        found.push_back("client " + std::to_string(r.client) +
                        " could not adopt a lease, and there was no fault: " + r.of);
    }
    return found;
}

/// The clients do the same all the time. So the memory of a process that has looked at it often
/// must not grow: the last third of the looks is held against the second.
inline std::vector<std::string> memory_findings(std::vector<usage_look> const& looks) {
    constexpr std::uint64_t most_growth_kb = 4'096;
    constexpr std::size_t enough = 12;
    std::map<unsigned, std::vector<std::uint64_t>> by_client;
    for (auto const& each : looks) by_client[each.client].push_back(each.kilobytes);
    std::vector<std::string> found;
    for (auto const& [client, all] : by_client) {
        if (all.size() < enough) continue;
        auto const third = static_cast<std::ptrdiff_t>(all.size() / 3);
        auto const before = *std::max_element(all.begin() + third, all.begin() + 2 * third);
        auto const after = *std::max_element(all.begin() + 2 * third, all.end());
        if (after > before + most_growth_kb)
            found.push_back("the memory of a client has grown from " + std::to_string(before) +
                            " KiB to " + std::to_string(after));
    }
    return found;
}

/// A client needs a small part of a processor, so one that computes in nearly all the time in which
/// it could goes round in a circle. On a busy machine it waits for the rest of the time.
inline std::vector<std::string> processor_findings(std::vector<usage_look> const& looks) {
    constexpr moment long_enough = 10s;
    constexpr double most = 0.8;
    std::map<unsigned, std::vector<usage_look>> by_client;
    for (auto const& each : looks) by_client[each.client].push_back(each);
    std::vector<std::string> found;
    for (auto const& [client, all] : by_client) {
        auto before = all.begin();
        for (auto const& now : all) {
            auto const is_later = [&](auto const& l) { return now.seen - l.seen < long_enough; };
            auto const next = std::find_if(before, all.end(), is_later);
            if (next == all.begin()) continue;
            before = std::prev(next);
            using seconds = std::chrono::duration<double>;
            auto const computed = seconds(now.computed - before->computed);
            auto const possible = seconds(now.seen - before->seen - (now.waited - before->waited));
            if (computed <= most * possible) continue;
            found.push_back("the client " + std::to_string(client) + " has computed for " +
                            std::to_string(computed.count()) + " of the " +
                            std::to_string(possible.count()) + " s in which it could");
            break;
        }
    }
    return found;
}

} // namespace holdfast::campaign

#endif
