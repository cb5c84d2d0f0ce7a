// The tokens with which the queues of this client stand in the lines of fair keys
// (redis/wire/kinds/fair_key.hpp). An instance shows by its token whose turn has come.
#ifndef HOLDFAST_RUNTIME_WAITING_LINE_HPP
#define HOLDFAST_RUNTIME_WAITING_LINE_HPP

#include "redis/wire/token.hpp"

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include <optional>
#include <string_view>
#include <utility>

namespace holdfast::runtime {

class active_queue;

class waiting_line {
public:
    /// Where a queue stands in line.
    struct place {
        std::optional<redis::token> token;
        unsigned instance = 0;
    };

    /// The queue stands in line at `instance`.
    void enter(active_queue& q, place& p, redis::token const& t, unsigned instance) {
        p = {t, instance};
        queues_.emplace(t, &q);
    }
    /// The queue leaves the line, or asks for the key with the token that it has there: the token
    /// may have a key after that, so it stands in no line again.
    std::optional<redis::token> leave(place& p) noexcept {
        if (p.token) queues_.erase(*p.token);
        return std::exchange(p.token, std::nullopt);
    }
    /// The queue whose turn has come. `name`: of the key that was written.
    active_queue* called(std::string_view name) const {
        if (queues_.empty()) return nullptr;
        auto const at = queues_.find(redis::token::of_text(name));
        return at == queues_.end() ? nullptr : at->second;
    }
    void clear() noexcept { queues_.clear(); }

private:
    boost::unordered_flat_map<redis::token, active_queue*, boost::hash<redis::token>> queues_;
};

} // namespace holdfast::runtime

#endif
