// The URLs of all deployments: the parts they parse into, and their printed form.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::string_literals;
using holdfast::deployment;
using holdfast::host_port;
using holdfast::test::contains;

namespace {

using addr = holdfast::address;

struct row {
    std::string_view text;
    holdfast::address_parts parts;
    std::string_view printed;
};

holdfast::address_parts on(std::vector<host_port> hosts) {
    return {.hosts = std::move(hosts)};
}

holdfast::address_parts on_sentinels(std::vector<host_port> hosts, std::string name) {
    return {.deployment = deployment::sentinel,
            .hosts = std::move(hosts),
            .primary_name = std::move(name)};
}

holdfast::address_parts in_cluster(std::vector<host_port> hosts) {
    return {.deployment = deployment::cluster, .hosts = std::move(hosts)};
}

holdfast::address_parts on_socket(std::string path) {
    return {.socket_path = std::move(path)};
}

holdfast::address_parts with_tls(holdfast::address_parts parts, holdfast::tls_options tls = {}) {
    parts.tls = true;
    parts.tls_options = std::move(tls);
    return parts;
}

holdfast::address_parts with_user(holdfast::address_parts parts, std::string user,
                                  std::string password) {
    parts.credentials.user = std::move(user);
    parts.credentials.password = std::move(password);
    return parts;
}

holdfast::address_parts with_sentinel_user(holdfast::address_parts parts, std::string user,
                                           std::string password) {
    parts.sentinel_credentials.user = std::move(user);
    parts.sentinel_credentials.password = std::move(password);
    return parts;
}

holdfast::address_parts with_database(holdfast::address_parts parts, unsigned database) {
    parts.database = database;
    return parts;
}

void check_same(addr const& a, addr const& b) {
    BOOST_TEST((a.deployment() == b.deployment()));
    BOOST_TEST((a.hosts() == b.hosts()), a.to_string() << " is not " << b.to_string());
    BOOST_TEST(a.host() == b.host());
    BOOST_TEST(a.port() == b.port());
    BOOST_TEST(a.socket_path() == b.socket_path());
    BOOST_TEST(a.database() == b.database());
    BOOST_TEST(a.primary_name() == b.primary_name());
    BOOST_TEST(a.user() == b.user());
    BOOST_TEST(a.password() == b.password());
    BOOST_TEST(a.credentials().user == b.user());
    BOOST_TEST(a.credentials().password == b.password());
    BOOST_TEST(a.sentinel_credentials().user == b.sentinel_credentials().user);
    BOOST_TEST(a.sentinel_credentials().password == b.sentinel_credentials().password);
    BOOST_TEST(a.tls() == b.tls());
    auto const& s = a.tls_options();
    auto const& t = b.tls_options();
    BOOST_TEST(s.ca_file == t.ca_file);
    BOOST_TEST(s.ca_directory == t.ca_directory);
    BOOST_TEST(s.certificate_file == t.certificate_file);
    BOOST_TEST(s.key_file == t.key_file);
    BOOST_TEST(s.key_password == t.key_password);
    BOOST_TEST(s.server_name == t.server_name);
    BOOST_TEST(s.verify_name == t.verify_name);
    BOOST_TEST((s.min_version == t.min_version));
    BOOST_TEST(s.verify == t.verify);
    BOOST_TEST((s.context == t.context));
}

/// Each byte as %XX.
std::string encoded(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (char const c : bytes) {
        auto const byte = static_cast<unsigned char>(c);
        text += {'%', digits[byte / 16U], digits[byte % 16U]};
    }
    return text;
}

std::vector<row> table() {
    auto const three = std::vector<host_port>{{"s1"}, {"s2", 5000}, {"::1", 5001}};
    return {
        // TLS
        {"rediss://h", with_tls(on({{"h"}})), "rediss://h:6379"},
        {"rediss://app:pw@h:7000/3",
         with_user(with_tls(with_database(on({{"h", 7000}}), 3)), "app", "pw"),
         "rediss://h:7000/3"},
        {"rediss://h?ca=/etc/ca.pem&capath=/etc/certs&cert=c.pem&key=k.pem&sni=a.b&"
         "verify_name=10.0.0.1&tls_min=1.3&db=2",
         with_tls(with_database(on({{"h"}}), 2), {.ca_file = "/etc/ca.pem",
                                                  .ca_directory = "/etc/certs",
                                                  .certificate_file = "c.pem",
                                                  .key_file = "k.pem",
                                                  .server_name = "a.b",
                                                  .verify_name = "10.0.0.1",
                                                  .min_version = holdfast::tls_version::v1_3}),
         "rediss://h:6379/2"},
        {"rediss://h?tls_min=1.2&ca=a%20b%26c", with_tls(on({{"h"}}), {.ca_file = "a b&c"}),
         "rediss://h:6379"},
        {"rediss://h?verify_name=::1", with_tls(on({{"h"}}), {.verify_name = "::1"}),
         "rediss://h:6379"},
        {"rediss://h?verify_name=h.", with_tls(on({{"h"}}), {.verify_name = "h."}),
         "rediss://h:6379"},
        // Options of a plain server
        {"redis://h?db=4", with_database(on({{"h"}}), 4), "h:6379"},
        {"redis://h/?db=4", with_database(on({{"h"}}), 4), "h:6379"},
        {"h:7000?db=4", with_database(on({{"h", 7000}}), 4), "h:7000"},
        {"redis://Unix:7000", on({{"unix", 7000}}), "redis://unix:7000"},
        // Sockets
        {"unix:/run/a@b.sock", on_socket("/run/a@b.sock"), "unix:/run/a@b.sock"},
        {"unix:/run/100%25#", on_socket("/run/100%25#"), "unix:///run/100%2525%23"},
        {"unix:///run/100%25%23", on_socket("/run/100%#"), "unix:///run/100%25%23"},
        {"unix:///run/a@b.sock", on_socket("/run/a@b.sock"), "unix:/run/a@b.sock"},
        {"unix:////run/a", on_socket("//run/a"), "unix:////run/a"},
        {"unix:///run/a%20b%3F", on_socket("/run/a b?"), "unix:///run/a%20b%3F"},
        {"unix:///run/a%0Ab", on_socket("/run/a\nb"), "unix:///run/a%0Ab"},
        {"unix://app:pw@/run/a?db=5", with_user(with_database(on_socket("/run/a"), 5), "app", "pw"),
         "unix:/run/a"},
        {"unix://:pw@/run/a", with_user(on_socket("/run/a"), "", "pw"), "unix:/run/a"},
        {"redis-socket:///run/a?db=5", with_database(on_socket("/run/a"), 5), "unix:/run/a"},
        // Sentinel
        {"redis+sentinel://s1/prime", on_sentinels({{"s1"}}, "prime"),
         "redis+sentinel://s1:26379/prime"},
        {"redis+sentinel://s1,s2:5000,[::1]:5001/prime", on_sentinels(three, "prime"),
         "redis+sentinel://s1:26379,s2:5000,[::1]:5001/prime"},
        {"redis+sentinel://app:pw@s1/prime/7?sentinel_user=su&sentinel_password=sp",
         with_sentinel_user(
             with_user(with_database(on_sentinels({{"s1"}}, "prime"), 7), "app", "pw"), "su", "sp"),
         "redis+sentinel://s1:26379/prime/7"},
        {"redis+sentinel://s1/prime?db=7&sentinel_password=%26%3D%40",
         with_sentinel_user(with_database(on_sentinels({{"s1"}}, "prime"), 7), "", "&=@"),
         "redis+sentinel://s1:26379/prime/7"},
        {"redis+sentinel://s1/a%2Fb%20c%3A", on_sentinels({{"s1"}}, "a/b c:"),
         "redis+sentinel://s1:26379/a%2Fb%20c%3A"},
        {"rediss+sentinel://s1/prime?ca=c",
         with_tls(on_sentinels({{"s1"}}, "prime"), {.ca_file = "c"}),
         "rediss+sentinel://s1:26379/prime"},
        {"redis-sentinel://s1:1/prime", on_sentinels({{"s1", 1}}, "prime"),
         "redis+sentinel://s1:1/prime"},
        // Cluster
        {"redis+cluster://n1", in_cluster({{"n1"}}), "redis+cluster://n1:6379"},
        {"redis+cluster://n1:1,N2,10.0.0.1:65535/",
         in_cluster({{"n1", 1}, {"n2"}, {"10.0.0.1", 65535}}),
         "redis+cluster://n1:1,n2:6379,10.0.0.1:65535"},
        {"rediss+cluster://app:pw@n1,n2?sni=x",
         with_user(with_tls(in_cluster({{"n1"}, {"n2"}}), {.server_name = "x"}), "app", "pw"),
         "rediss+cluster://n1:6379,n2:6379"},
        // Other names of the schemes
        {"valkey://h", on({{"h"}}), "h:6379"},
        {"valkeys://h", with_tls(on({{"h"}})), "rediss://h:6379"},
        {"valkey+sentinel://s/p", on_sentinels({{"s"}}, "p"), "redis+sentinel://s:26379/p"},
        {"valkeys+sentinel://s/p", with_tls(on_sentinels({{"s"}}, "p")),
         "rediss+sentinel://s:26379/p"},
        {"rediss-sentinel://s/p", with_tls(on_sentinels({{"s"}}, "p")),
         "rediss+sentinel://s:26379/p"},
        {"valkey+cluster://n", in_cluster({{"n"}}), "redis+cluster://n:6379"},
        {"valkeys+cluster://n", with_tls(in_cluster({{"n"}})), "rediss+cluster://n:6379"},
        {"REDIS+Cluster://n", in_cluster({{"n"}}), "redis+cluster://n:6379"},
        // Hosts
        {"[fe80::1%25eth0]:7000", on({{"fe80::1%eth0", 7000}}), "[fe80::1%25eth0]:7000"},
        {"redis://u:p@[FE80::0:1%25Wlan-0.1]/3",
         with_user(with_database(on({{"fe80::1%Wlan-0.1"}}), 3), "u", "p"),
         "[fe80::1%25Wlan-0.1]:6379"},
        {"redis+cluster://[fe80::1%25a]:1,[fe80::1%25b]:1",
         in_cluster({{"fe80::1%a", 1}, {"fe80::1%b", 1}}),
         "redis+cluster://[fe80::1%25a]:1,[fe80::1%25b]:1"},
        {"[0:0:0::0.0.0.1]", on({{"::1"}}), "[::1]:6379"},
        {"xn--bcher-kva.example", on({{"xn--bcher-kva.example"}}), "xn--bcher-kva.example:6379"},
        {"redis_1.local.", on({{"redis_1.local."}}), "redis_1.local.:6379"},
        // Users and passwords
        {"redis://a,b:c,d@h", with_user(on({{"h"}}), "a,b", "c,d"), "h:6379"},
        {"redis://:%3A@h", with_user(on({{"h"}}), "", ":"), "h:6379"},
        {"redis://u:a+b=c!$&'()*;@h", with_user(on({{"h"}}), "u", "a+b=c!$&'()*;"), "h:6379"},
    };
}

} // namespace

BOOST_AUTO_TEST_SUITE(address_urls)

BOOST_AUTO_TEST_CASE(each_form_has_its_parts) {
    for (auto const& r : table())
        BOOST_TEST_CONTEXT(r.text) check_same(addr(r.text), addr(r.parts));
}

BOOST_AUTO_TEST_CASE(a_printed_address_leads_to_the_same_instance) {
    for (auto const& r : table()) {
        BOOST_TEST_CONTEXT(r.text) {
            addr const a(r.text);
            BOOST_TEST(a.to_string() == r.printed);
            addr const again(a.to_string());
            BOOST_TEST(again.to_string() == r.printed);
            BOOST_TEST(again.same_server(a));
            BOOST_TEST((again.deployment() == a.deployment()));
            BOOST_TEST((again.hosts() == a.hosts()));
            BOOST_TEST(again.tls() == a.tls());
        }
    }
}

BOOST_AUTO_TEST_CASE(any_byte_can_stand_in_a_user_and_in_a_password) {
    for (int i = 0; i < 256; ++i) {
        auto const byte = std::string(1, static_cast<char>(i));
        for (auto const& bytes : {byte, 'a' + byte, byte + 'a', byte + byte}) {
            BOOST_TEST_CONTEXT("byte " << i) {
                auto const e = encoded(bytes);
                addr const a("redis+sentinel://" + e + ':' + e + "@h/n?sentinel_password=" + e +
                             "&sentinel_user=" + e);
                BOOST_TEST(a.user() == bytes);
                BOOST_TEST(a.password() == bytes);
                BOOST_TEST(a.sentinel_credentials().user == bytes);
                BOOST_TEST(a.sentinel_credentials().password == bytes);
                BOOST_TEST(addr("unix://" + e + ':' + e + "@/run/a").password() == bytes);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(an_address_prints_no_secret) {
    for (std::string_view const text :
         {"redis://hunter2:hunter2@h/3", "rediss://hunter2:hunter2@h/3?key=hunter2&cert=hunter2",
          "unix://hunter2:hunter2@/run/a?db=1", "unix://:hunter2@/run/a%3F",
          "redis+sentinel://:hunter2@a,b/n/3?sentinel_user=hunter2&sentinel_password=hunter2",
          "rediss+cluster://hunter2:hunter2@a,b?ca=hunter2&sni=hunter2"}) {
        auto const printed = addr(text).to_string();
        BOOST_TEST(!contains(printed, "hunter2"), printed);
    }
}

BOOST_AUTO_TEST_CASE(the_same_instance_is_recognised) {
    std::vector<std::pair<addr, addr>> const same{
        {"h:1", "rediss://h:1"},
        {"[::1]", "[0::1]"},
        {"unix:/run/a", "unix://:pw@/run/a?db=3"},
        {"redis+cluster://a,b", "redis+cluster://b,c"},
        {"redis+cluster://a,b", "rediss+cluster://b"},
        {"redis+cluster://a,b:1", "b:1"},
        {"redis+sentinel://a,b/n", "redis+sentinel://c,b/n/3"},
        {"redis+sentinel://a/n?sentinel_password=x", "rediss+sentinel://:pw@a/n"},
    };
    for (auto const& [a, b] : same) {
        BOOST_TEST_CONTEXT(a.to_string() << " and " << b.to_string()) {
            BOOST_TEST(a.same_server(b));
            BOOST_TEST(b.same_server(a));
        }
    }
    std::vector<std::pair<addr, addr>> const different{
        {"h:1", "h:2"},
        {"unix:/run/a", "unix:/run/b"},
        {"unix:/run/a", "run:1"},
        {"redis+cluster://a,b", "redis+cluster://c,d"},
        {"redis+cluster://a,b", "b:1"},
        {"redis+sentinel://a,b/n", "redis+sentinel://a,b/m"},
        {"redis+sentinel://a,b/n", "redis+sentinel://c/n"},
        {"redis+sentinel://a,b/n", "a:26379"},
        {"redis+sentinel://a:1,b/n", "redis+cluster://a:1"},
        {"[fe80::1%25a]", "[fe80::1%25b]"},
        {"[fe80::1%25a]", "[fe80::1]"},
    };
    for (auto const& [a, b] : different) {
        BOOST_TEST_CONTEXT(a.to_string() << " and " << b.to_string()) {
            BOOST_TEST(!a.same_server(b));
            BOOST_TEST(!b.same_server(a));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
