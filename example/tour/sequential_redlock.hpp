// Row 9: Redlock as the PHP library RedLock has it.
#ifndef HOLDFAST_TOUR_SEQUENTIAL_REDLOCK_HPP
#define HOLDFAST_TOUR_SEQUENTIAL_REDLOCK_HPP

#include "tour/older_way.hpp"
#include "tour/wire.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tour {

/// PHP's uniqid() at this time: the seconds and microseconds in hexadecimal.
std::string uniqid(std::chrono::microseconds since_1970);

/// Asks the servers in turn. Tries three times, with pauses of 100 to 200 ms.
class sequential_redlock final : public older_way {
public:
    using clock = std::function<std::chrono::microseconds()>;

    /// `clock`: the time of the client's machine, since 1970.
    sequential_redlock(std::vector<wire*> servers, std::string key, clock now);

    bool try_lock(milliseconds ttl) override;
    void unlock() override;
    /// The votes in the last round of the last try_lock().
    int granted() const noexcept { return granted_; }

private:
    bool lock_on(wire& server, milliseconds ttl);

    static constexpr int retry_count = 3;
    static constexpr int retry_delay = 200; // ms

    std::vector<wire*> servers_;
    std::string key_;
    clock now_;
    double quorum_;
    int granted_ = 0;
    std::string token_;
};

} // namespace tour

#endif
