// The pipeline sends commands in bounded batches, and matches each reply with its command.
#include "redis/wire/pipeline.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::protocol::command;
using wire = holdfast::redis::pipeline;

namespace {

class lock final : public reply_handler {
public:
    explicit lock(std::string key)
        : key_(std::move(key)) {}

    command_args arguments(command) const noexcept override {
        // No text can be that long, so encoding it throws, as encoding does without memory.
        constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
        return {.key = key_, .token = too_long ? std::string_view("t", most) : "t", .ttl = 10ms};
    }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const&) override {}

    bool too_long = false;

private:
    void recycle() noexcept override {}
    std::string key_;
};

/// Locks on the keys 0, 1, 2 ..
class locks {
public:
    lock& operator[](std::size_t n) {
        while (all_.size() <= n) all_.emplace_back(std::to_string(all_.size()));
        return all_[n];
    }

private:
    std::deque<lock> all_;
};

std::string encoded(command c, lock const& l, wording w = {}) {
    codec::request r;
    l.kind().encode(r, c, w, l.arguments(c));
    return std::string(r.payload());
}

pending_command pending(command c, lock& l) {
    return {.owner = &l, .command = c};
}

void add(wire& p, command c, lock& l, bool tracked = false) {
    encoder e;
    e.start(c, l);
    p.add(e, pending(c, l), {.tracked = tracked});
}

/// Sends the next batch as if it had been written at once.
batch& send_written(wire& p, wording w = {}) {
    auto& b = p.send(w);
    b.written = b.bytes.size();
    return b;
}

/// The commands of a batch, each as a letter and its key: "e0" extends the key 0.
std::string content(batch const& b) {
    std::string text;
    for (auto const& c : b.commands) {
        text += c.command == command::acquire   ? 'a'
                : c.command == command::extend  ? 'e'
                : c.command == command::release ? 'r'
                                                : '?';
        text += std::string(c.owner->arguments(c.command).key) + ' ';
    }
    return text;
}

struct listener {
    std::string said;
    std::size_t ends_after = std::numeric_limits<std::size_t>::max();
    std::size_t replies = 0;

    void on_part(pending_command& c, element const& e) {
        said += '(' + std::to_string(c.replies) + ' ' + std::to_string(e.depth) + ' ' +
                std::string(e.value) + ')';
    }
    void on_reply(pending_command c) {
        ++replies;
        said += c.owner ? std::string(c.owner->arguments(c.command).key) : "-";
        said += ' ';
    }
    void on_batch_answered() { said += "| "; }
    void on_push(element const& e) { said += '[' + std::string(e.value) + ']'; }
    bool ends() const { return replies >= ends_after; }
};

/// Reads all bytes. Returns the elements that the listener got, or the problem.
std::string read(wire& p, std::string_view bytes) {
    listener user;
    if (!p.read(bytes, user)) return p.problem();
    BOOST_TEST(bytes.empty());
    return user.said;
}

struct fresh_pipeline {
    locks of;
    wire p;
};

std::string const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
std::string const heard = "[][invalidate][][k]";

} // namespace

BOOST_FIXTURE_TEST_SUITE(pipeline, fresh_pipeline)

BOOST_AUTO_TEST_CASE(commands_of_one_turn_travel_in_one_batch) {
    BOOST_TEST(p.empty());
    BOOST_TEST(p.idle());
    add(p, command::acquire, of[0]);
    p.add(pending(command::release, of[1]), wording{.dialect = dialect::delex});
    p.add({.type = command_type::ping}, "PING");
    BOOST_TEST(!p.empty());
    BOOST_TEST(p.idle());
    auto& b = p.send({});
    BOOST_TEST(b.bytes == encoded(command::acquire, of[0]) +
                              encoded(command::release, of[1], {.dialect = dialect::delex}) +
                              "*1\r\n$4\r\nPING\r\n");
    BOOST_TEST(b.commands.size() == 3U);
    BOOST_TEST(b.written == 0U);
    BOOST_TEST(p.empty());
    BOOST_TEST(!p.idle());
}

BOOST_AUTO_TEST_CASE(a_batch_is_bounded_and_what_it_cannot_take_follows_in_order) {
    std::string all;
    for (std::size_t n = 0; n < wire::max_commands + 2; ++n) add(p, command::release, of[n]);
    for (std::size_t n = 0; n < wire::max_commands; ++n) all += encoded(command::release, of[n]);
    auto& first = send_written(p);
    BOOST_TEST(first.commands.size() == wire::max_commands);
    BOOST_TEST(first.bytes == all);
    BOOST_TEST(!p.empty());
    auto& second = send_written(p);
    BOOST_TEST(content(second) == "r" + std::to_string(wire::max_commands) + " r" +
                                      std::to_string(wire::max_commands + 1) + " ");
    BOOST_TEST(second.bytes == encoded(command::release, of[wire::max_commands]) +
                                   encoded(command::release, of[wire::max_commands + 1]));
    BOOST_TEST(p.empty());
}

BOOST_AUTO_TEST_CASE(a_command_waits_behind_a_full_batch_and_not_before) {
    for (std::size_t n = 0; n < wire::max_commands; ++n) add(p, command::release, of[n]);
    send_written(p);
    BOOST_TEST(p.empty());
}

BOOST_AUTO_TEST_CASE(there_is_room_for_two_batches) {
    for (std::size_t n = 0; n < 2; ++n) {
        BOOST_TEST(p.has_room());
        add(p, command::acquire, of[n]);
        send_written(p);
    }
    BOOST_TEST(!p.has_room());
    BOOST_TEST(read(p, "+OK\r\n") == "(1 0 OK)0 | ");
    BOOST_TEST(p.has_room());
    BOOST_TEST(!p.idle());
    BOOST_TEST(read(p, "+OK\r\n") == "(1 0 OK)1 | ");
    BOOST_TEST(p.idle());
}

BOOST_AUTO_TEST_CASE(replies_belong_to_commands_in_the_order_in_which_these_were_sent) {
    for (std::size_t n = 0; n < 3; ++n) add(p, command::acquire, of[n]);
    send_written(p);
    add(p, command::acquire, of[3]);
    send_written(p);
    BOOST_TEST(read(p, "+OK\r\n_\r\n-ERR no\r\n:1\r\n") ==
               "(1 0 OK)0 (1 0 )1 (1 0 ERR no)2 | (1 0 1)3 | ");
}

BOOST_AUTO_TEST_CASE(a_command_with_several_replies_is_answered_by_the_last) {
    add(p, command::contend, of[0]);
    add(p, command::contend, of[1], true);
    add(p, command::inspect, of[2]);
    send_written(p);
    BOOST_TEST(read(p, "_\r\n:5\r\n") == "(2 0 )(1 0 5)0 ");
    BOOST_TEST(read(p, "_\r\n+OK\r\n:5\r\n") == "(3 0 )(2 0 OK)(1 0 5)1 ");
    BOOST_TEST(read(p, ":5\r\n+string\r\n$1\r\nx\r\n") == "(3 0 5)(2 0 string)(1 0 x)2 | ");
}

BOOST_AUTO_TEST_CASE(a_reply_of_many_parts_is_one_reply) {
    p.add({.type = command_type::time}, "TIME");
    send_written(p);
    BOOST_TEST(read(p, "*2\r\n$1\r\n7\r\n$1\r\n8\r\n") == "(1 0 )(1 1 7)(1 1 8)- | ");
}

BOOST_AUTO_TEST_CASE(pushes_are_heard_in_their_place_and_are_no_replies) {
    BOOST_TEST(read(p, push) == heard);
    add(p, command::contend, of[0]);
    add(p, command::acquire, of[1]);
    send_written(p);
    BOOST_TEST(read(p, push + "_\r\n" + push + ":5\r\n" + push + push + "+OK\r\n" + push) ==
               heard + "(2 0 )" + heard + "(1 0 5)0 " + heard + heard + "(1 0 OK)1 | " + heard);
}

BOOST_AUTO_TEST_CASE(bytes_may_come_in_any_pieces) {
    auto const all = push + "_\r\n" + push + ":5\r\n*2\r\n$1\r\n7\r\n$1\r\n8\r\n_\r\n";
    auto const expected = heard + "(2 0 )" + heard + "(1 0 5)0 (1 0 )(1 1 7)(1 1 8)- | (1 0 )1 | ";
    for (std::size_t piece = 1; piece <= all.size(); ++piece) {
        wire cut;
        add(cut, command::contend, of[0]);
        cut.add({.type = command_type::time}, "TIME");
        send_written(cut);
        add(cut, command::acquire, of[1]);
        send_written(cut);
        listener user;
        std::size_t begin = 0;
        for (std::size_t end = piece; begin < all.size(); end += piece) {
            auto bytes = std::string_view(all).substr(0, end).substr(begin);
            BOOST_REQUIRE(cut.read(bytes, user));
            begin = std::min(end, all.size()) - bytes.size();
        }
        BOOST_TEST(user.said == expected, piece << ": " << user.said);
        BOOST_TEST(cut.idle());
    }
}

BOOST_AUTO_TEST_CASE(a_reply_to_no_command_is_a_problem) {
    BOOST_TEST(read(p, "+OK\r\n") == "a reply to no command");
    wire another;
    add(another, command::acquire, of[0]); // the command was not sent
    BOOST_TEST(read(another, "+OK\r\n") == "a reply to no command");
    wire third;
    add(third, command::acquire, of[0]);
    send_written(third);
    BOOST_TEST(read(third, "+OK\r\n+OK\r\n") == "a reply to no command");
}

BOOST_AUTO_TEST_CASE(a_reply_to_a_command_that_is_not_written_is_a_problem) {
    add(p, command::acquire, of[0]);
    auto& b = p.send({});
    b.written = b.bytes.size() - 1;
    BOOST_TEST(read(p, "+OK\r\n") == "a reply to a command that was not sent yet");
}

BOOST_AUTO_TEST_CASE(a_malformed_reply_is_a_problem) {
    add(p, command::acquire, of[0]);
    send_written(p);
    listener user;
    std::string_view bytes = "+OK\r\n?";
    add(p, command::acquire, of[1]);
    send_written(p);
    BOOST_TEST(!p.read(bytes, user));
    BOOST_TEST(user.said == "(1 0 OK)0 | ");
    BOOST_TEST(!p.problem().empty());
}

BOOST_AUTO_TEST_CASE(a_user_that_ends_reads_no_further) {
    for (std::size_t n = 0; n < 3; ++n) add(p, command::acquire, of[n]);
    send_written(p);
    listener user;
    user.ends_after = 2;
    std::string_view bytes = "+OK\r\n+OK\r\n+OK\r\n";
    BOOST_TEST(p.read(bytes, user));
    BOOST_TEST(user.said == "(1 0 OK)0 (1 0 OK)1 ");
    BOOST_TEST(bytes == "+OK\r\n");
}

BOOST_AUTO_TEST_CASE(a_new_connection_forgets_half_a_reply) {
    add(p, command::acquire, of[0]);
    send_written(p);
    listener user;
    std::string_view bytes = "*2\r\n:1\r\n";
    BOOST_TEST(p.read(bytes, user));
    p.take_sent([](pending_command) {});
    p.restart();
    add(p, command::acquire, of[1]);
    send_written(p);
    BOOST_TEST(read(p, "+OK\r\n") == "(1 0 OK)1 | ");
}

BOOST_AUTO_TEST_CASE(a_probe_is_sent_before_what_waits) {
    add(p, command::acquire, of[0]);
    auto probe = std::make_unique<batch>();
    append(*probe, {.type = command_type::probe}, "HELLO");
    auto& b = p.send_first(std::move(probe));
    BOOST_TEST(b.bytes == "HELLO");
    b.written = b.bytes.size();
    send_written(p);
    BOOST_TEST(read(p, "+x\r\n+OK\r\n") == "(1 0 x)- | (1 0 OK)0 | ");
}

BOOST_AUTO_TEST_CASE(a_batch_is_used_again_as_good_as_new) {
    for (std::size_t n = 0; n < 10; ++n) {
        add(p, command::acquire, of[n]);
        auto& b = p.send({});
        BOOST_TEST(b.written == 0U);
        BOOST_TEST(!b.answered());
        BOOST_TEST(b.bytes == encoded(command::acquire, of[n]));
        BOOST_TEST(b.commands.size() == 1U);
        b.written = b.bytes.size();
        BOOST_TEST(read(p, "+OK\r\n") == "(1 0 OK)" + std::to_string(n) + " | ");
    }
}

//
// Lanes
//

BOOST_AUTO_TEST_CASE(behind_a_full_batch_extensions_leave_first_and_releases_last) {
    for (std::size_t n = 0; n < wire::max_commands; ++n) add(p, command::release, of[n]);
    add(p, command::release, of[600]);
    add(p, command::acquire, of[601]);
    add(p, command::extend, of[602]);
    send_written(p);
    BOOST_TEST(content(send_written(p)) == "e602 a601 r600 ");
}

BOOST_AUTO_TEST_CASE(commands_on_one_key_keep_their_order) {
    for (std::size_t n = 0; n < wire::max_commands; ++n) add(p, command::release, of[n]);
    add(p, command::extend, of[0]); // the release of key 0 is in the batch
    add(p, command::acquire, of[600]);
    add(p, command::release, of[600]);
    add(p, command::acquire, of[600]);
    send_written(p);
    BOOST_TEST(content(send_written(p)) == "e0 a600 r600 a600 ");
}

BOOST_AUTO_TEST_CASE(while_some_wait_nothing_goes_past_them_on_its_key) {
    // The batch has room, but the pending release of key 0 must leave before its next commands.
    p.add_late(pending(command::release, of[0]));
    add(p, command::acquire, of[0]);
    p.add(pending(command::acquire, of[1]), wording{});
    BOOST_TEST(content(send_written(p)) == "a1 r0 a0 ");
}

BOOST_AUTO_TEST_CASE(pending_releases_leave_after_what_is_in_the_batch) {
    add(p, command::acquire, of[1]);
    p.add_late(pending(command::release, of[0]));
    BOOST_TEST(content(send_written(p)) == "a1 r0 ");
}

BOOST_AUTO_TEST_CASE(a_waiting_command_is_written_as_the_server_understands_it_when_it_leaves) {
    p.add_late(pending(command::release, of[0]));
    auto whole = pending(command::release, of[1]);
    whole.words.whole_script = true;
    p.add(whole, {});
    p.add(pending(command::contend, of[2]), {.tracked = true});
    p.add(pending(command::contend, of[3]), {});
    BOOST_TEST(send_written(p, {.tracked = true}).bytes ==
               encoded(command::contend, of[2], {.tracked = true}) +
                   encoded(command::contend, of[3]) + encoded(command::release, of[0]) +
                   encoded(command::release, of[1], {.whole_script = true}));
    p.add_late(pending(command::release, of[0]));
    BOOST_TEST(send_written(p, {.dialect = dialect::delex}).bytes ==
               encoded(command::release, of[0], {.dialect = dialect::delex}));
}

//
// Answers that will not come
//

BOOST_AUTO_TEST_CASE(an_unsent_command_is_taken_out_wherever_it_is) {
    add(p, command::acquire, of[0]);
    send_written(p);
    add(p, command::acquire, of[1]);
    p.add({.type = command_type::ping}, "PING");
    p.add_late(pending(command::release, of[2]));
    of[2].too_long = true;
    BOOST_CHECK_THROW(p.send({}), std::length_error);
    of[2].too_long = false;
    p.add_late(pending(command::release, of[3]));
    std::string taken;
    p.take_unsent([&](pending_command c) {
        taken += c.owner ? std::string(c.owner->arguments(c.command).key) + ' ' : "- ";
        if (c.type == command_type::ping) add(p, command::acquire, of[7]); // this command stays
    });
    BOOST_TEST(taken == "1 - 2 3 ");
    auto const& next = send_written(p);
    BOOST_TEST(content(next) == "a7 ");
    BOOST_TEST(next.bytes == encoded(command::acquire, of[7]));
    BOOST_TEST(p.empty());
    BOOST_TEST(read(p, "+OK\r\n+OK\r\n") == "(1 0 OK)0 | (1 0 OK)7 | ");
}

BOOST_AUTO_TEST_CASE(a_sent_command_without_an_answer_is_taken_out) {
    for (std::size_t n = 0; n < 3; ++n) add(p, command::acquire, of[n]);
    send_written(p);
    add(p, command::contend, of[3]);
    send_written(p);
    add(p, command::acquire, of[4]);
    read(p, "+OK\r\n");
    std::string taken;
    p.take_sent([&](pending_command c) {
        taken += std::string(c.owner->arguments(c.command).key) + ' ';
        add(p, c.command, of[9]); // this command stays
    });
    BOOST_TEST(taken == "1 2 3 ");
    BOOST_TEST(p.idle());
    BOOST_TEST(p.has_room());
    BOOST_TEST(send_written(p).commands.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_sent_command_without_an_answer_is_visited_and_stays) {
    for (std::size_t n = 0; n < 2; ++n) add(p, command::acquire, of[n]);
    send_written(p);
    add(p, command::contend, of[2]);
    send_written(p);
    add(p, command::acquire, of[3]);
    read(p, "+OK\r\n");
    std::string visited;
    p.visit_sent([&](pending_command& c) {
        visited += std::string(c.owner->arguments(c.command).key) + ' ';
        c.owner.reset();
    });
    BOOST_TEST(visited == "1 2 ");
    BOOST_TEST(read(p, "+OK\r\n_\r\n:1\r\n") == "(1 0 OK)- | (2 0 )(1 0 1)- | ");
}

//
// WAIT
//

BOOST_AUTO_TEST_CASE(wait_ends_a_batch_with_grants_and_covers_what_leaves_the_lanes) {
    p.wait_for({.replicas = 2, .timeout = 125ms});
    auto const wait = std::string("*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$3\r\n125\r\n");
    for (std::size_t n = 0; n < wire::max_commands; ++n) add(p, command::release, of[n]);
    add(p, command::acquire, of[wire::max_commands]);
    add(p, command::release, of[wire::max_commands + 1]);
    auto& releases = send_written(p);
    BOOST_TEST(releases.commands.size() == wire::max_commands);
    BOOST_TEST(!releases.waits);
    auto& grant = send_written(p);
    BOOST_TEST(grant.waits);
    BOOST_TEST(grant.bytes == encoded(command::acquire, of[wire::max_commands]) +
                                  encoded(command::release, of[wire::max_commands + 1]) + wait);
    // A full batch has room for it.
    wire full;
    full.wait_for({.replicas = 2, .timeout = 125ms});
    for (std::size_t n = 0; n <= wire::max_commands; ++n) add(full, command::extend, of[n]);
    auto& b = send_written(full);
    BOOST_TEST(b.commands.size() == wire::max_commands + 1);
    BOOST_TEST((b.commands.back().type == command_type::wait));
    BOOST_TEST(b.commands.back().round == 2U);
    BOOST_TEST(b.bytes.ends_with(wait));
    full.wait_for({});
    BOOST_TEST(send_written(full).bytes == encoded(command::extend, of[wire::max_commands]));
}

namespace {

/// Holds the answer to each acquire.
struct holder : listener {
    wire& of;
    explicit holder(wire& p)
        : of(p) {}
    void on_reply(pending_command c) {
        if (c.type == command_type::wait) {
            of.take_held([&](held_answer h) {
                said += std::string(h.command.owner->arguments(h.command.command).key) + '=' +
                        std::to_string(h.granted.number) + ' ';
            });
        } else {
            of.hold(std::move(c), {.number = of.front().next});
        }
    }
};

} // namespace

BOOST_AUTO_TEST_CASE(answers_that_are_held_stay_with_their_batch) {
    p.wait_for({.replicas = 1, .timeout = 1ms});
    holder user(p);
    auto const hears = [&](std::string_view bytes) {
        user.said.clear();
        BOOST_TEST(p.read(bytes, user));
        return user.said;
    };
    for (std::size_t n = 0; n < 3; ++n) {
        add(p, command::acquire, of[0]);
        add(p, command::acquire, of[1]);
        send_written(p);
        BOOST_TEST(hears("+OK\r\n+OK\r\n") == "(1 0 OK)(1 0 OK)");
        BOOST_TEST(p.holds());
        add(p, command::acquire, of[2]);
        send_written(p);
        BOOST_TEST(hears(":1\r\n") == "(1 0 1)0=1 1=2 | ");
        BOOST_TEST(!p.holds());
        BOOST_TEST(hears("+OK\r\n:1\r\n") == "(1 0 OK)(1 0 1)2=1 | ");
    }
    // A batch that is used again has no WAIT of before.
    p.wait_for({});
    add(p, command::acquire, of[0]);
    BOOST_TEST(!send_written(p).waits);
    BOOST_TEST(read(p, "+OK\r\n") == "(1 0 OK)0 | ");
    p.wait_for({.replicas = 1, .timeout = 1ms});
    add(p, command::acquire, of[0]);
    add(p, command::acquire, of[1]);
    send_written(p);
    hears("+OK\r\n");
    auto const keys = [](auto take) {
        std::string all;
        take([&](auto const& c) {
            all += c.owner ? std::string(c.owner->arguments(c.command).key) : "WAIT";
            all += ' ';
        });
        return all;
    };
    BOOST_TEST(keys([&](auto f) { p.visit_sent(f); }) == "0 1 WAIT ");
    BOOST_TEST(keys([&](auto f) { p.take_sent(f); }) == "0 1 WAIT ");
    BOOST_TEST(p.idle());
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_pipeline_that_is_cleared) {
    add(p, command::acquire, of[0]);
    send_written(p);
    add(p, command::acquire, of[1]);
    p.add_late(pending(command::release, of[2]));
    of[2].too_long = true;
    BOOST_CHECK_THROW(p.send({}), std::length_error);
    of[2].too_long = false;
    p.add_late(pending(command::release, of[3]));
    p.clear();
    BOOST_TEST(p.empty());
    BOOST_TEST(p.idle());
    add(p, command::acquire, of[4]);
    BOOST_TEST(p.send({}).bytes == encoded(command::acquire, of[4]));
}

BOOST_AUTO_TEST_CASE(asking_goes_before_its_command_in_a_batch_and_from_a_lane) {
    constexpr auto asking = "*1\r\n$6\r\nASKING\r\n";
    auto c = pending(command::acquire, of[0]);
    c.asking = true;
    p.add(c, {});
    BOOST_TEST(p.send({}).bytes == asking + encoded(command::acquire, of[0]));
    auto late = pending(command::release, of[1]);
    late.asking = true;
    p.add_late(late);
    BOOST_TEST(p.send({}).bytes == asking + encoded(command::release, of[1]));
}

BOOST_AUTO_TEST_CASE(a_command_after_asking_has_a_reply_more_and_is_not_tracked) {
    auto c = pending(command::track, of[0]);
    c.asking = true;
    p.add(c, {.tracked = true});
    auto& b = send_written(p);
    BOOST_TEST(b.bytes == "*1\r\n$6\r\nASKING\r\n" + encoded(command::track, of[0]));
    BOOST_TEST(b.commands[0].replies == 2U);
    BOOST_TEST(read(p, "+OK\r\n:1\r\n") == "(2 0 OK)(1 0 1)0 | ");
}

BOOST_AUTO_TEST_CASE(only_the_reply_to_a_question_of_a_deployment_may_be_long) {
    std::string const bytes(reply_reader::max_reply + 1000, 'x');
    auto const reply = '$' + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
    for (auto const type : {command_type::ping, command_type::question}) {
        wire asked;
        asked.add({.type = type}, "PING");
        send_written(asked);
        auto const said = read(asked, reply);
        auto const is_long = said.size() > bytes.size();
        BOOST_TEST(is_long == (type == command_type::question), said.substr(0, 60));
    }
}

BOOST_AUTO_TEST_SUITE_END()
