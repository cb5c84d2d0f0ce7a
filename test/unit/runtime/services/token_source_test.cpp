// The randomness of tokens, also after a fork.
#include "runtime/services/token_source.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using holdfast::redis::token;

namespace {

/// The next bits that the child of a fork gets.
template <std::size_t Count>
std::array<std::uint64_t, Count> bits_in_a_child(holdfast::runtime::token_source& source) {
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    auto const pid = ::fork();
    BOOST_REQUIRE(pid >= 0);
    std::array<std::uint64_t, Count> all{};
    if (pid == 0) {
        for (auto& bits : all) bits = source.next_bits();
        ::_exit(::write(ends[1], all.data(), sizeof all) == sizeof all ? 0 : 1);
    }
    ::close(ends[1]);
    BOOST_TEST(::read(ends[0], all.data(), sizeof all) == static_cast<ssize_t>(sizeof all));
    ::close(ends[0]);
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(status == 0);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(token_source)

BOOST_AUTO_TEST_CASE(no_two_tokens_are_the_same) {
    holdfast::runtime::token_source source("label");
    std::set<std::string> all;
    for (auto n = 0; n < 1'000; ++n) {
        auto const text = source.next_token().text(source.label());
        BOOST_TEST(text.view().starts_with("label:"));
        all.emplace(text.view());
    }
    BOOST_TEST(all.size() == 1'000U);
}

BOOST_AUTO_TEST_CASE(the_child_of_a_fork_has_no_token_of_its_parent) {
    holdfast::runtime::token_source source("");
    source.next_bits(); // fetches random bits for later calls too
    auto const theirs = bits_in_a_child<16>(source);
    for (std::size_t n = 0; n < 32; ++n) {
        BOOST_TEST(std::count(theirs.begin(), theirs.end(), source.next_bits()) == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()
