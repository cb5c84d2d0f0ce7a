// Certificates that tests make.
#pragma once

#include <chrono>
#include <memory>
#include <openssl/types.h>
#include <string>

namespace holdfast::test {

// A certificate and its key, in PEM.
struct certified {
    std::string certificate; // with the intermediate authorities below the root
    std::string key;
};

enum class key_kind {
    ec,
    rsa
};

struct certificate_options {
    std::string names = {}; // "DNS:server.test,IP:127.0.0.1"; empty: no names
    std::string common_name = "server of a test";
    // The validity, counted from now.
    std::chrono::hours from{-24};
    std::chrono::hours until{24};
    key_kind key = key_kind::ec;
    std::string key_password = {}; // empty: the key is not encrypted
    std::string usage = {};        // extendedKeyUsage: "clientAuth"; empty: none
};

// An authority, which signs certificates. OpenSSL finds an authority by its name, so each has its
// own.
class authority {
public:
    // `until`: the end of the authority's validity, counted from now.
    explicit authority(std::chrono::hours until = std::chrono::hours{24});
    // An authority signed by another one.
    explicit authority(authority const& by);

    [[nodiscard]] std::string certificate() const;
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    // Of its file in a directory of authorities.
    [[nodiscard]] std::string file_name() const;
    [[nodiscard]] certified issue(certificate_options const& options) const;
    [[nodiscard]] static certified self_signed(certificate_options const& options);

private:
    std::string name_;
    std::shared_ptr<EVP_PKEY> key_;
    std::shared_ptr<X509> certificate_;
    std::string chain_; // its own certificate and those above it, without the root
};

// The certificate alone, encrypted, as hardly any program writes it.
[[nodiscard]] std::string encrypted_certificate(certified const& c, std::string const& password);

// An authority, and a server's certificate that it has signed, in PEM.
struct certificates {
    std::string authority;
    std::string certificate;
    std::string key;
};

// `names` are the names of the server: "DNS:server.test,IP:127.0.0.1".
[[nodiscard]] certificates make_certificates(std::string const& names);

} // namespace holdfast::test
