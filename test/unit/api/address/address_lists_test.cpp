// Lists of addresses, as environment variables and files have them.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include <boost/test/unit_test.hpp>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;

namespace {

std::string printed(std::string_view list) {
    std::ostringstream text;
    for (auto const& a : parse_addresses(list)) text << a << ' ';
    return text.str();
}

std::string complaint(std::string_view list) {
    try {
        parse_addresses(list);
    } catch (system_error const& e) {
        BOOST_TEST((e.code() == errc::invalid_address));
        return e.what();
    }
    return {};
}

} // namespace

BOOST_AUTO_TEST_SUITE(address_lists)

BOOST_AUTO_TEST_CASE(blanks_lines_and_commas_separate) {
    std::string const three = "a:6379 b:6380 c:6379 ";
    for (auto const* const list :
         {"a b:6380 c", "a,b:6380,c", "a, b:6380,  c,", " a\tb:6380\r\n\n c\n", "a,b:6380 c",
          "redis://a,redis://b:6380,redis://c", "redis://a b:6380,redis://c"}) {
        BOOST_TEST(printed(list) == three, list);
    }
    BOOST_TEST(printed("unix:/run/a,unix:///run/b") == "unix:/run/a unix:/run/b ");
}

// The hosts of one address are separated by commas, too.
BOOST_AUTO_TEST_CASE(an_address_with_several_hosts_stays_whole) {
    BOOST_TEST(printed("redis+cluster://a,b,redis+cluster://c,d:7") ==
               "redis+cluster://a:6379,b:6379 redis+cluster://c:6379,d:7 ");
    BOOST_TEST(printed("redis+sentinel://s,t/main rediss://u") ==
               "redis+sentinel://s:26379,t:26379/main rediss://u:6379 ");
}

BOOST_AUTO_TEST_CASE(a_password_may_have_a_comma) {
    auto const all = parse_addresses("redis://:pa,ss@a,redis://:wo,rd@b");
    BOOST_REQUIRE(all.size() == 2U);
    BOOST_TEST(all[0].password() == "pa,ss");
    BOOST_TEST(all[1].password() == "wo,rd");
}

BOOST_AUTO_TEST_CASE(comments_are_left_out) {
    BOOST_TEST(printed("# the first room\na # b\n#c\nd") == "a:6379 d:6379 ");
}

BOOST_AUTO_TEST_CASE(a_fault_is_told_with_the_number_of_the_address) {
    BOOST_TEST(complaint("a,b:0 c").starts_with("address 2 of the list: "), complaint("a,b:0 c"));
    BOOST_TEST(complaint("a,,c").starts_with("address 2 of the list: "), complaint("a,,c"));
    BOOST_TEST(complaint(",a").starts_with("address 1 of the list: "), complaint(",a"));
    auto const text = complaint("a b:0");
    BOOST_TEST(text.find("invalid address") == text.rfind("invalid address"), text);
    BOOST_TEST(complaint("redis://:secret@a:x").find("secret") == std::string::npos);
    for (auto const* const none : {"", " \n\t", "# a"})
        BOOST_TEST(complaint(none).starts_with("the list has no address"), complaint(none));
}

BOOST_AUTO_TEST_SUITE_END()
