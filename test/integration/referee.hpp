// Looks for two holders of one lock, and for fences that do not grow.
#ifndef HOLDFAST_TEST_INTEGRATION_REFEREE_HPP
#define HOLDFAST_TEST_INTEGRATION_REFEREE_HPP

#include <holdfast/lease.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace holdfast::test {

/// From any thread.
class referee {
public:
    struct finding {
        bool overlaps = false;  ///< another lease of the key is held
        bool regresses = false; ///< its fence is not greater than all before
    };

    /// A lease was granted. `fenced`: it has a fence.
    finding begins(std::string const& key, lease const& l, bool fenced = false) {
        std::lock_guard const lock(mutex_);
        finding found;
        auto& here = keys_[key];
        for (auto const* const other : here.leases) {
            // A lease that is over stays so. If it is held after the check of the other, it was
            // held then.
            if (!other->held() || !l.held()) continue;
            found.overlaps = true;
            ++overlaps_;
        }
        here.leases.push_back(&l);
        if (!fenced || !l.held()) return found;
        found.regresses = l.fence() <= here.fence;
        if (found.regresses) ++regressions_;
        here.fence = std::max(here.fence, l.fence());
        return found;
    }
    /// Before it is released.
    void ends(std::string const& key, lease const& l) {
        std::lock_guard const lock(mutex_);
        std::erase(keys_[key].leases, &l);
    }
    unsigned overlaps() const {
        std::lock_guard const lock(mutex_);
        return overlaps_;
    }
    unsigned regressions() const {
        std::lock_guard const lock(mutex_);
        return regressions_;
    }

private:
    struct entry {
        std::vector<lease const*> leases;
        std::uint64_t fence = 0;
    };
    mutable std::mutex mutex_;
    std::map<std::string, entry> keys_;
    unsigned overlaps_ = 0, regressions_ = 0;
};

} // namespace holdfast::test

#endif
