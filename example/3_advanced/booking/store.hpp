// The database of the seats. Each write carries a fencing token, and the database rejects a late
// holder: UPDATE .. WHERE id = ? AND fence <= ?.
#ifndef BOOKING_STORE_HPP
#define BOOKING_STORE_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace booking {

/// A row of the table `seats`.
struct seat {
    int id = 0;
    std::string owner; ///< empty: free
    bool sold = false;
    std::int64_t held_until = 0; ///< for seats that are not sold: milliseconds since 1970
    std::int64_t version = 0;    ///< how often the seat was written
};

/// The database cannot be reached, or refused a statement.
struct store_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Blocks, each call for some 5 s at most. So it is called on threads of its own: see on_pool.hpp.
///
/// @par Thread safety  Safe, for as many threads as connections().
class store {
public:
    virtual ~store() = default;

    virtual unsigned connections() const noexcept = 0;

    /// Reads the seat for a holder, and raises the fence of the row to that of the holder. So no
    /// earlier holder can write between this read and the write that follows. Nothing if a later
    /// holder has been here.
    virtual std::optional<seat> claim(int id, std::uint64_t fence) = 0;

    /// Writes the seat and a row of the table `journal`, both or none. False if a later holder has
    /// been here.
    virtual bool write(seat const& changed, std::uint64_t fence) = 0;

    /// Reads the seat for a holder who does not write. Nothing if a later writer has been here.
    virtual std::optional<seat> read(int id, std::uint64_t fence) = 0;

    /// By number.
    virtual std::vector<seat> all() = 0;
};

/// Makes the tables and the seats 1 to `seats` where they are missing.
/// @throws usage_error for a URL that is neither sqlite:FILE nor postgresql://..; store_error
std::unique_ptr<store> open_store(std::string const& url, unsigned seats);

std::unique_ptr<store> open_sqlite(std::string const& file, unsigned seats);
std::unique_ptr<store> open_postgres(std::string const& url, unsigned seats);

} // namespace booking

#endif
