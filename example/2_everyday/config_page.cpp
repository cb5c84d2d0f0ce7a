// A page of configuration that many read and one rewrites. The page has three fields, and each is
// read and written by a request of its own. Under a read lock, a reader never sees fields of two
// versions. An editor writes under the write lock, looks at its work as one reader among others,
// and then lets go. In the end an editor hangs past its deadline, and then writes nevertheless.
//   config_page STORE INSTANCE...    STORE: the server with the page; the instances have the locks
#include <holdfast/client.hpp>
#include <holdfast/read_write_lock.hpp>
#include <holdfast/with_lock.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/redis/connection.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace redis = boost::redis;
using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> fields{"host", "port", "path"};

// The answer is the field, or nil if a later editor was here. A write raises the fence of the page.
// A read only compares: readers may have different fences at one time.
constexpr std::string_view read_or_write =
    "local seen=redis.call('hget',KEYS[1],'fence') "
    "if seen and tonumber(seen)>tonumber(ARGV[1]) then return false end "
    "if ARGV[3] then redis.call('hset',KEYS[1],'fence',ARGV[1],ARGV[2],ARGV[3]) end "
    "return redis.call('hget',KEYS[1],ARGV[2]) or ''";

asio::awaitable<std::optional<std::string>> ask(redis::connection& store,
                                                redis::request const& request) {
    redis::response<std::optional<std::string>> response;
    co_await store.async_exec(request, response, asio::deferred);
    co_return std::get<0>(response).value();
}

asio::awaitable<std::string> read(redis::connection& store, std::string_view field,
                                  std::uint64_t fence) {
    redis::request request;
    request.push("EVAL", read_or_write, 1, "page", std::to_string(fence), field);
    auto const found = co_await ask(store, request);
    if (!found) throw std::runtime_error("a later editor was here");
    co_return *found;
}

asio::awaitable<bool> write(redis::connection& store, std::string_view field,
                            std::string const& value, std::uint64_t fence) {
    redis::request request;
    request.push("EVAL", read_or_write, 1, "page", std::to_string(fence), field, value);
    auto const written = co_await ask(store, request);
    co_return written.has_value();
}

/// The version of the page, or nothing if its fields are of two.
asio::awaitable<std::optional<std::string>> version(redis::connection& store, std::uint64_t fence) {
    auto const first = co_await read(store, fields[0], fence);
    for (auto const field : {fields[1], fields[2]}) {
        auto const other = co_await read(store, field, fence);
        if (other != first) co_return std::nullopt;
    }
    co_return first;
}

struct edition {
    holdfast::read_write_lock lock;
    redis::connection& store;
    std::string last = {};
    int reads = 0, torn = 0;
};

/// Reads until the last version is there.
asio::awaitable<void> reader(edition& page) {
    bool done = false;
    auto const look = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        auto const seen = co_await version(page.store, lease.fence());
        ++page.reads;
        if (!seen) ++page.torn;
        done = seen == page.last;
    };
    while (!done) co_await holdfast::with_lock(page.lock.read(), look);
}

asio::awaitable<void> edit(edition& page, std::string const& text) {
    auto const rewrite = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        for (auto const field : fields) {
            auto const written = co_await write(page.store, field, text, lease.fence());
            if (!written) throw std::runtime_error("a later editor was here");
        }
        // Others may read from now on, but nobody writes before we have looked.
        co_await lease.downgrade();
        auto const seen = co_await version(page.store, lease.fence());
        if (seen != text) throw std::runtime_error("somebody has written meanwhile");
    };
    co_await holdfast::with_lock(page.lock.write(), rewrite);
}

asio::awaitable<void> editor(edition& page) {
    for (int n = 1; n <= 10; ++n) {
        auto const text = "version " + std::to_string(n);
        co_await edit(page, text);
    }
    co_await edit(page, page.last);
}

asio::awaitable<bool> turns_a_late_editor_away(holdfast::client& locks, edition& page) {
    // Without a watchdog, the lease ends as if the process of its holder had been stopped.
    auto const lock =
        locks.make_read_write_lock("page", {.ttl = 300ms, .watchdog = false, .fencing = true});
    holdfast::lease hangs = co_await lock.write().acquire();
    co_await hangs.wait_end();
    co_await edit(page, page.last);
    auto const written = co_await write(page.store, "host", "late", hangs.fence());
    co_return !written;
}

asio::awaitable<int> play(holdfast::client& locks, redis::connection& store) {
    using namespace asio::experimental::awaitable_operators;
    edition page{locks.make_read_write_lock("page", {.ttl = 10s, .fencing = true}), store,
                 "the end"};
    auto one = reader(page), two = reader(page), three = reader(page), writes = editor(page);
    co_await (std::move(one) && std::move(two) && std::move(three) && std::move(writes));
    std::cout << "the page was read " << page.reads << " times, torn " << page.torn << " times\n";

    auto const turned_away = co_await turns_a_late_editor_away(locks, page);
    std::cout << (turned_away ? "a late write turned away\n" : "a late write was taken\n");
    co_await locks.shutdown();
    store.cancel();
    co_return turned_away&& page.torn == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: config_page STORE INSTANCE...");
        asio::io_context context;
        holdfast::address const store_address(argv[1]);
        redis::config config;
        config.addr = {store_address.host(), std::to_string(store_address.port())};
        redis::connection store(context);
        store.async_run(config, asio::detached);
        std::vector<holdfast::address> const instances(argv + 2, argv + argc);
        holdfast::client locks(context.get_executor(), instances);
        int result = 1;
        asio::co_spawn(context, play(locks, store), [&](std::exception_ptr e, int r) {
            if (e) std::rethrow_exception(e);
            result = r;
        });
        context.run();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "config_page: " << e.what() << '\n';
        return 1;
    }
}
