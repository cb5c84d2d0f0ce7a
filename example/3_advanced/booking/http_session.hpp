// HTTP/1.1 on one connection. Boost.Beast is in http_session.cpp alone, as it takes long to
// compile.
#ifndef BOOKING_HTTP_SESSION_HPP
#define BOOKING_HTTP_SESSION_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <memory>
#include <string>

namespace booking {

struct request {
    std::string method;
    std::string target;
    std::string body;
    std::string timeout; ///< the header X-Request-Timeout-Ms; empty without it
};

struct response {
    unsigned status = 200;
    std::string body{};
    std::string content_type = "application/json";
    std::string allow{}; ///< the header Allow, for 405
};

using request_handler = std::function<boost::asio::awaitable<response>(request const&)>;

class http_session {
public:
    virtual ~http_session() = default;

    /// Starts on the executor of the socket, which is a strand. Lives until the connection ends.
    virtual void start() = 0;

    /// The request under way is answered, and no other one is read. From any thread.
    virtual void finish() = 0;
};

/// `handler` outlives the session.
std::shared_ptr<http_session> make_http_session(boost::asio::ip::tcp::socket socket,
                                                request_handler const& handler);

} // namespace booking

#endif
