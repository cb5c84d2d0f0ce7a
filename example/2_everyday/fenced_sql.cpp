// A row in SQL that rejects late holders: it is stored with the fencing token of its last writer.
// Here one holder hangs past its deadline, and then writes nevertheless.
//   fenced_sql FILE INSTANCE...    FILE: the SQLite database
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

using database = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;
using statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

void check(sqlite3* db, bool done) {
    if (!done) throw std::runtime_error(sqlite3_errmsg(db));
}

database open(char const* file) {
    sqlite3* opened = nullptr;
    auto const result = sqlite3_open(file, &opened);
    database db(opened, &sqlite3_close);
    if (result != SQLITE_OK)
        throw std::runtime_error(std::string(file) + ": " + sqlite3_errmsg(opened));
    auto const* const schema = "CREATE TABLE IF NOT EXISTS stock"
                               " (item TEXT PRIMARY KEY, pieces INTEGER, fence INTEGER);"
                               "INSERT INTO stock VALUES ('apples', 10, 0) ON CONFLICT DO NOTHING";
    check(opened, sqlite3_exec(opened, schema, nullptr, nullptr, nullptr) == SQLITE_OK);
    return db;
}

// One statement compares and writes, so no other writer comes between. A fence is below 2^53.
bool write(sqlite3* db, int pieces, std::uint64_t fence) {
    sqlite3_stmt* prepared = nullptr;
    auto const* const update =
        "UPDATE stock SET pieces = ?1, fence = ?2 WHERE item = 'apples' AND fence <= ?2";
    check(db, sqlite3_prepare_v2(db, update, -1, &prepared, nullptr) == SQLITE_OK);
    statement const s(prepared, &sqlite3_finalize);
    sqlite3_bind_int(prepared, 1, pieces);
    sqlite3_bind_int64(prepared, 2, static_cast<sqlite3_int64>(fence));
    check(db, sqlite3_step(prepared) == SQLITE_DONE);
    auto const written = sqlite3_changes(db) == 1;
    std::cout << pieces << (written ? " pieces: written\n" : " pieces: rejected, too late\n");
    return written;
}

asio::awaitable<int> play(holdfast::client& locks, sqlite3* db) {
    // Without a watchdog, the lease ends as if the process of its holder had been stopped.
    auto const stock =
        locks.make_lock("apples", {.ttl = 300ms, .watchdog = false, .fencing = true});
    holdfast::lease hangs = co_await stock.acquire();
    auto in_order = write(db, 10, hangs.fence());
    co_await hangs.wait_end();

    holdfast::lease next = co_await stock.acquire();
    in_order = in_order && write(db, 9, next.fence());
    co_await next.release();

    // The late holder has not checked held(), and still believes in its lease.
    auto const late = write(db, 11, hangs.fence());
    co_await locks.shutdown();
    co_return in_order && !late ? 0 : 1;
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: fenced_sql FILE INSTANCE...");
        asio::io_context context;
        database const db = open(argv[1]);
        std::vector<holdfast::address> const instances(argv + 2, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        int result = 1;
        asio::co_spawn(context, play(locks, db.get()), [&](std::exception_ptr e, int r) {
            if (e) std::rethrow_exception(e);
            result = r;
        });
        context.run();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "fenced_sql: " << e.what() << '\n';
        return 1;
    }
}
