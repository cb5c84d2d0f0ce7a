// The wording of a revocation, the tombstone that it leaves, and how an extension shows it.
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/revoked_key.hpp"
#include "redis/wire/kinds/set_key.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/tombstone.hpp"

#include "support/text.hpp"
#include "unit/redis/wire/kinds/kind_replies.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

using namespace holdfast::redis;
using namespace holdfast::test::kind_replies;
using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::protocol::command;
using holdfast::protocol::verdict;
using holdfast::test::contains;

namespace {

constexpr std::string_view our_token = "web-7:0123456789abcdef0123456789abcdef";
constexpr std::string_view another = "web-8:0123456789abcdef0123456789abcdef";

constexpr std::array<std::string_view, 2> keys{"a", "b"};

command_args revoked(token_place held_in) {
    return {.key = "k",
            .token = our_token,
            .ttl = 10'000ms,
            .keys = keys,
            .tombstone = "revoked@ops:x",
            .held_in = held_in};
}

struct reading : answer_of {
    reading(lock_kind const& kind, command c, element const& e)
        : answer_of(kind, revoked(token_place::key), c, {e}, false, {}) {}
};

std::string encoded(token_place held_in, wording w = {}) {
    codec::request r;
    revoked_key.encode(r, command::revoke, w, revoked(held_in));
    return std::string(r.payload());
}

} // namespace

BOOST_AUTO_TEST_SUITE(revocation_commands)

BOOST_AUTO_TEST_CASE(a_tombstone_has_the_form_of_a_token) {
    auto const text = tombstone_of(our_token, "ops");
    BOOST_TEST(text.starts_with("revoked@ops:"));
    BOOST_TEST(label_of(text) == "revoked@ops");
    BOOST_TEST(is_tombstone(text));
    BOOST_TEST(revoker_in(label_of(text)) == "ops");
    BOOST_TEST(digest_in(text) == digest_of(our_token));
    BOOST_TEST(replaces(text, our_token));
    BOOST_TEST(!replaces(text, another));
    BOOST_TEST(!contains(text, "0123456789abcdef"));
    BOOST_TEST(tombstone_of(our_token, "").starts_with("revoked@:"));
    auto const longest = tombstone_of(our_token, std::string(holdfast::max_label_size, 'x'));
    BOOST_TEST(longest.size() == holdfast::max_token_size);
    BOOST_TEST(is_tombstone(longest));
    for (auto const* const other : {"", "revoked@", "revoked@ops:0123", "readers:x"})
        BOOST_TEST(!is_tombstone(other));
    BOOST_TEST(!is_tombstone(our_token));
}

BOOST_AUTO_TEST_CASE(the_script_of_a_reader_or_a_permit_has_the_set_of_these) {
    auto const of_holder = encoded(token_place::key), of_reader = encoded(token_place::readers),
               of_permit = encoded(token_place::permits);
    BOOST_TEST(contains(of_holder, "EVALSHA"));
    BOOST_TEST(!contains(of_holder, "readers"));
    BOOST_TEST(contains(of_reader, "{k}:readers"));
    BOOST_TEST(contains(of_permit, "{k}:until"));
    for (auto const& each : {of_holder, of_reader, of_permit}) {
        BOOST_TEST(contains(each, our_token));
        BOOST_TEST(contains(each, "revoked@ops:x"));
    }
    BOOST_TEST(contains(encoded(token_place::key, {.whole_script = true}), "keepttl"));
}

BOOST_AUTO_TEST_CASE(replies_to_a_revocation) {
    BOOST_TEST((reading(revoked_key, command::revoke, number("1"))->verdict == verdict::yes));
    BOOST_TEST((reading(revoked_key, command::revoke, number("0"))->verdict == verdict::no));
    reading const nonsense(revoked_key, command::revoke, blob("1"));
    BOOST_TEST((nonsense->verdict == verdict::unknown));
    BOOST_TEST((nonsense.reader().ends_session() == errc::not_redis));
    reading const refused(revoked_key, command::revoke,
                          error("NOPERM User app has no permissions to run 'set'"));
    BOOST_TEST((refused->verdict == verdict::refused));
    BOOST_TEST((refused->cause == errc::access_denied));
    BOOST_TEST(contains(refused->message, "GET, SET"), refused->message);
    BOOST_TEST(!refused.lack); // locks can do without
}

// All kinds alike. Only the tombstone of our own token tells who has revoked us.
BOOST_AUTO_TEST_CASE(an_extension_shows_tombstones) {
    auto const ours = tombstone_of(our_token, "ops"), other = tombstone_of(another, "else");
    for (auto const* const kind : {&exclusive_key, &read_key, &write_key, &set_key, &permit_key}) {
        reading const revoked(*kind, command::extend, blob(ours));
        BOOST_TEST((revoked->verdict == verdict::no));
        BOOST_TEST(revoked->holder == "revoked@ops");
        reading const of_another(*kind, command::extend, blob(other));
        BOOST_TEST((of_another->verdict == verdict::no));
        BOOST_TEST(of_another->holder == "");
        auto const several = other + ' ' + ours;
        BOOST_TEST(reading(*kind, command::extend, blob(several))->holder == "revoked@ops");
        reading const foreign(*kind, command::extend, blob("revoked@ and more"));
        BOOST_TEST((foreign->verdict == verdict::no));
        BOOST_TEST(foreign->holder == "");
        reading const nonsense(*kind, command::extend, blob("another text"));
        BOOST_TEST((nonsense->verdict == verdict::unknown));
        reading const released(*kind, command::release, blob(ours));
        BOOST_TEST((released->verdict == verdict::unknown));
    }
}

BOOST_AUTO_TEST_SUITE_END()
