#include "integration/http_client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <exception>
#include <functional>

namespace holdfast::test {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

using exchange = std::function<asio::awaitable<void>(beast::tcp_stream&)>;

asio::awaitable<void> connect(std::uint16_t port, beast::tcp_stream& stream, exchange const& talk) {
    stream.expires_after(std::chrono::seconds(30));
    asio::ip::tcp::endpoint const server(asio::ip::address_v4::loopback(), port);
    co_await stream.async_connect(server, asio::deferred);
    co_await talk(stream);
}

/// Empty, or why there is no answer.
std::string run(std::uint16_t port, exchange const& talk) {
    asio::io_context context(1);
    beast::tcp_stream stream(context);
    std::string problem;
    asio::co_spawn(context, connect(port, stream, talk), [&](std::exception_ptr error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (std::exception const& e) {
            problem = e.what();
        }
    });
    context.run();
    return problem;
}

} // namespace

http_reply ask_http(std::uint16_t port, http_question const& question) {
    http::request<http::string_body> request;
    request.method_string(question.method);
    request.target(question.target);
    request.set(http::field::host, "127.0.0.1");
    for (auto const& [name, value] : question.headers) request.set(name, value);
    request.body() = question.body;
    request.prepare_payload();

    http::response<http::string_body> response;
    beast::flat_buffer buffer;
    auto const problem = run(port, [&](beast::tcp_stream& stream) -> asio::awaitable<void> {
        co_await http::async_write(stream, request, asio::deferred);
        co_await http::async_read(stream, buffer, response, asio::deferred);
    });
    if (!problem.empty()) return {0, problem};
    http_reply reply{response.result_int(), response.body()};
    for (auto const& field : response)
        reply.headers[std::string(field.name_string())] = std::string(field.value());
    return reply;
}

std::string send_raw(std::uint16_t port, std::string const& bytes) {
    std::string all;
    auto const problem = run(port, [&](beast::tcp_stream& stream) -> asio::awaitable<void> {
        co_await asio::async_write(stream, asio::buffer(bytes), asio::deferred);
        co_await asio::async_read(stream, asio::dynamic_buffer(all), asio::deferred);
    });
    return all.empty() ? problem : all; // the end of the stream is an error, too
}

} // namespace holdfast::test
