// Holding and buying a seat under its write lock, and looking at it under its read lock.
#ifndef BOOKING_SEATS_HPP
#define BOOKING_SEATS_HPP

#include <holdfast/client.hpp>
#include <holdfast/read_write_lock.hpp>

#include "store.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace booking {

enum class action {
    hold,
    buy,
};

/// The end of a request for a seat.
struct outcome {
    enum class kind {
        done,        ///< held or sold to the owner
        taken,       ///< sold to another owner, or held by one
        deadline,    ///< the time of the request was over; nothing was written
        lost,        ///< the lease was lost; nothing was written
        unavailable, ///< too few instances, the database is away, or the server ends
    };
    kind result = kind::unavailable;
    std::string reason{}; ///< in words, if it is not done
    std::uint64_t fence = 0;
    seat found{}; ///< of a look
};

/// @par Thread safety  Safe.
class seats {
public:
    struct settings {
        unsigned count;
        std::chrono::milliseconds ttl;
        std::chrono::milliseconds payment;
        std::chrono::milliseconds hold;
    };

    seats(holdfast::client& locks, store& database, boost::asio::thread_pool& pool, settings s)
        : locks_(locks)
        , database_(database)
        , pool_(pool)
        , settings_(s) {}

    unsigned count() const noexcept { return settings_.count; }

    /// Waits for the lock of the seat, writes, and releases, all within `limit`. A buyer who
    /// repeats a request, for example because the answer was lost, gets the same answer.
    boost::asio::awaitable<outcome> change(action wanted, int id, std::string owner,
                                           std::chrono::milliseconds limit);

    /// Waits until no purchase of the seat is under way, together with others who look.
    boost::asio::awaitable<outcome> look(int id, std::chrono::milliseconds limit);

    /// Without a lock: a purchase that is under way does not show.
    boost::asio::awaitable<std::vector<seat>> all();

private:
    holdfast::read_write_lock lock_of(int id) const;
    boost::asio::awaitable<outcome> under_lease(action wanted, int id, std::string const& owner,
                                                std::uint64_t fence);

    holdfast::client& locks_;
    store& database_;
    boost::asio::thread_pool& pool_;
    settings settings_;
};

/// Milliseconds since 1970.
std::int64_t wall_clock();

} // namespace booking

#endif
