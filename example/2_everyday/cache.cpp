// The application's own data, by Boost.Redis, beside the locks: a cache whose values are expensive.
// Many coroutines, on many machines, miss a value at once. The first one computes it under the
// lock, and the others wait for that and read it.
//   cache STORE INSTANCE...    STORE: the server of the cache; the locks are on the instances
#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/redis/connection.hpp>

#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace asio = boost::asio;
namespace redis = boost::redis;
using namespace std::chrono_literals;

constexpr int readers = 50;

struct application {
    asio::io_context context{1};
    redis::connection store{context, redis::logger{redis::logger::level::disabled}};
    int computed = 0;
    int read = 0;
    int left = readers;
};

asio::awaitable<std::optional<std::string>> cached(application& app, std::string const& name) {
    redis::request request;
    request.push("GET", name);
    redis::response<std::optional<std::string>> found;
    co_await app.store.async_exec(request, found);
    co_return std::get<0>(found).value();
}

asio::awaitable<std::string> compute(application& app, std::string const& name) {
    ++app.computed;
    asio::steady_timer expensive(app.context, 300ms);
    co_await expensive.async_wait();
    std::string const value = "the report of today";
    redis::request request;
    request.push("SET", name, value, "EX", 60);
    co_await app.store.async_exec(request);
    co_return value;
}

asio::awaitable<std::string> report(application& app, holdfast::lock const& filling) {
    std::string const name = "report";
    if (auto const value = co_await cached(app, name)) co_return *value;
    auto const fill = [&](holdfast::lease&) -> asio::awaitable<std::string> {
        // An earlier holder may have filled it while this one waited.
        if (auto const value = co_await cached(app, name)) co_return *value;
        co_return co_await compute(app, name);
    };
    co_return co_await holdfast::with_lock(filling, fill);
}

asio::awaitable<void> reader(application& app, holdfast::client& locks) {
    // An efficiency lock: if it failed, two would compute the value, and no data would be wrong.
    auto const value = co_await report(app, locks.make_lock("report:filling"));
    if (!value.empty()) ++app.read;
    if (--app.left > 0) co_return;
    std::cout << app.read << " read it, " << app.computed << " computed it\n";
    co_await locks.shutdown();
    app.store.cancel();
}

int main(int argc, char** argv) {
    try {
        if (argc < 3) throw std::runtime_error("usage: cache STORE INSTANCE...");
        application app;
        holdfast::address const store(argv[1]);
        redis::config config;
        config.addr = {store.host(), std::to_string(store.port())};
        app.store.async_run(config, asio::detached);
        std::vector<holdfast::address> const instances(argv + 2, argv + argc);
        holdfast::client locks(app.context.get_executor(), instances);
        for (int i = 0; i < readers; ++i)
            asio::co_spawn(app.context, reader(app, locks), [](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
            });
        app.context.run();
        return app.read == readers ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "cache: " << e.what() << '\n';
        return 1;
    }
}
