// The nodes that have copies of grants which are under way. A release follows its grant: see
// protocol/cluster/cluster_route.hpp.
#ifndef HOLDFAST_REDIS_GRANT_ROUTES_HPP
#define HOLDFAST_REDIS_GRANT_ROUTES_HPP

#include "protocol/cluster/cluster_route.hpp"
#include "redis/wire/reply_handler.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>

namespace holdfast::redis {

class grant_routes {
public:
    struct destination {
        protocol::grant_route::node node = protocol::grant_route::none;
        bool asking = false; ///< the last copy went there after an ASK
    };

    /// A copy of the grant is sent to the node.
    void sent(grant_id const& grant, protocol::grant_route::node to, bool asking) {
        auto& r = all_[grant];
        r.route.grant_sent(to);
        r.asking = asking;
        ++r.copies;
    }
    /// A copy was answered, or was not sent after all.
    void ended(grant_id const& grant) noexcept {
        auto const at = all_.find(grant);
        if (at != all_.end() && --at->second.copies == 0) all_.erase(at);
    }
    /// The release is submitted. Returns the node that it goes to.
    destination release(grant_id const& grant, protocol::grant_route::node slot_owner) {
        auto const at = all_.find(grant);
        if (at == all_.end()) return {.node = slot_owner};
        auto const to = at->second.route.release(slot_owner);
        return {.node = to, .asking = at->second.asking};
    }
    void clear() noexcept { all_.clear(); }

private:
    struct entry {
        protocol::grant_route route;
        std::uint16_t copies = 0;
        bool asking = false;
    };
    boost::unordered_flat_map<grant_id, entry> all_;
};

} // namespace holdfast::redis

#endif
