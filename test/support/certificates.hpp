// Certificates for the time of a test.
#pragma once

#include <string>

namespace holdfast::test {

// In PEM: an authority, and a server's certificate that it has signed.
struct certificates {
    std::string authority;
    std::string certificate;
    std::string key;
};

// `names` are the names of the server: "DNS:server.test,IP:127.0.0.1".
[[nodiscard]] certificates make_certificates(std::string const& names);

} // namespace holdfast::test
