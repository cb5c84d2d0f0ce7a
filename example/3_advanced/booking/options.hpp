// The options of the command line.
#ifndef BOOKING_OPTIONS_HPP
#define BOOKING_OPTIONS_HPP

#include <holdfast/address.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace booking {

/// The command line or the URL of the database is wrong. The message names the value.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct options {
    std::vector<holdfast::address> instances;
    std::string database = "sqlite:booking.db";
    std::string host = "127.0.0.1";
    std::uint16_t port = 8080;
    unsigned seats = 100;
    unsigned threads = 2;
    std::chrono::milliseconds ttl{5'000};
    std::chrono::milliseconds deadline{2'000};
    std::chrono::milliseconds payment{20};
    std::chrono::milliseconds hold{120'000};
    std::chrono::milliseconds drain{20'000};
};

/// The text for --help.
char const* usage() noexcept;

/// @throws usage_error, holdfast::system_error for an address
options parse_options(std::vector<std::string> const& arguments);

} // namespace booking

#endif
