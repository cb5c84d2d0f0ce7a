// An address made of its parts: the checks, and the names of the parts in the errors.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "support/text.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/un.h>
#include <vector>

using namespace std::string_literals;
using holdfast::address_parts;
using holdfast::deployment;
using holdfast::test::contains;

namespace {

using addr = holdfast::address;
using change = std::function<void(address_parts&)>;

address_parts server() {
    return {.hosts = {{"h"}}};
}

address_parts sentinel() {
    return {.deployment = deployment::sentinel, .hosts = {{"h"}}, .primary_name = "n"};
}

address_parts cluster() {
    return {.deployment = deployment::cluster, .hosts = {{"h"}}};
}

address_parts socket() {
    return {.socket_path = "/run/a"};
}

address_parts tls() {
    return {.hosts = {{"h"}}, .tls = true};
}

/// The message of the exception for the changed parts; empty if there is none.
std::string complaint(address_parts parts, change const& c) {
    c(parts);
    try {
        addr const a(std::move(parts));
        return {};
    } catch (holdfast::system_error const& e) {
        BOOST_TEST((e.code() == holdfast::errc::invalid_address));
        return e.what();
    }
}

struct fault {
    address_parts parts;
    change wrong;
    std::string_view start;
};

void check(std::vector<fault> const& table) {
    for (auto const& f : table) {
        BOOST_TEST_CONTEXT(f.start) {
            auto const said = complaint(f.parts, f.wrong);
            BOOST_TEST(said.starts_with("address_parts::" + std::string(f.start)), said);
            BOOST_TEST(!contains(said, "hunter2"), said);
        }
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(address_struct)

BOOST_AUTO_TEST_CASE(places) {
    constexpr auto limit = sizeof(sockaddr_un::sun_path) - 1;
    auto const too_long = '/' + std::string(limit, 's');
    check({
        {{}, [](auto&) {}, "hosts[0]: there is no host"},
        {server(), [](auto& p) { p.deployment = static_cast<deployment>(9); },
         "deployment: there is no such deployment"},
        {server(),
         [](auto& p) {
             p.tls = true;
             p.tls_options.min_version = static_cast<holdfast::tls_version>(9);
         },
         "tls_options.min_version: there is no such version of TLS"},
        {server(), [](auto& p) { p.hosts[0].host.clear(); }, "hosts[0]: the host is empty"},
        {server(), [](auto& p) { p.hosts.push_back({"i"}); }, "hosts[1]: a server has one host"},
        {cluster(),
         [](auto& p) {
             p.hosts.push_back({"H", 6379});
         },
         "hosts[1]: the host is given twice"},
        {sentinel(),
         [](auto& p) {
             p.hosts.push_back({"h", 26379});
         },
         "hosts[1]: the host is given twice"},
        {server(), [](auto& p) { p.hosts[0].host = "a b"; }, "hosts[0]: a host has only"},
        {server(), [](auto& p) { p.hosts[0].host = "a%20"; }, "hosts[0]: a host has only"},
        {server(), [](auto& p) { p.hosts[0].host = "a\0b"s; }, "hosts[0]: the host has a NUL"},
        {server(), [](auto& p) { p.hosts[0].host = "\xc3\xbc"; },
         "hosts[0]: the host is not ASCII"},
        {server(), [](auto& p) { p.hosts[0].host = "h:1"; },
         "hosts[0]: the host is no address of IPv6"},
        {server(), [](auto& p) { p.hosts[0].host = "[::1]"; }, "hosts[0]: the host is no address"},
        {server(), [](auto& p) { p.hosts[0].host = "::1\0"s; }, "hosts[0]: the host is no address"},
        {server(), [](auto& p) { p.hosts[0].host = "fe80::1%"; }, "hosts[0]: the host is no"},
        {server(), [](auto& p) { p.hosts[0].host = "fe80::1%a b"; }, "hosts[0]: the host is no"},
        {socket(), [](auto& p) { p.hosts.push_back({"h"}); },
         "socket_path: a socket excludes hosts"},
        {socket(), [](auto& p) { p.deployment = deployment::cluster; },
         "socket_path: neither Sentinel nor Cluster has a socket"},
        {socket(), [](auto& p) { p.socket_path = "run/a"; },
         "socket_path: a socket needs an absolute path"},
        {socket(), [](auto& p) { p.socket_path = "/a\0"s; }, "socket_path: the path has a NUL"},
        {socket(), [&](auto& p) { p.socket_path = too_long; }, "socket_path: the path of a Unix"},
        {socket(), [](auto& p) { p.tls = true; }, "tls: a Unix socket has no TLS"},
        {sentinel(), [](auto& p) { p.primary_name.clear(); },
         "primary_name: Sentinel needs the name of the primary"},
        {sentinel(), [](auto& p) { p.primary_name = "a\n"; },
         "primary_name: the name of the primary has a control character"},
        {server(), [](auto& p) { p.primary_name = "n"; },
         "primary_name: only Sentinel knows a primary by its name"},
        {cluster(), [](auto& p) { p.primary_name = "n"; }, "primary_name: only Sentinel"},
        {cluster(), [](auto& p) { p.database = 1; }, "database: a Cluster has no databases"},
    });
}

BOOST_AUTO_TEST_CASE(users) {
    auto const source = [](holdfast::credentials_reply const&) {};
    check({
        {server(), [](auto& p) { p.credentials.user = "hunter2"; },
         "credentials: there is a user and no password"},
        {server(),
         [&](auto& p) {
             p.credentials.password = "hunter2";
             p.credentials_source = source;
         },
         "credentials_source: a source of credentials excludes a password"},
        {sentinel(), [](auto& p) { p.sentinel_credentials.user = "hunter2"; },
         "sentinel_credentials: there is a user of the sentinels and no password"},
        {server(), [](auto& p) { p.sentinel_credentials.password = "hunter2"; },
         "sentinel_credentials: only sentinels take the credentials of sentinels"},
        {cluster(), [](auto& p) { p.sentinel_credentials.password = "hunter2"; },
         "sentinel_credentials: only sentinels"},
    });
    auto parts = server();
    parts.credentials_source = source;
    BOOST_TEST((addr(parts).credentials_source() != nullptr));
    BOOST_TEST((addr(server()).credentials_source() == nullptr));
}

BOOST_AUTO_TEST_CASE(tls_needs_to_be_on) {
    auto const context =
        std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
    std::vector<fault> const table{
        {{}, [](auto& p) { p.tls_options.ca_file = "/c"; }, "tls_options.ca_file"},
        {{}, [](auto& p) { p.tls_options.ca_directory = "/c"; }, "tls_options.ca_directory"},
        {{},
         [](auto& p) { p.tls_options.certificate_file = "/c"; },
         "tls_options.certificate_file"},
        {{}, [](auto& p) { p.tls_options.key_file = "/c"; }, "tls_options.key_file"},
        {{}, [](auto& p) { p.tls_options.key_password = "hunter2"; }, "tls_options.key_password"},
        {{}, [](auto& p) { p.tls_options.server_name = "c"; }, "tls_options.server_name"},
        {{}, [](auto& p) { p.tls_options.verify_name = "c"; }, "tls_options.verify_name"},
        {{},
         [](auto& p) { p.tls_options.min_version = holdfast::tls_version::v1_3; },
         "tls_options.min_version"},
        {{}, [](auto& p) { p.tls_options.verify = false; }, "tls_options.verify"},
        {{}, [&](auto& p) { p.tls_options.context = context; }, "tls_options.context"},
    };
    for (auto const& f : table) {
        for (auto const& parts : {server(), sentinel(), cluster(), socket()}) {
            auto const said = complaint(parts, f.wrong);
            BOOST_TEST(said.starts_with("address_parts::" + std::string(f.start) +
                                        ": it needs TLS (rediss://)"),
                       said);
            BOOST_TEST(!contains(said, "hunter2"), said);
        }
    }
}

BOOST_AUTO_TEST_CASE(tls_options_fit_together) {
    auto with_context = tls();
    with_context.tls_options.context =
        std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
    with_context.tls_options.server_name = "h";
    with_context.tls_options.verify_name = "10.0.0.1";
    BOOST_TEST(complaint(with_context, [](auto&) {}).empty());
    check({
        {with_context, [](auto& p) { p.tls_options.ca_file = "c"; },
         "tls_options.ca_file: a TLS context of the program excludes it"},
        {with_context, [](auto& p) { p.tls_options.ca_directory = "c"; },
         "tls_options.ca_directory: a TLS context"},
        {with_context, [](auto& p) { p.tls_options.certificate_file = "c"; },
         "tls_options.certificate_file: a TLS context"},
        {with_context, [](auto& p) { p.tls_options.key_file = "c"; },
         "tls_options.key_file: a TLS context"},
        {with_context, [](auto& p) { p.tls_options.key_password = "hunter2"; },
         "tls_options.key_password: a TLS context"},
        {with_context, [](auto& p) { p.tls_options.min_version = holdfast::tls_version::v1_3; },
         "tls_options.min_version: a TLS context"},
        {with_context, [](auto& p) { p.tls_options.verify = false; },
         "tls_options.verify: a TLS context"},
        {tls(), [](auto& p) { p.tls_options.ca_file = "a\0"s; },
         "tls_options.ca_file: the path has a NUL"},
        {tls(), [](auto& p) { p.tls_options.ca_directory = "a\0"s; },
         "tls_options.ca_directory: the path has a NUL"},
        {tls(), [](auto& p) { p.tls_options.certificate_file = "a\0"s; },
         "tls_options.certificate_file: the path has a NUL"},
        {tls(), [](auto& p) { p.tls_options.key_file = "a\0"s; },
         "tls_options.key_file: the path has a NUL"},
        {tls(), [](auto& p) { p.tls_options.certificate_file = "c"; },
         "tls_options.certificate_file: a certificate and its key need each other"},
        {tls(), [](auto& p) { p.tls_options.key_file = "c"; },
         "tls_options.key_file: a certificate and its key need each other"},
        {tls(), [](auto& p) { p.tls_options.key_password = "hunter2"; },
         "tls_options.key_password: there is no key"},
        {tls(), [](auto& p) { p.tls_options.server_name = "10.0.0.1"; },
         "tls_options.server_name: a client sends a name"},
        {tls(), [](auto& p) { p.tls_options.verify_name = "a b"; },
         "tls_options.verify_name: a host has only"},
    });
}

BOOST_AUTO_TEST_CASE(all_of_it_is_kept) {
    auto parts = sentinel();
    parts.hosts = {{"S1"}, {"FE80::0:1%Eth0", 7}};
    parts.database = 3;
    parts.credentials = {.user = "u\0"s, .password = "p\xff@"s};
    parts.sentinel_credentials = {.user = "su", .password = "sp"};
    parts.tls = true;
    parts.tls_options = {.ca_file = "ca",
                         .ca_directory = "dir",
                         .certificate_file = "cert",
                         .key_file = "key",
                         .key_password = "kp",
                         .server_name = "sn",
                         .verify_name = "vn",
                         .min_version = holdfast::tls_version::v1_3,
                         .verify = false};
    addr const a(parts);
    BOOST_TEST((a.deployment() == deployment::sentinel));
    BOOST_TEST((a.hosts() == std::vector<holdfast::host_port>{{"s1", 26379}, {"fe80::1%Eth0", 7}}));
    BOOST_TEST(a.host() == "s1");
    BOOST_TEST(a.port() == 26379);
    BOOST_TEST(a.socket_path().empty());
    BOOST_TEST(a.database() == 3U);
    BOOST_TEST(a.primary_name() == "n");
    BOOST_TEST(a.user() == "u\0"s);
    BOOST_TEST(a.password() == "p\xff@"s);
    BOOST_TEST(a.credentials().password == a.password());
    BOOST_TEST(a.sentinel_credentials().user == "su");
    BOOST_TEST(a.sentinel_credentials().password == "sp");
    BOOST_TEST(a.tls());
    BOOST_TEST(a.tls_options().ca_file == "ca");
    BOOST_TEST(a.tls_options().ca_directory == "dir");
    BOOST_TEST(a.tls_options().certificate_file == "cert");
    BOOST_TEST(a.tls_options().key_file == "key");
    BOOST_TEST(a.tls_options().key_password == "kp");
    BOOST_TEST(a.tls_options().server_name == "sn");
    BOOST_TEST(a.tls_options().verify_name == "vn");
    BOOST_TEST((a.tls_options().min_version == holdfast::tls_version::v1_3));
    BOOST_TEST(!a.tls_options().verify);
    BOOST_TEST(a.to_string() == "rediss+sentinel://s1:26379,[fe80::1%25Eth0]:7/n/3");
    // The parts of one address, changed, make another address.
    auto changed = a.parts();
    changed.database = 4;
    BOOST_TEST(addr(changed).to_string() == "rediss+sentinel://s1:26379,[fe80::1%25Eth0]:7/n/4");
    BOOST_TEST(addr(socket()).host().empty());
    BOOST_TEST(addr(socket()).port() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
