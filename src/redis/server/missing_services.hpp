// The services that the server of a connection lacks: its degradations.
#ifndef HOLDFAST_REDIS_MISSING_SERVICES_HPP
#define HOLDFAST_REDIS_MISSING_SERVICES_HPP

#include <holdfast/client_stats.hpp>

#include "redis/server/status_board.hpp"
#include "redis/wire/secret_list.hpp"

#include <cstdint>
#include <string_view>

namespace holdfast::redis {

class missing_services {
public:
    /// The status shows them; no text has one of the secrets.
    missing_services(status_board& status, secret_list const& secrets)
        : status_(status)
        , secrets_(secrets) {}

    bool any() const { return all_ != 0; }
    bool has(degradation d) const { return (all_ & bit(d)) != 0; }

    void add(degradation d, std::string_view reason) {
        if (has(d)) return;
        all_ |= bit(d);
        status_.add_degradation(d, presentable(reason, secrets_));
    }
    void remove(degradation d) noexcept {
        if (!has(d)) return;
        all_ &= ~bit(d);
        status_.remove_degradation(d);
    }
    /// A new connection.
    void clear() noexcept {
        all_ = 0;
        status_.set_degradations({});
    }

private:
    static constexpr std::uint32_t bit(degradation d) {
        return std::uint32_t{1} << static_cast<unsigned>(d);
    }

    status_board& status_;
    secret_list const& secrets_;
    std::uint32_t all_ = 0;
};

} // namespace holdfast::redis

#endif
