// Every spelling of the address of a plain server, and the errors for wrong ones. The other forms
// are in address_urls_test.cpp, the positions of faults in address_faults_test.cpp.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "support/text.hpp"
#include "unit/api/address/complaint.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <string>
#include <string_view>
#include <sys/un.h>
#include <utility>

using holdfast::errc;
using holdfast::test::complaint;
using holdfast::test::contains;

namespace {

struct parsed {
    std::string_view text, host;
    std::uint16_t port = 6379;
    std::string_view user{}, password{};
    unsigned database = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(address)

BOOST_AUTO_TEST_CASE(every_spelling_is_understood) {
    constexpr std::array<parsed, 25> table{{
        {"localhost", "localhost"},
        {"localhost:7000", "localhost", 7000},
        {"10.0.0.1", "10.0.0.1"},
        {"10.0.0.1:1", "10.0.0.1", 1},
        {"redis-1.example.com:65535", "redis-1.example.com", 65535},
        {"[::1]", "::1"},
        {"[::1]:7000", "::1", 7000},
        {"[2001:DB8::7]:7000", "2001:db8::7", 7000},
        {"LOCALHOST:7000", "localhost", 7000},
        {"localhost:06380", "localhost", 6380},
        {"redis://localhost", "localhost"},
        {"redis://localhost/", "localhost"},
        {"redis://localhost:7000", "localhost", 7000},
        {"redis://localhost:7000/", "localhost", 7000},
        {"redis://localhost/5", "localhost", 6379, "", "", 5},
        {"redis://localhost:7000/15", "localhost", 7000, "", "", 15},
        {"redis://[::1]:7000/1", "::1", 7000, "", "", 1},
        {"redis://:secret@localhost", "localhost", 6379, "", "secret"},
        {"redis://app:secret@localhost:7000/2", "localhost", 7000, "app", "secret", 2},
        {"redis://app:secret@[::1]:7000/2", "::1", 7000, "app", "secret", 2},
        {"app:secret@localhost:7000/2", "localhost", 7000, "app", "secret", 2},
        {"redis://a%40b:p%3A%2F%40%25@localhost", "localhost", 6379, "a@b", "p:/@%"},
        {"redis://:%C3%BC%20%23@localhost", "localhost", 6379, "", "\xc3\xbc #"},
        {"redis://:a:b@localhost", "localhost", 6379, "", "a:b"},
        {"localhost/3", "localhost", 6379, "", "", 3},
    }};
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT(row.text) {
            holdfast::address const a(row.text);
            BOOST_TEST(a.host() == row.host);
            BOOST_TEST(a.port() == row.port);
            BOOST_TEST(a.user() == row.user);
            BOOST_TEST(a.password() == row.password);
            BOOST_TEST(a.database() == row.database);
            BOOST_TEST(a.socket_path().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_unix_domain_socket_is_named_by_its_path) {
    for (std::string_view const text : {"unix:/run/redis.sock", "unix:///run/redis.sock"}) {
        holdfast::address const a(text);
        BOOST_TEST(a.socket_path() == "/run/redis.sock");
        BOOST_TEST(a.host().empty());
        BOOST_TEST(a.password().empty());
        BOOST_TEST(a.database() == 0U);
        BOOST_TEST(a.to_string() == "unix:/run/redis.sock");
    }
}

BOOST_AUTO_TEST_CASE(a_socket_path_fits_into_a_socket_address) {
    // The system needs a byte for the NUL after the path.
    constexpr auto limit = sizeof(sockaddr_un::sun_path) - 1;
    auto const longest = '/' + std::string(limit - 1, 's');
    for (std::string_view const scheme : {"unix:", "unix://"}) {
        BOOST_TEST(holdfast::address(std::string(scheme) + longest).socket_path() == longest);
        auto const said = complaint(std::string(scheme) + longest + 's');
        BOOST_TEST(contains(said, '"' + std::string(scheme) + longest + "s\""));
        BOOST_TEST(contains(said, std::to_string(limit) + " bytes"));
        BOOST_TEST(contains(said, std::to_string(limit + 1)));
    }
}

BOOST_AUTO_TEST_CASE(a_nul_byte_is_refused_and_does_not_end_the_message) {
    using namespace std::string_view_literals;
    BOOST_TEST(contains(complaint("local%00host"),
                        "\"local%00host\": position 1: the host has a NUL byte"));
    BOOST_TEST(contains(complaint("redis://u:p@%00:7000"), "NUL"));
    BOOST_TEST(contains(complaint("unix:/run/redis\0.sock"sv),
                        "\"unix:/run/redis?.sock\": position 6: the path has a NUL"));
    BOOST_TEST(
        contains(complaint("local\0host"sv), "\"local?host\": position 6: the host has a NUL"));
    BOOST_TEST(contains(complaint("localhost/\0"sv), "\"localhost/?\": "));
    BOOST_TEST(!complaint("localhost/%00").empty());
    BOOST_TEST(!complaint("localhost/1%00").empty());
    // A password may hold any byte, also NUL.
    BOOST_TEST(holdfast::address("redis://:a%00b@localhost").password() == "a\0b"sv);
}

BOOST_AUTO_TEST_CASE(what_is_encoded_is_decoded_once) {
    BOOST_TEST(holdfast::address("loc%61l%48ost").host() == "localhost");
    BOOST_TEST(holdfast::address("localhost/%33").database() == 3U);
    BOOST_TEST(holdfast::address("redis://%2541:%2542@localhost").user() == "%41");
    BOOST_TEST(holdfast::address("redis://%2541:%2542@localhost").password() == "%42");
    BOOST_TEST(holdfast::address("redis://a:b%fF@localhost").password() == "b\xff");
}

BOOST_AUTO_TEST_CASE(empty_parts_are_told_from_absent_ones) {
    for (std::string_view const text :
         {"localhost:", "localhost:/2", "localhost?", "localhost#", "localhost//", "localhost///",
          "localhost//2", "localhost/2//", "[]", "[]:7000", "[v7.x]", "[fe80::1%eth0]",
          "[fe80::1%25]", "[::1]x", "u:p@:7000"}) {
        BOOST_TEST_CONTEXT(text) BOOST_TEST(!complaint(text).empty());
    }
    for (std::string_view const text : {"@localhost", ":@localhost", "localhost/"}) {
        BOOST_TEST_CONTEXT(text)
        BOOST_TEST(holdfast::address(text).to_string() == "localhost:6379");
    }
}

BOOST_AUTO_TEST_CASE(all_kinds_of_strings_are_taken) {
    holdfast::address const a("localhost:7000");
    holdfast::address const b(std::string("localhost:7000"));
    holdfast::address const c(std::string_view("localhost:7000"));
    BOOST_TEST(a.same_server(b));
    BOOST_TEST(b.same_server(c));
}

BOOST_AUTO_TEST_CASE(a_text_that_cannot_be_an_address_is_refused_and_named) {
    for (std::string_view const text : {" ",
                                        "local host",
                                        "localhost ",
                                        "::1",
                                        "[::1",
                                        "[zz]:1",
                                        "redis://",
                                        "redis:///3",
                                        ":7000",
                                        "/run/redis.sock",
                                        "redis:/localhost",
                                        "http://localhost:6379",
                                        "valkey-sentinel://localhost",
                                        "://localhost",
                                        "localhost:7000:1",
                                        "redis://localhost:7000/x",
                                        "redis://localhost/-1",
                                        "redis://localhost/1/",
                                        "redis://localhost/1x",
                                        "redis://localhost/1/2",
                                        "redis://localhost/ 1",
                                        "redis://localhost/4294967296",
                                        "redis://localhost#1",
                                        "localhost%zz",
                                        "unix:",
                                        "unix://",
                                        "unix:run/redis.sock",
                                        "unix://run/redis.sock"}) {
        BOOST_TEST_CONTEXT('"' << text << '"') {
            auto const said = complaint(text);
            BOOST_TEST(!said.empty());
            BOOST_TEST(contains(said, '"' + std::string(text) + '"'));
        }
    }
    // A port that is no number may be a password.
    BOOST_TEST(contains(complaint("redis:localhost"), "\"redis:***\""));
    BOOST_TEST(contains(complaint("::1]:7000"), "\"::***\""));
    // A query may hold a password, so its text is masked; the rest of the address is shown.
    for (std::string_view const text : {"redis://localhost?dbs=1", "redis://localhost/1?x"}) {
        BOOST_TEST(contains(complaint(text), "redis://localhost"));
    }
    BOOST_TEST(contains(complaint(""), "empty"));
    BOOST_TEST(!complaint(std::string_view("local\0host", 10)).empty());
}

BOOST_AUTO_TEST_CASE(a_port_is_a_number_from_1_to_65535) {
    for (std::string_view const port :
         {"0", "00", "65536", "70000", "4294973675", "99999999999999999999", "-1", "+1", "x",
          "6379x", " 1", ""}) {
        for (std::string_view const start :
             {"localhost:", "redis://localhost:", "[::1]:", "redis://u:p@localhost:"}) {
            auto const text = std::string(start) + std::string(port);
            BOOST_TEST_CONTEXT('"' << text << '"') BOOST_TEST(!complaint(text).empty());
        }
    }
    BOOST_TEST(holdfast::address("localhost:1").port() == 1);
    BOOST_TEST(holdfast::address("localhost:65535").port() == 65535);
}

BOOST_AUTO_TEST_CASE(a_user_needs_a_password) {
    for (std::string_view const text :
         {"redis://app@localhost", "redis://app:@localhost", "app@localhost"}) {
        BOOST_TEST_CONTEXT(text) BOOST_TEST(contains(complaint(text), "password"));
    }
}

BOOST_AUTO_TEST_CASE(no_complaint_shows_a_password) {
    for (std::string_view const text :
         {"redis://app:hunter2@localhost:0", "redis://:hunter2@localhost:70000",
          "app:hunter2@localhost:x", "redis://app:hunter2@", "redis://app:hunter2@local host",
          "http://app:hunter2@localhost", "redis://app:hunter2@localhost/x",
          "redis://app:hunter2@localhost?x=1", "redis://app:hun@ter2@localhost/y",
          "redis://app:hunter2/@localhost", "redis://app:hunter2#@localhost",
          "redis://app:hunter2?@localhost", "redis://app:hunter2 @localhost",
          "redis://app:hunter2%zz@localhost", ":hunter2@localhost:0",
          "redis://app:://hunter2@localhost:0", "unix:app:hunter2@run/redis.sock"}) {
        BOOST_TEST_CONTEXT(text) {
            auto const said = complaint(text);
            BOOST_TEST(!said.empty());
            BOOST_TEST(!contains(said, "hunter2"));
            BOOST_TEST(!contains(said, "ter2@"));
            BOOST_TEST(!contains(said, "hun@"));
        }
    }
    // The parts that are not secret are shown.
    BOOST_TEST(
        contains(complaint("redis://app:hunter2@localhost:0"), "\"redis://***@localhost:0\""));
    BOOST_TEST(contains(complaint("redis://app:hunter2@localhost/x"), "@localhost/x"));
}

BOOST_AUTO_TEST_CASE(a_password_given_as_a_parameter_is_not_shown_either) {
    // The registered form of redis: URLs allows a password there. holdfast refuses it and must not
    // print it.
    for (std::string_view const text :
         {"redis://localhost?password=hunter2", "redis://localhost/0?db=1&password=hunter2"}) {
        auto const said = complaint(text);
        BOOST_TEST(!said.empty());
        BOOST_TEST(!contains(said, "hunter2"));
    }
}

BOOST_AUTO_TEST_CASE(what_only_looks_like_the_end_of_a_scheme_hides_no_less) {
    for (std::string_view const text :
         {"app:hunter2@redis://localhost", ":hunter2@http://localhost",
          "app:hunter2://word@localhost", "app:hunter2?x@redis://localhost"}) {
        BOOST_TEST_CONTEXT(text) {
            auto const said = complaint(text);
            BOOST_TEST(!said.empty());
            BOOST_TEST(!contains(said, "hunter2"));
        }
    }
}

BOOST_AUTO_TEST_CASE(to_string_is_fit_for_a_log) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> table{{
        {"localhost", "localhost:6379"},
        {"redis://localhost:7000/3", "localhost:7000"},
        {"redis://app:hunter2@localhost:7000/3", "localhost:7000"},
        {"redis://:hunter2@LOCALHOST", "localhost:6379"},
        {"[::1]", "[::1]:6379"},
        {"redis://app:hunter2@[::1]:7000", "[::1]:7000"},
        {"unix:///run/redis.sock", "unix:/run/redis.sock"},
    }};
    for (auto const& [text, expected] : table) {
        holdfast::address const a(text);
        BOOST_TEST(a.to_string() == expected);
        // The printed address denotes the same server.
        BOOST_TEST(holdfast::address(a.to_string()).same_server(a));
    }
}

BOOST_AUTO_TEST_CASE(the_same_server_is_recognised_whoever_logs_in) {
    holdfast::address const a("redis://app:secret@localhost/3");
    for (std::string_view const same : {"localhost", "LocalHost:6379", "redis://localhost:6379/7",
                                        "redis://other:word@localhost"}) {
        BOOST_TEST_CONTEXT(same) {
            BOOST_TEST(a.same_server(holdfast::address(same)));
            BOOST_TEST(holdfast::address(same).same_server(a));
        }
    }
    for (std::string_view const other :
         {"localhost:6380", "127.0.0.1", "localhost.", "[::1]", "unix:/localhost"}) {
        BOOST_TEST_CONTEXT(other) {
            BOOST_TEST(!a.same_server(holdfast::address(other)));
            BOOST_TEST(!holdfast::address(other).same_server(a));
        }
    }
    holdfast::address const socket("unix:/run/a.sock");
    BOOST_TEST(socket.same_server(holdfast::address("unix:///run/a.sock")));
    BOOST_TEST(!socket.same_server(holdfast::address("unix:/run/b.sock")));
    BOOST_TEST(!socket.same_server(holdfast::address("unix:/run/A.sock")));
    BOOST_TEST(
        holdfast::address("[2001:DB8::A]:1").same_server(holdfast::address("[2001:db8::a]:1")));
}

BOOST_AUTO_TEST_SUITE_END()
