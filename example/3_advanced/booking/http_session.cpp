#include "http_session.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <exception>
#include <iostream>
#include <optional>
#include <utility>

namespace booking {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t body_limit = 4'096;
constexpr auto idle_time = 30s;
constexpr auto write_time = 10s;

class session : public http_session, public std::enable_shared_from_this<session> {
public:
    session(asio::ip::tcp::socket socket, request_handler const& handler)
        : stream_(std::move(socket))
        , handler_(handler) {}

    void start() override {
        asio::co_spawn(stream_.get_executor(), run(shared_from_this()), asio::detached);
    }

    void finish() override {
        asio::post(stream_.get_executor(), [self = shared_from_this()] {
            self->finishing_ = true;
            if (self->reading_) self->stream_.cancel();
        });
    }

private:
    using parser_type = http::request_parser<http::string_body>;
    using message = http::response<http::string_body>;

    static asio::awaitable<void> run(std::shared_ptr<session> self) {
        co_await self->serve();
        beast::error_code ignored;
        self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    }

    asio::awaitable<void> serve() {
        for (bool open = true; open && !finishing_;) {
            parser_.emplace();
            parser_->body_limit(body_limit);
            auto const error = co_await read();
            if (is_end(error)) co_return;
            response answer;
            bool keep_alive = false;
            if (error) {
                answer = refusal(error);
            } else {
                keep_alive = parser_->get().keep_alive();
                answer = co_await handle();
            }
            open = co_await write(answer, keep_alive && !finishing_);
        }
    }

    asio::awaitable<beast::error_code> read() {
        stream_.expires_after(idle_time);
        reading_ = true;
        auto const ended =
            co_await http::async_read(stream_, buffer_, *parser_, asio::as_tuple(asio::deferred));
        reading_ = false;
        stream_.expires_never(); // the request has a deadline of its own
        co_return std::get<0>(ended);
    }

    /// No request to answer: the client is gone or was idle, or this server ends.
    static bool is_end(beast::error_code error) {
        if (!error) return false;
        if (error.category() != http::make_error_code(http::error{}).category()) return true;
        return error == http::error::end_of_stream || error == http::error::partial_message;
    }

    static response refusal(beast::error_code error) {
        if (error == http::error::body_limit) return {413, "{\"error\":\"the body is too long\"}"};
        if (error == http::error::header_limit)
            return {431, "{\"error\":\"the header is too long\"}"};
        return {400, "{\"error\":\"this is not HTTP/1.1: " + error.message() + "\"}"};
    }

    asio::awaitable<response> handle() {
        auto const& m = parser_->get();
        request const asked{std::string(m.method_string()), std::string(m.target()), m.body(),
                            std::string(m["X-Request-Timeout-Ms"])};
        try {
            co_return co_await handler_(asked);
        } catch (std::exception const& e) {
            std::cerr << "booking: " << asked.method << ' ' << asked.target << ": " << e.what()
                      << std::endl;
        }
        co_return response{500, "{\"error\":\"internal error\"}"};
    }

    /// False if the connection is to be closed.
    asio::awaitable<bool> write(response& answer, bool keep_alive) {
        message out{static_cast<http::status>(answer.status), 11};
        out.set(http::field::content_type, answer.content_type);
        if (answer.status == 503) out.set(http::field::retry_after, "1");
        if (!answer.allow.empty()) out.set(http::field::allow, answer.allow);
        out.keep_alive(keep_alive);
        out.body() = std::move(answer.body);
        out.prepare_payload();
        stream_.expires_after(write_time);
        auto const ended = co_await http::async_write(stream_, out, asio::as_tuple(asio::deferred));
        co_return keep_alive && !std::get<0>(ended);
    }

    beast::tcp_stream stream_;
    request_handler const& handler_;
    beast::flat_buffer buffer_;
    std::optional<parser_type> parser_;
    bool reading_ = false;
    bool finishing_ = false;
};

} // namespace

std::shared_ptr<http_session> make_http_session(asio::ip::tcp::socket socket,
                                                request_handler const& handler) {
    return std::make_shared<session>(std::move(socket), handler);
}

} // namespace booking
