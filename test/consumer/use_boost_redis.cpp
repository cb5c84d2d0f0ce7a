// A program that compiles its own Boost.Redis.
#include <boost/asio/io_context.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/request.hpp>
#include <boost/redis/resp3/parser.hpp>
#include <boost/redis/src.hpp>

#include <chrono>

namespace redis = boost::redis;

namespace {

bool writes_and_parses() {
    redis::request request;
    request.push("GET", "key");
    redis::resp3::parser parser;
    boost::system::error_code ec;
    auto const node = parser.consume("$5\r\nvalue\r\n", ec);
    return request.payload() == "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n" && !ec && node &&
           node->value == "value";
}

} // namespace

// True if Boost.Redis works. No server listens on its port.
bool use_boost_redis() {
    boost::asio::io_context context;
    redis::connection connection(context, redis::logger(redis::logger::level::disabled));
    redis::config config;
    config.addr = {"127.0.0.1", "1"};
    config.reconnect_wait_interval = std::chrono::seconds(0);
    redis::request ping;
    ping.push("PING");
    bool refused = false;
    bool ended = false;
    connection.async_exec(ping, redis::ignore, [&](boost::system::error_code ec, std::size_t) {
        refused = ec.failed();
    });
    connection.async_run(config, [&](boost::system::error_code ec) {
        ended = ec.failed();
        connection.cancel();
    });
    context.run();
    return refused && ended && writes_and_parses();
}
