// The reader accepts each reply that a server may send, however it is split. It refuses all other
// bytes with a reason.
#include "redis/wire/reply_reader.hpp"

#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using holdfast::test::repeated;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

using progress = reply_reader::progress;
using enum codec::resp3::type;

constexpr auto max_reply = reply_reader::max_reply;
constexpr auto max_line = reply_reader::max_line;

/// An element with its own copy of the bytes.
struct part {
    reply_type type;
    std::size_t depth;
    std::string value;

    friend bool operator==(part const&, part const&) = default;
    friend std::ostream& operator<<(std::ostream& out, part const& p) {
        return out << codec::resp3::to_string(p.type) << '@' << p.depth << ' ' << p.value;
    }
};

struct reading {
    std::vector<part> parts;
    std::vector<std::size_t> sizes; ///< of the complete replies
    std::string problem;            ///< empty unless the reading has ended
    std::size_t unread = 0;

    friend bool operator==(reading const&, reading const&) = default;
};

/// Reads as a session does: it reads the received bytes as far as possible, and keeps the rest.
/// Each call gets an allocation of the exact size, so that a sanitizer finds a read beyond it.
class session {
public:
    void receive(std::string_view bytes) {
        kept_ += bytes;
        while (result.problem.empty() && !kept_.empty()) {
            std::vector<char> const buffer(kept_.begin(), kept_.end());
            auto const p = reader_.read({buffer.data(), buffer.size()}, [&](element const& e) {
                auto const* const end = buffer.data() + buffer.size();
                auto const inside = e.value.empty() || (e.value.data() >= buffer.data() &&
                                                        e.value.data() + e.value.size() <= end);
                BOOST_TEST(inside);
                result.parts.push_back({e.type, e.depth, std::string(e.value)});
            });
            if (p == progress::incomplete) break;
            if (p == progress::malformed) {
                BOOST_TEST(!reader_.problem().empty());
                result.problem = reader_.problem();
                break;
            }
            BOOST_REQUIRE(reader_.consumed() != 0U);
            BOOST_REQUIRE(reader_.consumed() <= kept_.size());
            result.sizes.push_back(reader_.consumed());
            kept_.erase(0, reader_.consumed());
        }
        result.unread = kept_.size();
    }

    reading result;

private:
    reply_reader reader_;
    std::string kept_;
};

reading read(std::string_view bytes) {
    session s;
    s.receive(bytes);
    return s.result;
}

reading read_one_by_one(std::string_view bytes) {
    session s;
    for (std::size_t i = 0; i < bytes.size(); ++i) s.receive(bytes.substr(i, 1));
    return s.result;
}

/// Checks that the bytes give these elements, for each way of splitting the bytes in two, and byte
/// by byte.
void check_parts(std::string_view bytes, std::vector<part> const& parts, std::size_t replies = 1) {
    BOOST_TEST_CONTEXT(bytes.substr(0, 60)) {
        auto const whole = read(bytes);
        BOOST_TEST(whole.problem == "");
        BOOST_TEST(whole.parts == parts, boost::test_tools::per_element());
        BOOST_TEST(whole.sizes.size() == replies);
        BOOST_TEST(whole.unread == 0U);
        for (std::size_t split = 0; split <= bytes.size(); ++split) {
            session s;
            s.receive(bytes.substr(0, split));
            if (split < bytes.size()) BOOST_TEST(s.result.sizes.size() < replies);
            s.receive(bytes.substr(split));
            BOOST_TEST((s.result == whole), "split at " << split);
        }
        BOOST_TEST((read_one_by_one(bytes) == whole));
    }
}

/// Checks that the reader refuses the bytes after the same elements, however they are split.
void check_refused(std::string_view bytes, std::string_view problem, std::size_t parts = 0) {
    BOOST_TEST_CONTEXT(bytes.substr(0, 60)) {
        auto const whole = read(bytes);
        BOOST_TEST(whole.problem == problem);
        BOOST_TEST(whole.parts.size() == parts);
        for (std::size_t split = 0; split <= bytes.size(); ++split) {
            session s;
            s.receive(bytes.substr(0, split));
            s.receive(bytes.substr(split));
            BOOST_TEST(s.result.problem == problem,
                       "split at " << split << ": " << s.result.problem);
            BOOST_TEST((s.result.parts == whole.parts));
        }
        auto const slow = read_one_by_one(bytes);
        BOOST_TEST(slow.problem == problem);
        BOOST_TEST((slow.parts == whole.parts));
    }
}

void check_incomplete(std::string_view bytes, std::size_t parts = 0) {
    BOOST_TEST_CONTEXT(bytes.substr(0, 60)) {
        auto const r = read(bytes);
        BOOST_TEST(r.problem == "");
        BOOST_TEST(r.sizes.empty());
        BOOST_TEST(r.parts.size() == parts);
    }
}

std::string bulk(std::size_t size) {
    return '$' + std::to_string(size) + "\r\n" + std::string(size, 'x') + "\r\n";
}

constexpr auto no_length = "an invalid length"sv;
constexpr auto no_number = "an invalid number"sv;
constexpr auto long_reply = "a reply of more than 1048576 bytes"sv;
constexpr auto long_line = "a line of more than 65536 bytes"sv;
constexpr auto inner_push = "a push within a reply"sv;

} // namespace

BOOST_AUTO_TEST_SUITE(reply_reader)

BOOST_AUTO_TEST_CASE(each_simple_type_is_read) {
    check_parts("+OK\r\n", {{simple_string, 0, "OK"}});
    check_parts("+\r\n", {{simple_string, 0, ""}});
    check_parts("+a\rb\nc\0d\r\n"sv, {{simple_string, 0, "a\rb\nc\0d"s}});
    check_parts("+\r\r\n", {{simple_string, 0, "\r"}});
    check_parts("-ERR no\r\n", {{simple_error, 0, "ERR no"}});
    check_parts("-\r\n", {{simple_error, 0, ""}});
    check_parts(":0\r\n", {{number, 0, "0"}});
    check_parts(":-1\r\n", {{number, 0, "-1"}});
    check_parts(":9223372036854775807\r\n", {{number, 0, "9223372036854775807"}});
    check_parts(":-9223372036854775808\r\n", {{number, 0, "-9223372036854775808"}});
    check_parts("_\r\n", {{null, 0, ""}});
    check_parts("#t\r\n", {{boolean, 0, "t"}});
    check_parts("#f\r\n", {{boolean, 0, "f"}});
    check_parts(",3.14\r\n", {{doublean, 0, "3.14"}});
    check_parts(",-inf\r\n", {{doublean, 0, "-inf"}});
    check_parts("(3492890328409238509324850943850943825024385\r\n",
                {{big_number, 0, "3492890328409238509324850943850943825024385"}});
}

BOOST_AUTO_TEST_CASE(each_string_with_a_length_is_read) {
    check_parts("$0\r\n\r\n", {{blob_string, 0, ""}});
    check_parts("$5\r\nhello\r\n", {{blob_string, 0, "hello"}});
    check_parts("$2\r\n\r\n\r\n", {{blob_string, 0, "\r\n"}});
    check_parts("$4\r\n$1\r\n\r\n", {{blob_string, 0, "$1\r\n"}});
    check_parts("$3\r\na\0b\r\n"sv, {{blob_string, 0, "a\0b"s}});
    check_parts("$00000000000000000005\r\nhello\r\n", {{blob_string, 0, "hello"}});
    check_parts("!8\r\nERR what\r\n", {{blob_error, 0, "ERR what"}});
    check_parts("=6\r\ntxt:OK\r\n", {{verbatim_string, 0, "txt:OK"}});
    check_parts("=4\r\nmkd:\r\n", {{verbatim_string, 0, "mkd:"}});
}

BOOST_AUTO_TEST_CASE(each_aggregate_is_read) {
    check_parts("*0\r\n", {{array, 0, ""}});
    check_parts("*2\r\n:1\r\n+a\r\n", {{array, 0, ""}, {number, 1, "1"}, {simple_string, 1, "a"}});
    check_parts("~1\r\n_\r\n", {{set, 0, ""}, {null, 1, ""}});
    check_parts("%0\r\n", {{map, 0, ""}});
    check_parts(
        "%1\r\n$1\r\nk\r\n*2\r\n*0\r\n:7\r\n",
        {{map, 0, ""}, {blob_string, 1, "k"}, {array, 1, ""}, {array, 2, ""}, {number, 2, "7"}});
    check_parts("*2\r\n*1\r\n%1\r\n:1\r\n:2\r\n+end\r\n", {{array, 0, ""},
                                                           {array, 1, ""},
                                                           {map, 2, ""},
                                                           {number, 3, "1"},
                                                           {number, 3, "2"},
                                                           {simple_string, 1, "end"}});
}

BOOST_AUTO_TEST_CASE(a_push_is_a_reply_of_its_own) {
    check_parts(">0\r\n", {{push, 0, ""}});
    check_parts(
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
        {{push, 0, ""}, {blob_string, 1, "invalidate"}, {array, 1, ""}, {blob_string, 2, "k"}});
    check_parts(">2\r\n$10\r\ninvalidate\r\n_\r\n",
                {{push, 0, ""}, {blob_string, 1, "invalidate"}, {null, 1, ""}});
    check_parts(
        "+a\r\n>1\r\n+p\r\n+b\r\n",
        {{simple_string, 0, "a"}, {push, 0, ""}, {simple_string, 1, "p"}, {simple_string, 0, "b"}},
        3);
    check_refused("*2\r\n+a\r\n>1\r\n+p\r\n+b\r\n", inner_push, 2);
    check_refused("*1\r\n>0\r\n", inner_push, 1);
    check_refused("%1\r\n>0\r\n", inner_push, 1);
    check_refused(">1\r\n>1\r\n>1\r\n:1\r\n", inner_push, 1);
    check_refused(">1\r\n>", inner_push, 1);
}

BOOST_AUTO_TEST_CASE(replies_follow_each_other) {
    check_parts("+OK\r\n$2\r\nhi\r\n*1\r\n:1\r\n_\r\n-ERR\r\n",
                {{simple_string, 0, "OK"},
                 {blob_string, 0, "hi"},
                 {array, 0, ""},
                 {number, 1, "1"},
                 {null, 0, ""},
                 {simple_error, 0, "ERR"}},
                5);
    std::vector<part> const many(1000, part{simple_string, 0, "OK"});
    auto const r = read(repeated(1000, "+OK\r\n"));
    BOOST_TEST((r.parts == many));
    BOOST_TEST(r.sizes.size() == 1000U);
    // The reader delivers the replies before a wrong one.
    auto const spoilt = read("+OK\r\n:1\r\n?\r\n+OK\r\n");
    BOOST_TEST(spoilt.sizes.size() == 2U);
    BOOST_TEST(spoilt.problem == "not RESP3: a reply begins with '?'");
}

// Without the check the parser would throw within a noexcept function.
BOOST_AUTO_TEST_CASE(a_length_that_is_missing_is_refused) {
    check_refused("$\r\n", no_length);
    check_refused("=\r\n", no_length);
    check_refused("!\r\n", no_length);
    check_refused(">1\r\n$\r\n", no_length, 1);
    for (auto const type : "$=!*~%>"sv) check_refused(type + "\r\n"s, no_length);
}

// Without the check the parser would count its depth below zero, or beyond its limit.
BOOST_AUTO_TEST_CASE(streamed_strings_are_refused) {
    constexpr auto part_of_one = "not RESP3: a reply begins with ';'"sv;
    check_refused(";0\r\n", part_of_one);
    check_refused(";4\r\nabcd\r\n", part_of_one);
    check_refused("*2\r\n;0\r\n;0\r\n", part_of_one, 1);
    check_refused("$?\r\n;4\r\nHell\r\n;0\r\n", no_length);
    check_refused(repeated(5, "*1\r\n") + "$?\r\n;0\r\n", no_length, 5);
    check_refused(repeated(20, "$?\r\n"), no_length);
    for (auto const type : "=!*~%>"sv) check_refused(type + "?\r\n"s, no_length);
}

BOOST_AUTO_TEST_CASE(attributes_are_refused) {
    constexpr auto attribute_begins = "not RESP3: a reply begins with '|'"sv;
    check_refused("|1\r\n+ttl\r\n:3600\r\n+OK\r\n", attribute_begins);
    check_refused("|0\r\n", attribute_begins);
    check_refused("*1\r\n|1\r\n:1\r\n:2\r\n:3\r\n", attribute_begins, 1);
    check_refused("|", attribute_begins);
}

BOOST_AUTO_TEST_CASE(other_bytes_are_refused_at_the_first) {
    check_refused("HTTP/1.1 400 Bad Request\r\n", "not RESP3: a reply begins with 'H'");
    check_refused("\x15\x03\x01", "not RESP3: a reply begins with 0x15");
    check_refused("\xff", "not RESP3: a reply begins with 0xff");
    check_refused("\0"sv, "not RESP3: a reply begins with 0x00");
    check_refused(" ", "not RESP3: a reply begins with 0x20");
    // These lines have no type.
    check_refused("\r\n", "not RESP3: a reply begins with 0x0d");
    check_refused("\n", "not RESP3: a reply begins with 0x0a");
    check_refused("*1\r\n\r\n", "not RESP3: a reply begins with 0x0d", 1);
    check_refused(".\r\n", "not RESP3: a reply begins with '.'");
    for (int c = 0; c < 256; ++c) {
        auto const text = std::string(1, static_cast<char>(c));
        if ("+-:_#,($!=*~%>"sv.find(text) == std::string_view::npos) {
            BOOST_TEST(!read(text).problem.empty(), c);
        } else {
            check_incomplete(text);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_number_must_be_one) {
    for (auto const text :
         {"", "-", "+1", "1 ", " 1", "1.0", "0x1", "1e3", "--1", "9223372036854775808",
          "-9223372036854775809", "99999999999999999999999999", "abc"}) {
        check_refused(':' + std::string(text) + "\r\n", no_number);
    }
    check_refused(":1\0\r\n"sv, no_number);
    check_refused(":\0\r\n"sv, no_number);
    check_refused(",\r\n", "a number without digits");
    check_refused("(\r\n", "a number without digits");
    check_refused("_x\r\n", "an invalid null");
    for (auto const text : {"", "true", "T", "1", "tt", "t "}) {
        check_refused('#' + std::string(text) + "\r\n", "an invalid boolean");
    }
}

BOOST_AUTO_TEST_CASE(a_length_must_be_one) {
    for (auto const type : "$=!*~%>"sv) {
        for (auto const text : {"-1", "+1", "-0", "1 ", " 1", "1.0", "0x1", "a", "1a", "--", "?1",
                                "000000000000000000001", "123456789012345678901"}) {
            auto const is_null = (type == '$' || type == '*') && text == "-1"sv;
            if (!is_null) check_refused(type + std::string(text) + "\r\n", no_length);
        }
        check_refused(type + "1\0\r\n"s, no_length);
        for (std::uint64_t const size :
             {std::uint64_t{max_reply} + 1, std::uint64_t{1} << 31U, (std::uint64_t{1} << 32U) + 1,
              std::uint64_t{1} << 62U, std::uint64_t{1} << 63U,
              std::numeric_limits<std::uint64_t>::max() - 2,
              std::numeric_limits<std::uint64_t>::max() - 1,
              std::numeric_limits<std::uint64_t>::max()}) {
            check_refused(type + std::to_string(size) + "\r\n", long_reply);
        }
        check_refused(type + "18446744073709551616\r\n"s, long_reply);
        check_refused(type + "99999999999999999999\r\n"s, long_reply);
    }
}

BOOST_AUTO_TEST_CASE(the_nulls_of_resp2_are_nulls) {
    check_parts("$-1\r\n", {{null, 0, ""}});
    check_parts("*-1\r\n", {{null, 0, ""}});
    check_parts(":1\r\n$-1\r\n*-1\r\n+OK\r\n",
                {{number, 0, "1"}, {null, 0, ""}, {null, 0, ""}, {simple_string, 0, "OK"}}, 4);
    check_incomplete("$-1");
    check_incomplete("$-1\r");
    // No command of holdfast has such a reply.
    check_refused("*1\r\n$-1\r\n", no_length, 1);
    check_refused("*1\r\n*-1\r\n", no_length, 1);
    for (auto const text : {"$-01\r\n", "$-2\r\n", "$-1 \r\n", "*-11\r\n"}) {
        check_refused(text, no_length);
    }
}

BOOST_AUTO_TEST_CASE(an_aggregate_has_no_more_elements_than_a_reply_has_room_for) {
    // Each entry counts twice, so an unchecked count of 2^63 entries would overflow to 0 elements.
    check_refused("%9223372036854775808\r\n", long_reply);
    for (auto const type : "*~>"sv) {
        check_incomplete(type + std::to_string(max_reply / 3) + "\r\n", 1);
        check_refused(type + std::to_string(max_reply / 3 + 1) + "\r\n", long_reply);
    }
    check_incomplete('%' + std::to_string(max_reply / 6) + "\r\n", 1);
    check_refused('%' + std::to_string(max_reply / 6 + 1) + "\r\n", long_reply);
    check_refused("*1\r\n*349526\r\n", long_reply, 1);
}

BOOST_AUTO_TEST_CASE(a_verbatim_string_has_a_format) {
    constexpr auto problem = "a verbatim string without a format"sv;
    check_refused("=0\r\n\r\n", problem);
    check_refused("=3\r\ntxt\r\n", problem);
    check_refused("=5\r\nhello\r\n", problem);
    check_refused("=4\r\n:txt\r\n", problem);
    check_refused("=1\r\nx\r\n:1\r\n", problem); // the colon belongs to another reply
}

BOOST_AUTO_TEST_CASE(a_string_ends_with_its_line) {
    constexpr auto problem = "a string that is longer than its length says"sv;
    check_refused("$5\r\nhello!\r\n", problem);
    check_refused("$5\r\nhello\rx", problem);
    check_refused("$5\r\nhello\n\r", problem);
    check_refused("$0\r\n+OK\r\n", problem);
    check_refused("!1\r\nhello\r\n", problem);
    check_refused("=6\r\ntxt:hello\r\n", problem);
    check_refused("*2\r\n$1\r\nabc\r\n", problem, 1);
    check_incomplete("$5\r\nhello\r");
    check_incomplete("$5\r\nhel\r\n");
}

BOOST_AUTO_TEST_CASE(replies_are_nested_up_to_depth_5) {
    for (auto const* const aggregate : {"*1\r\n", "~1\r\n"}) {
        auto const five = repeated(5, aggregate) + ":1\r\n";
        auto const r = read(five);
        BOOST_TEST(r.problem == "");
        BOOST_TEST(r.sizes.size() == 1U);
        BOOST_TEST(r.parts.size() == 6U);
        BOOST_TEST(r.parts.back() == (part{number, 5, "1"}));
        BOOST_TEST((read_one_by_one(five) == r));
        auto const six = read(repeated(6, aggregate) + ":1\r\n");
        BOOST_TEST(six.problem != "");
        BOOST_TEST(six.parts.size() == 5U);
        BOOST_TEST(read(repeated(10'000, aggregate)).problem == six.problem);
        BOOST_TEST(read_one_by_one(repeated(6, aggregate)).problem == six.problem);
    }
    // An empty aggregate at the greatest depth contains no element.
    check_parts(repeated(5, "*1\r\n") + "*0\r\n", {{array, 0, ""},
                                                   {array, 1, ""},
                                                   {array, 2, ""},
                                                   {array, 3, ""},
                                                   {array, 4, ""},
                                                   {array, 5, ""}});
    // A reply may enter the same depth several times.
    auto const branch = "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"s;
    auto const r = read("*3\r\n" + repeated(3, branch) + "+next\r\n");
    BOOST_TEST(r.problem == "");
    BOOST_TEST(r.sizes.size() == 2U);
    BOOST_TEST(r.parts.back() == (part{simple_string, 0, "next"}));
}

BOOST_AUTO_TEST_CASE(a_line_has_an_end) {
    for (auto const type : "+-,("sv) {
        BOOST_TEST_CONTEXT(type) {
            // The limit counts the first byte of the line and all bytes after it, up to the line's
            // end.
            auto const longest = type + std::string(max_line - 1, '1');
            check_incomplete(longest);
            check_incomplete(longest + '\r');
            BOOST_TEST(read(longest + "\r\n").sizes.size() == 1U);
            BOOST_TEST(read(longest + "1\r\n").problem == long_line);
            BOOST_TEST(read(longest + "11").problem == long_line);
            BOOST_TEST(read(longest + "\r\r").problem == long_line);
        }
    }
    session s;
    s.receive("+" + std::string(max_line - 1, 'x'));
    s.receive("\r");
    BOOST_TEST(s.result.sizes.empty());
    s.receive("\n");
    BOOST_TEST(s.result.sizes.size() == 1U);
    BOOST_TEST(s.result.problem == "");
    // The limit starts anew with each line.
    s.receive("+" + std::string(max_line - 1, 'x'));
    s.receive("\r\n+O");
    s.receive("K\r\n");
    BOOST_TEST(s.result.sizes.size() == 3U);
    BOOST_TEST(s.result.problem == "");
    s.receive("+" + std::string(max_line, 'x') + '\r');
    BOOST_TEST(s.result.problem == long_line);
}

BOOST_AUTO_TEST_CASE(a_reply_has_an_end) {
    BOOST_TEST(read(bulk(max_reply)).sizes.size() == 1U);
    BOOST_TEST(read(bulk(max_reply + 1)).problem == long_reply);
    // The bytes before a string count in the same reply.
    BOOST_TEST(read("*1\r\n" + bulk(max_reply - 4)).sizes.size() == 1U);
    BOOST_TEST(read("*1\r\n" + bulk(max_reply - 3)).problem == long_reply);
    BOOST_TEST(read("*2\r\n" + bulk(max_reply / 2) + bulk(max_reply / 2)).problem == long_reply);
    // Many short lines also reach the limit of a reply.
    auto const lines = "*300000\r\n" + repeated(max_reply / 10, "+12345678\r\n");
    BOOST_TEST(read(lines).problem == long_reply);
    // The limit starts anew with each reply.
    auto const r = read(repeated(4, bulk(max_reply)));
    BOOST_TEST(r.sizes.size() == 4U);
    BOOST_TEST(r.problem == "");
}

// The comment at reply_reader::progress promises this bound to the provider of the buffer.
BOOST_AUTO_TEST_CASE(the_bytes_that_a_reply_may_need_are_bounded) {
    constexpr auto bound = max_reply + max_line + 2;
    // The longest case: the last element begins just before the limit of a reply.
    auto const simple_string = "+" + std::string(61, 'x') + "\r\n"; // 64 bytes
    auto const start = "*300000\r\n" + std::string("+12345678901234567890123456789012345678901234"
                                                   "56789012\r\n"); // 64 bytes too
    BOOST_REQUIRE(start.size() == 64U);
    auto const most =
        start + repeated(max_reply / 64 - 1, simple_string) + '+' + std::string(max_line, 'x');
    BOOST_REQUIRE(most.size() == bound - 1);
    check_incomplete(most, max_reply / 64 + 1);
    BOOST_TEST(read(most + 'x').problem == long_line);
}

BOOST_AUTO_TEST_SUITE_END()
