// The header traceparent: https://www.w3.org/TR/trace-context/
#include <holdfast/trace_context.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <type_traits>

using holdfast::trace_context;

namespace {

std::string const header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string with(std::size_t at, char c) {
    auto text = header;
    text[at] = c;
    return text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(trace_contexts)

BOOST_AUTO_TEST_CASE(a_header_is_read_and_written) {
    auto const c = trace_context::parse(header);
    BOOST_REQUIRE(c.has_value());
    BOOST_TEST(static_cast<bool>(*c));
    BOOST_TEST(c->trace_id[0] == 0x4b);
    BOOST_TEST(c->trace_id[15] == 0x36);
    BOOST_TEST(c->parent_id[1] == 0xf0);
    BOOST_TEST(c->flags == 1);
    BOOST_TEST(c->to_string() == header);
    BOOST_TEST(!trace_context());
    static_assert(std::is_trivially_destructible_v<trace_context>);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_none_is_refused) {
    for (auto const& text :
         {std::string(), header.substr(1), header + "0", with(2, '_'), with(35, '0'), with(52, ' '),
          with(0, 'F'), with(0, 'g'), with(3, 'G'), with(10, 'B'), with(40, '-'), with(54, 'z'),
          "ff" + header.substr(2), "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01",
          "00-4bf92f3577b34da6a3ce929d0e0e4736-" + std::string(16, '0') + "-01"}) {
        BOOST_TEST(!trace_context::parse(text), text);
    }
}

BOOST_AUTO_TEST_CASE(a_later_version_may_have_more_fields) {
    auto const later = "cc" + header.substr(2);
    BOOST_TEST(trace_context::parse(later).has_value());
    BOOST_TEST(trace_context::parse(later + "-what-the-future-brings").has_value());
    BOOST_TEST(!trace_context::parse(later + "0"));
    BOOST_TEST(!trace_context::parse(header + "-00"));
}

BOOST_AUTO_TEST_SUITE_END()
