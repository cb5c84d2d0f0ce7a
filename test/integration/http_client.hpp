// Sends one HTTP request, and waits for the answer.
#ifndef HOLDFAST_TEST_INTEGRATION_HTTP_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_HTTP_CLIENT_HPP

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::test {

struct http_reply {
    unsigned status = 0; ///< 0: there was no answer
    std::string body;    ///< without an answer, the reason
    std::map<std::string, std::string> headers{};
};

struct http_question {
    std::string method = "GET";
    std::string target = "/";
    std::string body{};
    std::map<std::string, std::string> headers{};
};

/// On a connection of its own to 127.0.0.1. Waits for up to 30 s.
///
/// @par Thread safety  Safe.
http_reply ask_http(std::uint16_t port, http_question const& question);

/// Sends bytes that may be no HTTP, and returns all that comes back until the server closes.
std::string send_raw(std::uint16_t port, std::string const& bytes);

} // namespace holdfast::test

#endif
