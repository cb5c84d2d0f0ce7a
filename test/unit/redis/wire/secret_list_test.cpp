// The list masks each secret that was ever in use.
#include "redis/wire/secret_list.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

namespace {

std::string masked(holdfast::redis::secret_list const& all, std::string text) {
    all.mask(text);
    return text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(secret_list)

using list = holdfast::redis::secret_list;

BOOST_AUTO_TEST_CASE(each_of_them_is_masked_wherever_it_is) {
    list all;
    BOOST_TEST(masked(all, "hunter2") == "hunter2");
    all.add("hunter2");
    all.add("");
    all.add("swordfish");
    BOOST_TEST(masked(all, "hunter2swordfish, hunter2") == "******, ***");
    BOOST_TEST(masked(all, "").empty());
    BOOST_TEST(masked(all, "hunter") == "hunter");
}

BOOST_AUTO_TEST_CASE(no_end_of_a_longer_one_is_left) {
    for (bool const short_first : {false, true}) {
        list all;
        all.add(short_first ? "token" : "token-of-tuesday");
        all.add(short_first ? "token-of-tuesday" : "token");
        BOOST_TEST(masked(all, "a token-of-tuesday, a token") == "a ***, a ***");
    }
}

BOOST_AUTO_TEST_CASE(the_latest_ones_are_kept) {
    list all;
    for (std::size_t n = 0; n <= list::most; ++n) all.add("secret" + std::to_string(n) + ';');
    BOOST_TEST(masked(all, "secret0;") == "secret0;");
    BOOST_TEST(masked(all, "secret1;") == "***");
    BOOST_TEST(masked(all, "secret" + std::to_string(list::most) + ';') == "***");
    // A secret that is used again takes no second place.
    for (auto n = 0; n < 100; ++n) all.add("secret1;");
    BOOST_TEST(masked(all, "secret2;") == "***");
}

BOOST_AUTO_TEST_CASE(stars_are_not_searched_again) {
    list all;
    all.add("*");
    BOOST_TEST(masked(all, "a*b") == "a***b");
}

BOOST_AUTO_TEST_SUITE_END()
