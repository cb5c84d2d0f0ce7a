// The errors for wrong addresses: each shows the position and the reason of the fault, and no
// secret.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "support/text.hpp"
#include "unit/api/address/complaint.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using holdfast::errc;
using holdfast::test::complaint;
using holdfast::test::contains;

namespace {

struct fault {
    std::string_view text;
    std::size_t position;
    std::string_view reason;
};

void check(std::vector<fault> const& table) {
    for (auto const& f : table) {
        BOOST_TEST_CONTEXT(f.text) {
            auto const said = complaint(f.text);
            auto const start = "\": position " + std::to_string(f.position) + ": ";
            BOOST_TEST(contains(said, start + std::string(f.reason)), said);
            BOOST_TEST(!contains(said, "hunter2"), said);
        }
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(address_faults)

BOOST_AUTO_TEST_CASE(schemes) {
    check({
        {"", 1, "the address is empty"},
        {"http://h", 1,
         "the scheme is none of redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, "
         "rediss+cluster, unix"},
        {"redis+sentine://h/n", 1, "the scheme is none"},
        {"unixs:///run/a", 1, "the scheme is none"},
        {"://h", 1, "the host is empty"},
        {"redis:h", 7, "the port is not a number"},
        {"redis:/h", 7, "'//' follows the scheme and its ':'"},
        {"REDISS:/h", 8, "'//' follows the scheme"},
        {"redis-socket:/run/a", 14, "'//' follows the scheme"},
    });
}

BOOST_AUTO_TEST_CASE(hosts_and_ports) {
    check({
        {"redis://", 9, "the host is empty"},
        {"redis:///3", 9, "the host is empty"},
        {"rediss://u:hunter2@", 20, "the host is empty"},
        {":7000", 1, "the host is empty"},
        {"/run/a.sock", 1, "there is no host; a socket is written unix:/path"},
        {"h:", 3, "the port is empty"},
        {"h:/3", 3, "the port is empty"},
        {"[::1]:", 7, "the port is empty"},
        {"h:0", 3, "the port is not a number from 1 to 65535"},
        {"h:65536", 3, "the port is not"},
        {"redis://u:hunter2@h:99999/3", 21, "the port is not"},
        {"h:99999999999999999999", 3, "the port is not"},
        {"h:-1", 3, "the port is not"},
        {"h:7000x", 3, "the port is not"},
        {"h:x/3", 3, "the port is not"},
        {"[::1]:0", 7, "the port is not"},
        {"[::1]:x", 7, "the port is not"},
        {"h: 1", 3, "the port is not"},
        {"::1", 1, "there are several ':'; an address of IPv6 stands in brackets"},
        {"h:1:2", 1, "there are several ':'"},
        {"[::1", 5, "the host is no address of IPv6"},
        {"[]", 2, "the host is no address"},
        {"[::g]", 4, "the host is no address"},
        {"[1::2::3]", 7, "the host is no address"},
        {"[::1,::2]", 5, "the host is no address"},
        {"[v7.x]", 1, "the host is no address"},
        {"[::1]x", 6, "only ':' and a port may follow ']'"},
        {"[fe80::1%eth0]", 9, "the zone of an address is written %25eth0"},
        {"[fe80::1%25]", 9, "the zone of an address"},
        {"[fe80::1%25a%2Fb]", 9, "the zone of an address"},
        {"ho st", 3, "a host has only letters, digits, '-', '.' and '_'"},
        {"h&x=1", 2, "a host has only"},
        {"h\\x", 2, "a host has only"},
        {"redis://b\xc3\xbc"
         "cher",
         10, "the host is not ASCII; use punycode"},
        {"redis://b%C3%BC", 9, "the host is not ASCII"},
        {std::string_view("h\0x", 3), 2, "the host has a NUL byte"},
        {"h%00x", 1, "the host has a NUL byte"},
        {"h%2Fx", 1, "a host has only"},
        {"h%x", 2, "two hexadecimal digits follow a '%'"},
        {"h%4", 2, "two hexadecimal digits"},
        {"h%4:1", 2, "two hexadecimal digits"},
    });
}

BOOST_AUTO_TEST_CASE(several_hosts) {
    check({
        {"a,b", 3, "a server has one host; several need Sentinel or Cluster"},
        {"redis://a:1,b:2", 13, "a server has one host"},
        {"redis+cluster://a,,b", 19, "the host is empty"},
        {"redis+cluster://a,", 19, "the host is empty"},
        {"redis+cluster://,a", 17, "the host is empty"},
        {"redis+cluster://a:1,b:0", 23, "the port is not"},
        {"redis+cluster://a:x,b:1", 19, "the port is not"},
        {"redis+cluster://a:,b:1", 19, "the port is empty"},
        {"redis+cluster://a,b:6379,A:6379", 26, "the host is given twice"},
        {"redis+cluster://[::1],[0::1]", 23, "the host is given twice"},
        {"redis+sentinel://u:hunter2@a,b c/n", 31, "a host has only"},
        {"redis+sentinel://u:hunter2@a,[::1/n", 34, "the host is no address"},
    });
}

BOOST_AUTO_TEST_CASE(users_and_passwords) {
    check({
        {"redis://app@h", 9,
         "there is a user and no password (write user:password@ or :password@)"},
        {"redis://app:@h", 9, "there is a user and no password"},
        {"app@h", 1, "there is a user and no password"},
        {"redis://:hu@nter2@h", 12, "'@' is written %40 in a user or password"},
        {"redis://:hunter2@@h", 17, "'@' is written %40"},
        {"redis://app:hunter2/x@h", 20,
         "'/' is written %2F in a user or password, and '@' is written %40 behind the host"},
        {"redis://app:hunter2?x@h", 20, "'?' is written %3F"},
        {"redis://app:hunter2#x@h", 20, "'#' is written %23"},
        {"app:hunter2/x@h", 12, "'/' is written %2F"},
        {"redis://app:6379/hunter2@h", 17, "'/' is written %2F"},
        {"redis://app:hunt@er2/x@h", 23, "'@' is written %40, before the host and behind it"},
        {"redis://app:hunter2%@h", 20, "'%' is written %25 in a user or password"},
        {"redis://app:hunter2%4@h", 20, "'%' is written %25"},
        {"redis://app:hunter2%zz@h", 20, "'%' is written %25"},
        {"redis://app:hunter2%4g@h", 20, "'%' is written %25"},
        {"redis://a%:hunter2@h", 10, "'%' is written %25"},
        {"redis://app:hunter2 x@h", 20, "a space is written %20 in a user or password"},
        {"redis://app:hunter2\"x@h", 20, "this character is written %XX in a user or password"},
        {"redis://app:hunter2[x@h", 20, "this character"},
        {"redis+cluster://app:hunter2^@a,b", 28, "this character"},
    });
}

BOOST_AUTO_TEST_CASE(paths) {
    check({
        {"redis://h/x", 11, "the path is not the number of a database"},
        {"redis://h/-1", 11, "the path is not"},
        {"redis://h/1/", 11, "the path is not"},
        {"redis://h//1", 11, "the path is not"},
        {"redis://h/4294967296", 11, "the path is not"},
        {"redis://h/1%00", 11, "the path is not"},
        {"redis://h/ 1", 11, "a URL has no such character; it is written %XX"},
        {"redis://h/%zz", 11, "a URL has no such character"},
        {"redis://h/3#x", 12, "an address has no fragment: '#' is written %23"},
        {"redis://h#", 10, "an address has no fragment"},
        {"redis+cluster://a,b/0", 21, "a Cluster has no databases"},
        {"redis+cluster://a,b/3", 21, "a Cluster has no databases"},
        {"redis+cluster://a,b?db=0", 21, "a Cluster has no databases"},
        {"redis+sentinel://h", 19, "Sentinel needs the name of the primary"},
        {"redis+sentinel://h/", 19, "Sentinel needs the name"},
        {"redis+sentinel://h//3", 20, "Sentinel needs the name"},
        {"redis+sentinel://h?db=1", 19, "Sentinel needs the name"},
        {"redis+sentinel://h/n/x", 22, "the path is not the number"},
        {"redis+sentinel://h/n/", 22, "the path is not the number"},
        {"redis+sentinel://h/n/1/2", 22, "the path is not the number"},
        {"redis+sentinel://h/n%00", 20, "the name of the primary has a control character"},
        {"redis+sentinel://h/n%7f", 20, "the name of the primary has a control"},
        {"redis+sentinel://h/n&sentinel_password=hunter2", 21,
         "'&' is written %26 in the name of a primary; options begin with '?'"},
        {"redis+sentinel://h/n:x", 21, "':' is written %3A"},
        {"redis+sentinel://h/n@x", 19, "'/' is written %2F"},
        {"redis+sentinel://u:hunter2@h/n@x", 31, "'@' is written %40"},
    });
}

BOOST_AUTO_TEST_CASE(sockets) {
    check({
        {"unix:", 6, "a socket needs an absolute path"},
        {"unix:run/a", 6, "a socket needs an absolute path"},
        {"UNIX:run/a", 6, "a socket needs an absolute path"},
        {"unix:/run/a?db=1", 12, "options are written unix:///path?.."},
        {"unix://", 8, "a socket has no host: its path begins with '/'"},
        {"unix://run/a", 8, "a socket has no host"},
        {"unix://u:hunter2@", 18, "a socket has no host"},
        {"unix://u:hunter2@h/run/a", 18, "a socket has no host"},
        {"unix://u@/run/a", 8, "there is a user and no password"},
        {"unix:///run/a%00", 8, "the path has a NUL byte"},
        {"unix:///run/a b", 14, "a URL has no such character"},
        {"unix:///run/a#b", 14, "an address has no fragment"},
        {"unix:///run/a?ca=x", 15, "the option ca needs TLS"},
        {"unix://u:hunter2/@/run/a", 17, "'/' is written %2F"},
        {"unix://u:hunter2@/run/a@b", 24, "'@' is written %40"},
    });
}

BOOST_AUTO_TEST_CASE(options) {
    check({
        {"redis://h?", 11, "an option is missing"},
        {"redis://h?db=1&", 16, "an option is missing"},
        {"redis://h?db=1&&x=1", 16, "an option is missing"},
        {"redis://h?db", 11, "the option db has no value"},
        {"redis://h?db=", 11, "the option db has no value"},
        {"redis://h?db=x", 14, "db is not the number of a database"},
        {"redis://h?db=1%00", 14, "db is not the number"},
        {"redis://h?db=-1", 14, "db is not the number"},
        {"redis://h?db=1&db=1", 16, "the option db is given twice"},
        {"redis://h/1?db=1", 13, "the database is given twice, in the path and as an option"},
        {"redis://h?xyzzy=hunter2", 11,
         "there is no such option; there are ca, capath, cert, db, key, sentinel_password, "
         "sentinel_user, sni, tls_min, verify_name"},
        {"redis://h?password=hunter2", 11, "there is no such option; there are"},
        {"redis://h?DB=1", 11, "there is no such option"},
        {"redis://h?d%62=1", 11, "there is no such option"},
        {"redis://h?dbs=1", 11, "there is no such option; the nearest is db"},
        {"rediss://h?certs=1", 12, "there is no such option; the nearest is cert"},
        {"rediss://h?vreify_name=h", 12, "there is no such option; the nearest is verify_name"},
        {"rediss://h?ca-path=h", 12, "there is no such option; the nearest is capath"},
        {"rediss://h?tls-min=1.2", 12, "there is no such option; the nearest is tls_min"},
        {"redis+sentinel://h/n?sentinel_pasword=hunter2", 22,
         "there is no such option; the nearest is sentinel_password"},
        {"redis+sentinel://h/n?sentinel_password=a&hunter2", 42,
         "this is no option; '&' is written %26 in a password"},
        {"redis+sentinel://h/n?sentinel_password=hunter2@x", 47, "'@' is written %40"},
        {"redis+sentinel://h/n?sentinel_password=hunter2#x", 47, "an address has no fragment"},
        {"redis+sentinel://h/n?sentinel_password=hunter2 x", 47, "a URL has no such character"},
        {"redis+sentinel://h/n?sentinel_password=hunter2%", 47, "a URL has no such character"},
        {"redis+sentinel://h/n?sentinel_user=hunter2", 22,
         "there is a user of the sentinels and no password"},
        {"redis://h?sentinel_password=hunter2", 11,
         "the option sentinel_password needs Sentinel (redis+sentinel://)"},
        {"redis+cluster://h?sentinel_user=hunter2", 19, "the option sentinel_user needs Sentinel"},
        {"redis://h?ca=/c", 11, "the option ca needs TLS (rediss://)"},
        {"redis+cluster://h?capath=/c", 19, "the option capath needs TLS"},
        {"redis+sentinel://h/n?cert=/c", 22, "the option cert needs TLS"},
        {"redis://h?key=/c", 11, "the option key needs TLS"},
        {"redis://h?sni=c", 11, "the option sni needs TLS"},
        {"redis://h?verify_name=c", 11, "the option verify_name needs TLS"},
        {"redis://h?tls_min=1.2", 11, "the option tls_min needs TLS"},
        {"rediss://h?tls_min=1.1", 20, "tls_min is neither 1.2 nor 1.3"},
        {"rediss://h?verify=none", 12, "there is no such option"},
        {"rediss://h?db=1&ca=a%00b", 17, "the path has a NUL byte"},
        {"rediss://h?cert=c", 12, "a certificate and its key need each other"},
        {"rediss://h?key=k", 12, "a certificate and its key need each other"},
        {"rediss://h?sni=10.0.0.1", 12, "a client sends a name (SNI), not an address"},
        {"rediss://h?sni=::1", 12, "a client sends a name"},
        {"rediss://h?sni=a%20b", 12, "a host has only"},
        {"rediss://h?verify_name=::g", 12, "a host has only"},
        {"rediss://h?verify_name=fe80::1%25eth0", 12, "a host has only"},
        {"rediss://h?verify_name=%00", 12, "the host has a NUL byte"},
    });
}

BOOST_AUTO_TEST_CASE(a_byte_in_a_password_is_taken_or_refused_at_its_place) {
    constexpr std::string_view as_they_are =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:";
    for (int i = 0; i < 256; ++i) {
        auto const byte = static_cast<char>(i);
        BOOST_TEST_CONTEXT("byte " << i) {
            auto const text = "redis://app:hunter2" + std::string(1, byte) + "xy@h";
            auto const said = complaint(text);
            if (as_they_are.find(byte) != std::string_view::npos) {
                BOOST_TEST(holdfast::address(text).password() ==
                           "hunter2" + std::string(1, byte) + "xy");
            } else {
                BOOST_TEST(contains(said, ": position 20: "), said);
                BOOST_TEST(contains(said, " is written %"), said);
                BOOST_TEST(!contains(said, "hunter2"), said);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(no_place_of_a_secret_is_shown) {
    // The fault is in another place than the secret, or in the secret itself.
    for (std::string_view const text :
         {"redis+sentinel://u:hunter2@a,b:x/n?sentinel_password=hunter2",
          "redis+sentinel://u:hunter2@a,b/n?sentinel_password=hunter2&x=1",
          "redis+sentinel://u:hunter2@a,b?sentinel_password=hunter2",
          "redis+sentinel://a/n/x?sentinel_user=hunter2&sentinel_password=hunter2",
          "redis+sentinel://a/n;sentinel_password=hunter2",
          "redis://h/0?password=x@hunter2",
          "redis+sentinel://a;sentinel_password=hunter2",
          "unix://u:hunter2@h/run/a",
          "unix://u:hunter2",
          "redis://:hunter2",
          "redis://app:hunter2",
          "redis://h:hunter2/3",
          "redis://app:7hunter2,b",
          "redis+cluster://app:7,b:hunter2",
          "x+redis://app:hunter2@h",
          "redis:/app:hunter2@h",
          "redis//app:hunter2@h",
          "hunter2://x@h",
          "redis+cluster://u:hunter2@a,b/3",
          "redis+cluster://u:hunter2@a,a",
          "rediss://u:hunter2@h?key=hunter2",
          "rediss://u:hunter2@h?ca=hunter2#",
          "u:hunter2",
          "u:hunter2/3",
          "redis:u:hunter2",
          "redis:/u:hunter2",
          "redis://u%3Ahunter2%40h",
          "redis://u%3ahunter2",
          "u%3Ahunter2%40h",
          "redis://hunter2%40h",
          "redis://u@h:hunter2",
          "redis://[u:hunter2",
          "redis://[u:hunter2]h",
          "redis://[u:hunter2]",
          "redis://u:hunter2@[::1",
          "redis://u:hunter2@[::1%eth0]"}) {
        BOOST_TEST_CONTEXT(text) {
            auto const said = complaint(text);
            BOOST_TEST(!said.empty());
            BOOST_TEST(!contains(said, "hunter2"), said);
        }
    }
    // A password may have digits alone.
    for (std::string_view const text :
         {"redis://u:12345678", "u:12345678", "redis://x@h:12345678", "redis://u:12345678/x"}) {
        auto const said = complaint(text);
        BOOST_TEST(contains(said, ":***\": position "), said);
        BOOST_TEST(!contains(said, "12345"), said);
    }
    // A text without a secret is shown in full.
    BOOST_TEST(contains(complaint("h:99999"), "\"h:99999\""));
    BOOST_TEST(contains(complaint("redis+sentinel://u:p@a,b:0/n?db=1"),
                        "\"redis+sentinel://***@a,b:0/n?***\": position 26"));
    BOOST_TEST(contains(complaint("redis+cluster://a,b:0"), "\"redis+cluster://a,b:0\""));
    BOOST_TEST(contains(complaint("redis://app:secret"), "\"redis://app:***\": position 13"));
    BOOST_TEST(contains(complaint("redis://h\x1b[31m:1"), "\"redis://h?[31m:1\""));
}

BOOST_AUTO_TEST_SUITE_END()
