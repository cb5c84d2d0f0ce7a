// The texts of the options belong to them.
#include <holdfast/options.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <type_traits>

using namespace holdfast;

// g++ 12 destroys other aggregates twice when they are written inside a co_await expression.
static_assert(std::is_trivially_destructible_v<client_options>);
static_assert(std::is_trivially_copyable_v<client_options>);
static_assert(std::is_trivially_destructible_v<lock_options>);

namespace {

client_options built_from_strings(int number) {
    auto const prefix = "a prefix that is longer than a short string: " + std::to_string(number);
    auto const label = "worker-with-a-long-name-" + std::to_string(number);
    std::string const name(100, 'n');
    client_options o;
    o.key_prefix = prefix;
    o.holder_label = label;
    o.connection_name = name;
    return o;
}

} // namespace

BOOST_AUTO_TEST_SUITE(option_texts)

BOOST_AUTO_TEST_CASE(options_that_a_function_builds_from_its_strings_keep_them) {
    auto const one = built_from_strings(1);
    auto const two = built_from_strings(2);
    BOOST_TEST(one.key_prefix.view() == "a prefix that is longer than a short string: 1");
    BOOST_TEST(one.holder_label.view() == "worker-with-a-long-name-1");
    BOOST_TEST(one.connection_name.view() == std::string(100, 'n'));
    BOOST_TEST(two.key_prefix.view() == "a prefix that is longer than a short string: 2");
}

BOOST_AUTO_TEST_CASE(a_text_that_is_too_long_is_known_as_such) {
    bounded_text<3> const fits("abc");
    BOOST_TEST(fits.view() == "abc");
    BOOST_TEST(!fits.too_long());
    bounded_text<3> const cut(std::string("abcde"));
    BOOST_TEST(cut.view() == "abc");
    BOOST_TEST(cut.size() == 5U);
    BOOST_TEST(cut.too_long());
    BOOST_TEST(bounded_text<3>().empty());
    BOOST_TEST(
        (bounded_text<3>(std::string_view("a\0b", 3)).view() == std::string_view("a\0b", 3)));
}

BOOST_AUTO_TEST_SUITE_END()
