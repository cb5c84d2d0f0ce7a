// Servers with TLS, and the files of both sides.
#ifndef HOLDFAST_TEST_INTEGRATION_TLS_FLEET_HPP
#define HOLDFAST_TEST_INTEGRATION_TLS_FLEET_HPP

#include <holdfast/address.hpp>
#include <holdfast/client_stats.hpp>

#include "integration/kinds.hpp"
#include "integration/test_client.hpp"
#include "support/certificates.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/swept_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

inline certificate_options const usual_names{.names = "DNS:server.test,IP:127.0.0.1"};

struct tls_server_options {
    certified certificate{}; ///< empty: one of the root, with the usual names
    std::string trusts{};    ///< authorities of clients; empty: the root
    bool wants_certificate = false;
    std::vector<std::string> arguments{};
};

class tls_fleet {
public:
    explicit tls_fleet(std::size_t size, server_kind const& kind = default_server(),
                       tls_server_options const& options = {}) {
        own.ca_file = at.write("ca", root.certificate());
        server_options each;
        each.kind = kind;
        auto const c =
            options.certificate.key.empty() ? root.issue(usual_names) : options.certificate;
        auto const paths = write(c);
        each.arguments = {
            "--tls-ca-cert-file",
            options.trusts.empty() ? own.ca_file : at.write("clients", options.trusts),
            "--tls-cert-file",
            paths.first,
            "--tls-key-file",
            paths.second,
            "--tls-auth-clients",
            options.wants_certificate ? "yes" : "no"};
        each.arguments.insert(each.arguments.end(), options.arguments.begin(),
                              options.arguments.end());
        each.extra_ports = {"tls-port"};
        servers = std::make_unique<fleet>(size, each);
    }

    /// The client has this certificate.
    void use(certified const& c) {
        own.certificate_file = at.write("cert", c.certificate);
        own.key_file = at.write("key", c.key);
    }
    /// All servers have another certificate from now on. Open connections stay.
    void rotate(certified const& c) {
        auto const paths = write(c);
        for (server& each : *servers) {
            auto const said = redis_cli(each).command(
                {"CONFIG", "SET", "tls-cert-file", paths.first, "tls-key-file", paths.second});
            BOOST_REQUIRE(said.is_ok());
        }
    }

    std::uint16_t port(std::size_t i) const { return (*servers)[i].port("tls-port"); }
    address at_port(std::uint16_t number, std::string const& host = "127.0.0.1") const {
        address_parts parts;
        parts.hosts = {{host, number}};
        parts.tls = true;
        parts.tls_options = own;
        return parts;
    }
    /// With the options of the client as they are now.
    std::vector<address> addresses() const {
        std::vector<address> all;
        for (std::size_t i = 0; i < servers->size(); ++i) all.push_back(at_port(port(i)));
        return all;
    }
    /// Ends all connections but that of the witness.
    static void cut(server const& on) {
        redis_cli(on).command({"CLIENT", "KILL", "TYPE", "normal"});
    }

    authority root;
    swept_folder at;
    tls_options own; ///< of the client
    std::unique_ptr<fleet> servers;

private:
    std::pair<std::string, std::string> write(certified const& c) {
        auto const number = std::to_string(++written_);
        return {at.write("server-cert-" + number, c.certificate),
                at.write("server-key-" + number, c.key)};
    }

    int written_ = 0;
};

} // namespace holdfast::test

#endif
