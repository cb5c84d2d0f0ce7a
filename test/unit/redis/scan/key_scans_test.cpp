// The question for keys by a prefix, the replies to it, and the names that are no locks.
#include "redis/scan/key_scan.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/fair_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"
#include "redis/wire/lock_command.hpp"

#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace holdfast::redis;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;
using holdfast::test::contains;

namespace {

class search final : public reply_handler {
public:
    lock_kind const& kind() const noexcept override { return key_scan; }
    command_args arguments(command) const noexcept override {
        return {.key = "seat:", .token = {}, .number = 17};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const&) override {}

private:
    void recycle() noexcept override {}
};

std::string encoded(std::string_view prefix, std::uint64_t cursor, std::uint16_t permits = 0) {
    codec::request r;
    key_scan.encode(r, command::scan, {},
                    {.key = prefix, .token = {}, .number = cursor, .permits = permits});
    return std::string(r.payload());
}

/// The answer to the elements of one reply after the other.
class reader {
public:
    answer const& read(std::vector<element> const& reply) {
        for (auto const& e : reply) {
            reply_.take({.kind = key_scan,
                         .command = command::scan,
                         .words = {},
                         .fenced = false,
                         .owner = search_,
                         .secrets = secrets_},
                        0, e);
        }
        return reply_.result();
    }
    std::vector<std::string> keys() const {
        std::vector<std::string> all;
        for_each_key(reply_.result(), [&](std::string_view key) { all.emplace_back(key); });
        return all;
    }
    bool ends_session() const { return reply_.ends_session() != errc{}; }

private:
    search search_;
    secret_list secrets_{"hush"};
    lock_reply reply_;
};

element array(std::size_t depth) {
    return {reply_type::array, depth, {}};
}
element text(std::size_t depth, std::string_view value) {
    return {reply_type::blob_string, depth, value};
}

using strings = std::vector<std::string>;

} // namespace

BOOST_AUTO_TEST_SUITE(key_scans)

BOOST_AUTO_TEST_CASE(a_prefix_stands_for_itself) {
    auto const pattern = [](std::string const& p) {
        return "$5\r\nMATCH\r\n$" + std::to_string(p.size()) + "\r\n" + p + "\r\n";
    };
    BOOST_TEST(contains(encoded("seat:", 0), pattern("seat:*")));
    BOOST_TEST(contains(encoded("", 0), pattern("*")));
    BOOST_TEST(contains(encoded("a*b?c[d]e\\f", 0), pattern("a\\*b\\?c\\[d]e\\\\f*")));
    BOOST_TEST(encoded("k", 18'446'744'073'709'551'615U) ==
               "*8\r\n$4\r\nSCAN\r\n$20\r\n18446744073709551615\r\n$5\r\nMATCH\r\n$2\r\nk*\r\n"
               "$5\r\nCOUNT\r\n$3\r\n100\r\n$4\r\nTYPE\r\n$6\r\nstring\r\n");
}

BOOST_AUTO_TEST_CASE(a_reply_has_the_next_cursor_and_keys_of_any_bytes) {
    reader r;
    auto const odd = std::string("a\0b\r\n", 5);
    auto const* a = &r.read({array(0), text(1, "18446744073709551615"), array(1), text(2, "seat:1"),
                             text(2, odd), text(2, "")});
    BOOST_TEST((a->verdict == verdict::yes));
    BOOST_TEST((a->cause == errc{}));
    BOOST_TEST(a->message.empty());
    BOOST_TEST(a->number == 18'446'744'073'709'551'615U);
    BOOST_TEST(r.keys() == (strings{"seat:1", odd, ""}));
    // The next reply has nothing of this one.
    a = &r.read({array(0), text(1, "0"), array(1)});
    BOOST_TEST((a->verdict == verdict::yes));
    BOOST_TEST(a->number == 0U);
    BOOST_TEST(r.keys().empty());
}

BOOST_AUTO_TEST_CASE(a_reply_of_another_form_is_an_error_and_no_list) {
    element const number{reply_type::number, 0, "1"}, inner_number{reply_type::number, 1, "0"};
    for (auto const& reply : std::vector<std::vector<element>>{
             {number},
             {text(0, "OK")},
             {element{reply_type::null, 0, {}}},
             {element{reply_type::map, 0, {}}},
             {array(0), array(1)},
             {array(0), inner_number, array(1)},
             {array(0), text(1, ""), array(1)},
             {array(0), text(1, "-1"), array(1)},
             {array(0), text(1, "0x"), array(1)},
             {array(0), text(1, "18446744073709551616"), array(1)},
             {array(0), text(1, "0"), text(1, "k")},
             {array(0), text(1, "0"), array(1), element{reply_type::number, 2, "7"}},
             {array(0), text(1, "0"), array(1), array(2), text(3, "k")},
             {array(0), text(1, "0"), array(1), text(2, "k"), text(1, "0")},
             {array(0), text(1, "0"), array(1), text(2, "k"), array(1), text(2, "l")},
         }) {
        reader r;
        auto const& a = r.read(reply);
        BOOST_TEST((a.verdict == verdict::refused));
        BOOST_TEST((a.cause == errc::not_redis));
        BOOST_TEST(contains(a.message, "SCAN"), a.message);
        BOOST_TEST(r.keys().empty());
        BOOST_TEST(!r.ends_session());
    }
    // A reply that ends early.
    for (auto const& reply :
         std::vector<std::vector<element>>{{array(0)}, {array(0), text(1, "0")}}) {
        reader r;
        BOOST_TEST((r.read(reply).verdict != verdict::yes));
        BOOST_TEST((r.read(reply).cause == errc::not_redis));
    }
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_without_secrets) {
    reader r;
    auto const& a =
        r.read({{reply_type::simple_error, 0, "NOPERM hush has no right to run 'scan'"}});
    BOOST_TEST((a.verdict == verdict::refused));
    BOOST_TEST((a.cause == errc::access_denied));
    BOOST_TEST(contains(a.message, "NOPERM"), a.message);
    BOOST_TEST(!contains(a.message, "hush"), a.message);
}

BOOST_AUTO_TEST_CASE(keys_beside_a_lock_are_known_by_their_names) {
    std::string const token = "web-7:0123456789abcdef0123456789abcdef";
    for (std::string const key : {"k", "seat:7", "{k}", "a{b}c", "}", "open{", "a}b", "k:queue"}) {
        std::string name;
        name_fence_key(name, key);
        BOOST_TEST(is_beside_a_lock(name), name);
        name_cluster_fence_key(name, key);
        BOOST_TEST(is_beside_a_lock(name), name);
        for (auto const in_cluster : {false, true}) {
            name_line(name, key, in_cluster);
            BOOST_TEST(is_beside_a_lock(name), name);
            BOOST_TEST(is_beside_a_lock(name + ':' + token), name);
            BOOST_TEST(is_beside_a_lock(name + ':' + token.substr(6)), name);
            companion_names beside;
            name_companions(beside, key, in_cluster);
            permit_names permits;
            name_permit_keys(permits, key, in_cluster);
            for (auto const& each :
                 {beside.readers, beside.intent, beside.turn, permits.until, permits.fences})
                BOOST_TEST(is_beside_a_lock(each), each);
            BOOST_TEST(semaphore_of(permits.until) == key);
            for (auto const& each : {permits.fences, beside.readers, name})
                BOOST_TEST(semaphore_of(each) == "", each);
        }
    }
    for (std::string const key : {"k",
                                  "k:last",
                                  "k:fence",
                                  "k:queue",
                                  ":fence",
                                  "{}:fence",
                                  "{k}:fence:x",
                                  "{k}",
                                  "{jobs}:queue:mail",
                                  "{jobs}:queues",
                                  "{k}:queue:0123456789abcdef",
                                  "k:readers",
                                  "k:turn",
                                  "{}:intent",
                                  "{k}:intents",
                                  "k:until",
                                  "{k}:untils",
                                  "{}:fences",
                                  "{k}:turn:x",
                                  "{k}:turn:slot:own",
                                  ":readers"})
        BOOST_TEST(!is_beside_a_lock(key), key);
    for (std::string const name :
         {"", "k", ":until", "k:until", "{}:until", "{k:until", "k}:until", "k:until:own",
          "k:until:slot", "{abc}k:until:slot", "{abcd}:until:slot", "{k}:until:x", "{k}:fences"})
        BOOST_TEST(semaphore_of(name) == "", name);
}

BOOST_AUTO_TEST_CASE(semaphores_are_found_by_the_names_of_their_deadlines) {
    BOOST_TEST(contains(encoded("a*b", 0, 1),
                        "MATCH\r\n$13\r\n*a\\*b*:until*\r\n$5\r\nCOUNT\r\n$3\r\n100\r\n$4\r\n"
                        "TYPE\r\n$4\r\nzset\r\n"),
               encoded("a*b", 0, 1));
    BOOST_TEST(contains(encoded("", 0, 1), "**:until*"));
}

BOOST_AUTO_TEST_SUITE_END()
