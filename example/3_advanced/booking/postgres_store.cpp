// A few connections, each used by one thread at a time. A connection that broke, or whose statement
// took too long, is made again at the next use.
#include "options.hpp"
#include "store.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <libpq-fe.h>
#include <mutex>
#include <poll.h>

namespace booking {

namespace {

constexpr unsigned pool_size = 4;
constexpr std::chrono::seconds time_limit{5}; // of a statement

using connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using result = std::unique_ptr<PGresult, decltype(&PQclear)>;

connection connect(std::string const& url) {
    char const* const names[] = {"dbname", "connect_timeout", nullptr};
    char const* const values[] = {url.c_str(), "5", nullptr};
    connection made(PQconnectdbParams(names, values, 1), &PQfinish);
    // Without it, libpq prints the notices of the server.
    PQsetNoticeProcessor(
        made.get(), [](void*, char const*) {}, nullptr);
    return made;
}

[[noreturn]] void fail(PGconn* on) {
    std::string text = PQerrorMessage(on);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    throw store_error("PostgreSQL: " + text);
}

/// Until there is a result, or the connection has broken.
void wait_for_result(PGconn* on) {
    auto const until = std::chrono::steady_clock::now() + time_limit;
    while (PQisBusy(on) != 0) {
        auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(
            until - std::chrono::steady_clock::now());
        pollfd polled{PQsocket(on), POLLIN, 0};
        if (left.count() <= 0)
            throw store_error("PostgreSQL: no result within " + std::to_string(time_limit.count()) +
                              " s");
        if (::poll(&polled, 1, static_cast<int>(left.count())) > 0 && PQconsumeInput(on) == 0)
            fail(on);
    }
}

result next(PGconn* on) {
    return result(PQgetResult(on), &PQclear);
}

/// `$1` is the first of the values.
template <std::size_t N>
result run(PGconn* on, char const* sql, std::array<std::string, N> const& values) {
    std::array<char const*, N> texts{};
    for (std::size_t i = 0; i < N; ++i) texts[i] = values[i].c_str();
    if (PQsendQueryParams(on, sql, static_cast<int>(N), nullptr, texts.data(), nullptr, nullptr,
                          0) == 0)
        fail(on);
    wait_for_result(on);
    auto done = next(on);
    auto const status = PQresultStatus(done.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(on);
    // Null ends the statement.
    for (result rest = next(on); rest;) rest = next(on);
    return done;
}

class postgres_store : public store {
public:
    postgres_store(std::string const& url, unsigned seats)
        : url_(url) {
        for (unsigned i = 0; i < pool_size; ++i) {
            auto made = connect(url);
            if (PQstatus(made.get()) != CONNECTION_OK) fail(made.get());
            free_.push_back(std::move(made));
        }
        // One transaction. Several processes may start at once, and two cannot make one table.
        auto const schema =
            "SELECT pg_advisory_xact_lock(7411);"
            "CREATE TABLE IF NOT EXISTS seats (id INTEGER PRIMARY KEY,"
            " owner TEXT NOT NULL DEFAULT '', sold INTEGER NOT NULL DEFAULT 0,"
            " held_until BIGINT NOT NULL DEFAULT 0, version BIGINT NOT NULL DEFAULT 0,"
            " fence BIGINT NOT NULL DEFAULT 0);"
            "CREATE TABLE IF NOT EXISTS journal (seat INTEGER NOT NULL, version BIGINT NOT NULL,"
            " owner TEXT NOT NULL, sold INTEGER NOT NULL, fence BIGINT NOT NULL);"
            "INSERT INTO seats(id) SELECT generate_series(1, " +
            std::to_string(seats) + ") ON CONFLICT DO NOTHING";
        auto* const first = free_.front().get();
        result const done(PQexec(first, schema.c_str()), &PQclear);
        if (PQresultStatus(done.get()) != PGRES_COMMAND_OK) fail(first);
    }

    unsigned connections() const noexcept override { return pool_size; }

    std::optional<seat> claim(int id, std::uint64_t fence) override {
        auto const done = query("UPDATE seats SET fence = $1 WHERE id = $2 AND fence <= $1"
                                " RETURNING id, owner, sold, held_until, version",
                                std::array{std::to_string(fence), std::to_string(id)});
        if (PQntuples(done.get()) == 0) return std::nullopt;
        return row(done.get(), 0);
    }

    // One statement, so both tables are written or none. With the default isolation, an UPDATE that
    // waited for another one looks at the row again, and compares the fence anew.
    bool write(seat const& changed, std::uint64_t fence) override {
        auto const done =
            query("WITH written AS (UPDATE seats SET owner = $1, sold = $2, held_until = $3,"
                  " version = $4, fence = $5 WHERE id = $6 AND fence <= $5"
                  " RETURNING id, version, owner, sold, fence)"
                  " INSERT INTO journal SELECT * FROM written",
                  std::array{changed.owner, std::string(changed.sold ? "1" : "0"),
                             std::to_string(changed.held_until), std::to_string(changed.version),
                             std::to_string(fence), std::to_string(changed.id)});
        return std::string(PQcmdTuples(done.get())) == "1";
    }

    std::optional<seat> read(int id, std::uint64_t fence) override {
        auto const done = query("SELECT id, owner, sold, held_until, version FROM seats"
                                " WHERE id = $1 AND fence <= $2",
                                std::array{std::to_string(id), std::to_string(fence)});
        if (PQntuples(done.get()) == 0) return std::nullopt;
        return row(done.get(), 0);
    }

    std::vector<seat> all() override {
        auto const done = query("SELECT id, owner, sold, held_until, version FROM seats"
                                " ORDER BY id",
                                std::array<std::string, 0>{});
        std::vector<seat> found;
        for (int i = 0; i < PQntuples(done.get()); ++i) found.push_back(row(done.get(), i));
        return found;
    }

private:
    /// Takes a connection out of the pool, and puts it back.
    class borrowed {
    public:
        explicit borrowed(postgres_store& from)
            : from_(from)
            , connection_(nullptr, &PQfinish) {
            std::unique_lock lock(from.mutex_);
            from.returned_.wait(lock, [&] { return !from.free_.empty(); });
            connection_ = std::move(from.free_.back());
            from.free_.pop_back();
        }
        ~borrowed() {
            {
                std::lock_guard const lock(from_.mutex_);
                from_.free_.push_back(std::move(connection_));
            }
            from_.returned_.notify_one();
        }
        borrowed(borrowed const&) = delete;
        borrowed& operator=(borrowed const&) = delete;
        connection& get() noexcept { return connection_; }

    private:
        postgres_store& from_;
        connection connection_;
    };

    template <std::size_t N>
    result query(char const* sql, std::array<std::string, N> const& values) {
        borrowed taken(*this);
        auto& on = taken.get();
        if (!on || PQstatus(on.get()) != CONNECTION_OK) on = connect(url_);
        try {
            return run(on.get(), sql, values);
        } catch (store_error const&) {
            // A late result would be taken for that of the next statement.
            on.reset();
            throw;
        }
    }

    static seat row(PGresult const* in, int i) {
        auto const text = [&](int column) { return std::string(PQgetvalue(in, i, column)); };
        return {std::stoi(text(0)), text(1), text(2) != "0", std::stoll(text(3)),
                std::stoll(text(4))};
    }

    std::string const url_;
    std::mutex mutex_;
    std::condition_variable returned_;
    std::vector<connection> free_;
};

} // namespace

std::unique_ptr<store> open_postgres(std::string const& url, unsigned seats) {
    std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const parsed(
        PQconninfoParse(url.c_str(), nullptr), &PQconninfoFree);
    // The message of libpq would have the part of the URL that is wrong, maybe the password.
    if (!parsed)
        throw usage_error("--database: libpq cannot read this URL of " +
                          url.substr(0, url.find(':')) + "; does the password need %XX?");
    return std::make_unique<postgres_store>(url, seats);
}

} // namespace booking
