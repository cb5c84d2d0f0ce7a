// One connection: SQLite has one writer at a time. Several processes may use the file.
#include "store.hpp"

#include <sqlite3.h>

namespace booking {

namespace {

class connection {
public:
    explicit connection(std::string const& file) {
        auto const result = sqlite3_open(file.c_str(), &handle_);
        if (result == SQLITE_OK) {
            sqlite3_busy_timeout(handle_, 5'000); // for other processes
            return;
        }
        std::string const reason = sqlite3_errmsg(handle_);
        sqlite3_close(handle_);
        throw store_error(file + ": " + reason);
    }
    ~connection() { sqlite3_close(handle_); }
    connection(connection const&) = delete;
    connection& operator=(connection const&) = delete;

    void execute(std::string const& sql) {
        if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
    }
    [[noreturn]] void fail() {
        throw store_error(std::string("SQLite: ") + sqlite3_errmsg(handle_));
    }
    sqlite3* get() const noexcept { return handle_; }

private:
    sqlite3* handle_ = nullptr;
};

/// A prepared statement, for one use at a time.
class statement {
public:
    statement(connection& on, char const* sql)
        : on_(on) {
        if (sqlite3_prepare_v2(on.get(), sql, -1, &handle_, nullptr) != SQLITE_OK) on.fail();
    }
    ~statement() { sqlite3_finalize(handle_); }
    statement(statement const&) = delete;
    statement& operator=(statement const&) = delete;

    void bind(int parameter, std::int64_t value) { sqlite3_bind_int64(handle_, parameter, value); }
    void bind(int parameter, std::string const& value) {
        sqlite3_bind_text(handle_, parameter, value.c_str(), static_cast<int>(value.size()),
                          SQLITE_TRANSIENT); // NOLINT
    }
    /// True if there is a row.
    bool step() {
        auto const result = sqlite3_step(handle_);
        if (result != SQLITE_ROW && result != SQLITE_DONE) on_.fail();
        return result == SQLITE_ROW;
    }
    seat row() {
        auto const number = [&](int column) { return sqlite3_column_int64(handle_, column); };
        auto const* const owner = sqlite3_column_text(handle_, 1);
        return {static_cast<int>(number(0)),
                owner == nullptr ? "" : reinterpret_cast<char const*>(owner), number(2) != 0,
                number(3), number(4)};
    }
    /// After each use: ends the read or the write.
    void reset() noexcept { sqlite3_reset(handle_); }

private:
    connection& on_;
    sqlite3_stmt* handle_ = nullptr;
};

struct resetting {
    explicit resetting(statement& s)
        : used(s) {}
    ~resetting() { used.reset(); }
    resetting(resetting const&) = delete;
    resetting& operator=(resetting const&) = delete;
    statement& used;
};

class sqlite_store : public store {
public:
    sqlite_store(std::string const& file, unsigned seats)
        : connection_(file) {
        // WAL: readers and the writer do not wait for each other.
        connection_.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                            "BEGIN IMMEDIATE;"
                            "CREATE TABLE IF NOT EXISTS seats (id INTEGER PRIMARY KEY,"
                            " owner TEXT NOT NULL DEFAULT '', sold INTEGER NOT NULL DEFAULT 0,"
                            " held_until INTEGER NOT NULL DEFAULT 0,"
                            " version INTEGER NOT NULL DEFAULT 0,"
                            " fence INTEGER NOT NULL DEFAULT 0);"
                            "CREATE TABLE IF NOT EXISTS journal (seat INTEGER NOT NULL,"
                            " version INTEGER NOT NULL, owner TEXT NOT NULL,"
                            " sold INTEGER NOT NULL, fence INTEGER NOT NULL);"
                            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                            " WHERE i < " +
                            std::to_string(seats) +
                            ") INSERT INTO seats(id) SELECT i FROM n WHERE true"
                            " ON CONFLICT DO NOTHING;"
                            "COMMIT");
        claim_.emplace(connection_, "UPDATE seats SET fence = ?1 WHERE id = ?2 AND fence <= ?1"
                                    " RETURNING id, owner, sold, held_until, version");
        update_.emplace(connection_, "UPDATE seats SET owner = ?1, sold = ?2, held_until = ?3,"
                                     " version = ?4, fence = ?5 WHERE id = ?6 AND fence <= ?5");
        note_.emplace(connection_, "INSERT INTO journal VALUES (?6, ?4, ?1, ?2, ?5)");
        read_.emplace(connection_, "SELECT id, owner, sold, held_until, version FROM seats"
                                   " WHERE id = ?1 AND fence <= ?2");
        all_.emplace(connection_,
                     "SELECT id, owner, sold, held_until, version FROM seats ORDER BY id");
    }

    unsigned connections() const noexcept override { return 1; }

    std::optional<seat> claim(int id, std::uint64_t fence) override {
        resetting const end(*claim_);
        claim_->bind(1, static_cast<std::int64_t>(fence));
        claim_->bind(2, id);
        if (!claim_->step()) return std::nullopt;
        auto const found = claim_->row();
        claim_->step(); // the update is done with the last row
        return found;
    }

    bool write(seat const& changed, std::uint64_t fence) override {
        connection_.execute("BEGIN IMMEDIATE");
        try {
            run(*update_, changed, fence);
            auto const written = sqlite3_changes(connection_.get()) == 1;
            if (written) run(*note_, changed, fence);
            connection_.execute("COMMIT");
            return written;
        } catch (...) {
            sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
            throw;
        }
    }

    std::optional<seat> read(int id, std::uint64_t fence) override {
        resetting const end(*read_);
        read_->bind(1, id);
        read_->bind(2, static_cast<std::int64_t>(fence));
        if (!read_->step()) return std::nullopt;
        return read_->row();
    }

    std::vector<seat> all() override {
        resetting const end(*all_);
        std::vector<seat> found;
        while (all_->step()) found.push_back(all_->row());
        return found;
    }

private:
    static void run(statement& s, seat const& changed, std::uint64_t fence) {
        resetting const end(s);
        s.bind(1, changed.owner);
        s.bind(2, changed.sold ? 1 : 0);
        s.bind(3, changed.held_until);
        s.bind(4, changed.version);
        s.bind(5, static_cast<std::int64_t>(fence));
        s.bind(6, changed.id);
        s.step();
    }

    connection connection_;
    std::optional<statement> claim_, update_, note_, read_, all_;
};

} // namespace

std::unique_ptr<store> open_sqlite(std::string const& file, unsigned seats) {
    return std::make_unique<sqlite_store>(file, seats);
}

} // namespace booking
