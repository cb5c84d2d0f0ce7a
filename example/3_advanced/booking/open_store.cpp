#include "options.hpp"
#include "store.hpp"

namespace booking {

std::unique_ptr<store> open_store(std::string const& url, unsigned seats) {
    std::string const sqlite = "sqlite:";
    if (url.starts_with(sqlite)) {
        auto const file = url.substr(sqlite.size());
        if (file.empty()) throw usage_error("--database: \"" + url + "\" names no file");
        return open_sqlite(file, seats);
    }
    if (url.starts_with("postgresql://") || url.starts_with("postgres://")) {
#ifdef BOOKING_POSTGRESQL
        return open_postgres(url, seats);
#else
        throw usage_error("--database: this program was built without PostgreSQL (libpq-dev)");
#endif
    }
    // The rest of the URL may have a password.
    throw usage_error("--database: \"" + url.substr(0, url.find(':')) +
                      "\" is neither sqlite:FILE nor postgresql://..");
}

} // namespace booking
