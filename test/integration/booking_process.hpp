// A process of the example booking, and requests to it.
#ifndef HOLDFAST_TEST_INTEGRATION_BOOKING_PROCESS_HPP
#define HOLDFAST_TEST_INTEGRATION_BOOKING_PROCESS_HPP

#include "integration/child.hpp"
#include "integration/http_client.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

class booking_process {
public:
    booking_process(fleet const& instances, std::string const& database,
                    std::vector<std::string> const& more = {})
        : process("HOLDFAST_BOOKING", arguments(instances, database, more)) {
        auto const line = process.line();
        auto const colon = line.rfind(':');
        BOOST_REQUIRE_MESSAGE(line.starts_with("booking listens on "), '"' << line << '"');
        port_ = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1)));
    }

    std::uint16_t port() const noexcept { return port_; }

    http_reply get(std::string const& target) const { return ask_http(port_, {"GET", target}); }
    http_reply post(std::string const& target, std::string const& owner,
                    std::map<std::string, std::string> headers = {}) const {
        http_question const question{"POST", target, "{\"owner\":\"" + owner + "\"}",
                                     std::move(headers)};
        return ask_http(port_, question);
    }
    /// In a thread of its own.
    std::future<http_reply> posting(std::string const& target, std::string const& owner) const {
        return std::async(std::launch::async,
                          [this, target, owner] { return post(target, owner); });
    }

    /// The value of a figure of GET /metrics; -1 if it is not there.
    double metric(std::string const& name_and_labels) const {
        auto const text = '\n' + get("/metrics").body;
        auto const begin = text.find('\n' + name_and_labels + ' ');
        if (begin == text.npos) return -1.;
        return std::stod(text.substr(begin + name_and_labels.size() + 2));
    }
    bool metric_becomes(std::string const& name_and_labels, double value) const {
        return wait_until([&] { return metric(name_and_labels) == value; },
                          std::chrono::seconds(20), std::chrono::milliseconds(5));
    }
    /// As GET /seats has it: {"seat":1,"state":"free"}.
    bool shows(std::string const& seat) const { return contains(get("/seats").body, seat); }

    child process;

private:
    static std::vector<std::string> arguments(fleet const& instances, std::string const& database,
                                              std::vector<std::string> const& more) {
        std::vector<std::string> all{"--listen",           "127.0.0.1:0", "--instances",
                                     instances.url_list(), "--database",  database};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    std::uint16_t port_ = 0;
};

} // namespace holdfast::test

#endif
