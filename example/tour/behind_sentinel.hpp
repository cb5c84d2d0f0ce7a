// Row 7: row 6 on the primary that Sentinel names.
#ifndef HOLDFAST_TOUR_BEHIND_SENTINEL_HPP
#define HOLDFAST_TOUR_BEHIND_SENTINEL_HPP

#include "tour/older_way.hpp"
#include "tour/unique_token.hpp"
#include "tour/wire.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tour {

class behind_sentinel final : public older_way {
public:
    behind_sentinel(journal& to, std::string client, std::uint16_t sentinel, std::string key)
        : journal_(to)
        , client_(std::move(client))
        , sentinel_(to, client_, sentinel)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override {
        auto const named = sentinel_.send({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "orders"});
        auto const port = std::stoi(named.elements().at(1).string());
        primary_.emplace(journal_, client_, static_cast<std::uint16_t>(port));
        lock_.emplace(*primary_, key_);
        return lock_->try_lock(ttl);
    }
    void unlock() override { lock_->unlock(); }

private:
    journal& journal_;
    std::string client_;
    wire sentinel_;
    std::string key_;
    std::optional<wire> primary_;
    std::optional<unique_token> lock_;
};

} // namespace tour

#endif
