// A second kind of lock, which the library does not have: the slot of a semaphore. It goes the
// whole way, from its arguments to its answers, without a line in src.
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/pipeline.hpp"

#include "support/resp.hpp"
#include "unit/redis/server/memory_link.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using holdfast::errc;
using holdfast::lease_clock;
using holdfast::protocol::command;
using holdfast::protocol::verdict;

namespace {

//
// The kind. A key is a hash of slots; `number` is how many slots it has. A grant is an array of the
// slot and of zero. A refusal is an array of -1 and of the milliseconds until a slot expires. A
// release has two replies: that of its script, and that of a SET of the key that waiters watch.
//

constexpr std::string_view take_script = "return {0,0}";
constexpr std::string_view keep_script = "return 1";
constexpr std::string_view free_script = "return 0";
constexpr std::array slot_scripts{take_script, keep_script, free_script};

std::uint8_t slot_replies(command c, wording w) {
    if (c == command::contend && w.tracked) return 3;
    return c == command::contend || c == command::release ? 2 : 1;
}

void encode_slot(codec::request& request, command c, wording w, command_args const& a) {
    static script const take(take_script), keep(keep_script), free(free_script);
    auto const freed = std::string(a.key) + ":freed";
    switch (c) {
    case command::extend:
        return keep.encode(request, w, 1, a.key, a.token, a.ttl.count());
    case command::release:
        free.encode(request, w, 1, a.key, a.token);
        return request.push("SET", freed, a.token);
    case command::contend:
        take.encode(request, w, 1, a.key, a.token, a.ttl.count(), a.number);
        if (w.tracked) request.push("CLIENT", "CACHING", "YES");
        return request.push("GET", freed);
    default:
        return take.encode(request, w, 1, a.key, a.token, a.ttl.count(), a.number);
    }
}

// One element of the array of a grant or of a refusal.
void read_slot_or_ttl(partial_answer& p, element const& e) {
    if (e.depth == 0) {
        p.text.clear();
    } else if (p.text.empty()) {
        p.text = e.value;
        p.answer.verdict = e.value.starts_with('-') ? verdict::no : verdict::yes;
        p.answer.number = e.value.starts_with('-') ? 0 : std::stoull(p.text);
    } else if (p.answer.verdict == verdict::no) {
        read_ttl(p, e);
    }
}

void read_slot(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    auto const first = left + 1U == slot_replies(c.command, c.words);
    if (!first) {
        if (left == 1) p.tracked = !is_error(e.type);
        if (left == 0) p.answer.push_follows = p.tracked;
        return;
    }
    if (is_error(e.type)) return read_error(p, c, e, verdict::refused, "EVALSHA");
    if (c.command == command::extend || c.command == command::release) {
        auto const done = truth_of(e);
        if (!done) return read_nonsense(p);
        p.answer.verdict = *done ? verdict::yes : verdict::no;
        return;
    }
    if (e.depth == 0 && e.type != reply_type::array) return read_nonsense(p);
    read_slot_or_ttl(p, e);
}

constexpr lock_kind slot{
    .scripts = slot_scripts, .replies = slot_replies, .encode = encode_slot, .read = read_slot};

constexpr std::string_view own_token = "0123456789abcdef0123456789abcdef";
constexpr command_args worker{.key = "workers", .token = own_token, .ttl = 10s, .number = 10};

//
// The library's part
//

struct kept_answer {
    command asked;
    verdict said;
    errc cause;
    std::uint64_t number;
    bool push_follows;
    std::chrono::milliseconds ttl_left;
    std::string message;
};

class asker final : public reply_handler {
public:
    explicit asker(holdfast::redis::lock_kind const& k)
        : kind_(k) {}

    holdfast::redis::lock_kind const& kind() const noexcept override { return kind_; }
    command_args arguments(command) const noexcept override { return worker; }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command c, std::uint32_t, answer const& a) override {
        answers.push_back({c, a.verdict, a.cause, a.number, a.push_follows,
                           a.ttl_left.value_or(-1ms), std::string(a.message)});
    }

    std::vector<kept_answer> answers;

private:
    void recycle() noexcept override {}

    holdfast::redis::lock_kind const& kind_;
};

std::string whole(std::string_view text, std::vector<std::string> const& arguments) {
    std::vector<std::string> words{"EVAL", std::string(text), "1", "workers",
                                   std::string(own_token)};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return resp::command(words);
}
std::string const freed = "workers:freed";

std::string encoded(command c, holdfast::redis::lock_kind const& kind, wording w = {}) {
    codec::request r;
    kind.encode(r, c, w, worker);
    return std::string(r.payload());
}

// Reads replies through a pipeline, as an instance connection does.
struct reader {
    lock_reply reply;
    secret_list secrets{"hush"};
    std::vector<std::pair<verdict, std::uint64_t>> results;

    void on_part(pending_command& c, element const& e) {
        reply.take({.kind = c.owner->kind(),
                    .command = c.command,
                    .words = c.words,
                    .fenced = c.fenced,
                    .owner = *c.owner,
                    .secrets = secrets},
                   c.replies - 1U, e);
    }
    void on_reply(pending_command const&) {
        results.emplace_back(reply.result().verdict, reply.result().number);
    }
    void on_batch_answered() {}
    void on_push(element const&) {}
    bool ends() const { return false; }
};

void check(kept_answer const& a, command asked, verdict said, std::uint64_t number = 0) {
    BOOST_TEST((a.asked == asked));
    BOOST_TEST((a.said == said));
    BOOST_TEST(a.number == number);
}

} // namespace

BOOST_AUTO_TEST_SUITE(lock_kind)

BOOST_AUTO_TEST_CASE(a_kind_words_its_commands) {
    wording const w{.whole_script = true};
    BOOST_TEST(encoded(command::acquire, slot, w) == whole(take_script, {"10000", "10"}));
    BOOST_TEST(encoded(command::extend, slot, w) == whole(keep_script, {"10000"}));
    BOOST_TEST(encoded(command::release, slot, w) ==
               whole(free_script, {}) + resp::command({"SET", freed, std::string(own_token)}));
    BOOST_TEST(encoded(command::acquire, exclusive_key) ==
               resp::command({"SET", "workers", std::string(own_token), "NX", "PX", "10000"}));
}

BOOST_AUTO_TEST_CASE(an_encoder_serves_kinds_in_turn) {
    encoder e;
    for (auto const* const kind : {&slot, &exclusive_key, &slot}) {
        e.start(command::contend, asker(*kind));
        BOOST_TEST(e.bytes({.tracked = true}) ==
                   encoded(command::contend, *kind, {.tracked = true}));
    }
}

BOOST_AUTO_TEST_CASE(a_pipeline_expects_the_replies_of_each_kind) {
    asker s(slot), x(exclusive_key);
    holdfast::redis::pipeline p;
    encoder e;
    for (auto* const a : {&s, &x}) {
        e.start(command::release, *a);
        p.add(e, {.owner = a, .command = command::release}, {.tracked = true});
    }
    p.add({.owner = &s, .command = command::contend}, {.tracked = true});
    // A pending release waits in a lane, and is encoded when it leaves.
    p.add_late({.owner = &s, .command = command::release});
    auto& b = p.send({});
    BOOST_TEST(b.bytes == encoded(command::release, slot) +
                              encoded(command::release, exclusive_key) +
                              encoded(command::contend, slot, {.tracked = true}) +
                              encoded(command::release, slot));
    b.written = b.bytes.size();
    reader user;
    std::string_view bytes = ":1\r\n+OK\r\n"
                             ":0\r\n"
                             "*2\r\n:7\r\n:0\r\n+OK\r\n_\r\n"
                             ":1\r\n+OK\r\n";
    BOOST_TEST(p.read(bytes, user));
    BOOST_TEST(p.idle());
    BOOST_TEST((user.results ==
                std::vector<std::pair<verdict, std::uint64_t>>{
                    {verdict::yes, 0}, {verdict::no, 0}, {verdict::yes, 7}, {verdict::yes, 0}}));
}

BOOST_AUTO_TEST_CASE(a_link_answers_for_each_kind) {
    asker s(slot), x(exclusive_key);
    memory_link c;
    BOOST_TEST(c.send({{command::acquire, &s}, {command::acquire, &x}, {command::contend, &s}}) ==
               encoded(command::acquire, slot) + encoded(command::acquire, exclusive_key) +
                   encoded(command::contend, slot, {.tracked = true}));
    BOOST_TEST(c.receive("*2\r\n:3\r\n:0\r\n"
                         "+OK\r\n"
                         "*2\r\n:-1\r\n:2500\r\n+OK\r\n_\r\n")
                   .empty());
    BOOST_REQUIRE(s.answers.size() == 2U);
    BOOST_REQUIRE(x.answers.size() == 1U);
    check(s.answers[0], command::acquire, verdict::yes, 3);
    check(x.answers[0], command::acquire, verdict::yes);
    check(s.answers[1], command::contend, verdict::no);
    BOOST_TEST((s.answers[1].ttl_left == 2500ms));
    BOOST_TEST(s.answers[1].push_follows);
}

BOOST_AUTO_TEST_CASE(a_forgotten_script_of_any_kind_is_sent_whole) {
    asker s(slot);
    memory_link c;
    c.send({{command::contend, &s}});
    auto const again = c.receive("-NOSCRIPT No matching script.\r\n+OK\r\n_\r\n");
    BOOST_TEST(again == encoded(command::contend, slot, {.tracked = true, .whole_script = true}));
    BOOST_TEST(s.answers.empty());
    c.receive("*2\r\n:9\r\n:0\r\n+OK\r\n_\r\n");
    BOOST_REQUIRE(s.answers.size() == 1U);
    check(s.answers[0], command::contend, verdict::yes, 9);
}

BOOST_AUTO_TEST_CASE(an_error_and_nonsense_end_as_with_any_kind) {
    asker s(slot);
    memory_link c;
    c.send({{command::extend, &s}, {command::acquire, &s}});
    c.receive("-OOM no memory for " + std::string(own_token) + "\r\n+OK\r\n");
    BOOST_REQUIRE(s.answers.size() == 2U);
    check(s.answers[0], command::extend, verdict::refused);
    BOOST_TEST((s.answers[0].cause == errc::rejected));
    BOOST_TEST(s.answers[0].message == "OOM no memory for ***");
    check(s.answers[1], command::acquire, verdict::unknown);
    BOOST_TEST((s.answers[1].cause == errc::not_redis));
}

BOOST_AUTO_TEST_CASE(a_probe_loads_the_scripts_of_all_kinds_of_the_library) {
    probe p;
    auto const questions = p.begin({.name = "unit"});
    auto const kinds = lock_kinds();
    BOOST_TEST((std::find(kinds.begin(), kinds.end(), &exclusive_key) != kinds.end()));
    for (auto const* const kind : kinds) {
        for (auto const text : kind->scripts) {
            BOOST_TEST(questions->bytes.find(resp::command(
                           {"SCRIPT", "LOAD", std::string(text)})) != std::string::npos);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
