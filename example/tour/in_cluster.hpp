// Row 8: row 6 on the node that has the key's slot.
#ifndef HOLDFAST_TOUR_IN_CLUSTER_HPP
#define HOLDFAST_TOUR_IN_CLUSTER_HPP

#include "tour/older_way.hpp"
#include "tour/unique_token.hpp"
#include "tour/wire.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tour {

class in_cluster : public older_way {
public:
    /// `node`: the port of any node, which names the owner of the slot.
    in_cluster(journal& to, std::string client, std::uint16_t node, std::string password,
               std::string key)
        : journal_(to)
        , client_(std::move(client))
        , password_(std::move(password))
        , node_(to, client_, node, patience, password_)
        , key_(std::move(key)) {}

    bool try_lock(milliseconds ttl) override { return try_lock_as(key_, ttl); }
    void unlock() override { lock_->unlock(); }

protected:
    bool try_lock_as(std::string const& key, milliseconds ttl) {
        owner_.emplace(journal_, client_, owner_of(node_.send({"CLUSTER", "KEYSLOT", key})),
                       patience, password_);
        lock_.emplace(*owner_, key);
        return lock_->try_lock(ttl);
    }

    std::string const& key() const noexcept { return key_; }

private:
    static constexpr milliseconds patience{500};

    std::uint16_t owner_of(reply const& slot) {
        auto const map = node_.send({"CLUSTER", "SLOTS"});
        for (auto const& range : map.elements()) {
            auto const& fields = range.elements();
            if (fields.at(0).integer() > slot.integer() || fields.at(1).integer() < slot.integer())
                continue;
            return static_cast<std::uint16_t>(fields.at(2).elements().at(1).integer());
        }
        throw holdfast::test::cli_error("no node has the slot of the key");
    }

    journal& journal_;
    std::string client_;
    std::string password_;
    wire node_;
    std::string key_;
    std::optional<wire> owner_;
    std::optional<unique_token> lock_;
};

/// When the owner of the slot does not answer, the client tries with a name in another slot.
class retried_in_another_slot final : public in_cluster {
public:
    using in_cluster::in_cluster;

    bool try_lock(milliseconds ttl) override {
        try {
            return try_lock_as(key(), ttl);
        } catch (holdfast::test::cli_error const&) {
            return try_lock_as(key() + ":2", ttl);
        }
    }
};

} // namespace tour

#endif
