// The questions to a sentinel, and the meaning of its replies.
#include "redis/sentinel/sentinel_replies.hpp"

#include "support/resp.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::errc;

namespace {

using holdfast::test::resp::bulk;

std::string const id = "5acd216f16947b0cbc2de26d39196f3f57aab56b";
std::string const peer_id = "66f7237218b2f078f082d1ad6a5691bddf56a774";

std::string fields(std::vector<std::pair<std::string, std::string>> const& all) {
    auto text = "%" + std::to_string(all.size()) + "\r\n";
    for (auto const& [name, value] : all) text += bulk(name) + bulk(value);
    return text;
}
std::string peer(std::string const& run_id, std::string const& port) {
    return fields({{"name", run_id},
                   {"ip", "127.0.0.1"},
                   {"port", port},
                   {"runid", run_id},
                   {"flags", "sentinel"},
                   {"voted-leader", "?"}});
}

/// Replies recorded from Redis 7.0 and Valkey 9.1, with fewer fields.
struct sentinel {
    std::string hello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
    std::string subscribe = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n+PONG\r\n";
    std::string my_id = bulk(id);
    std::string master = fields({{"name", "rooms"},
                                 {"ip", "127.0.0.1"},
                                 {"port", "26390"},
                                 {"flags", "master"},
                                 {"role-reported", "master"},
                                 {"role-reported-time", "8123"},
                                 {"config-epoch", "7"},
                                 {"quorum", "2"}});
    std::string address = "*2\r\n" + bulk("127.0.0.1") + bulk("26390");
    std::string peers = "*1\r\n" + peer(peer_id, "26392");

    std::string first() const { return hello + subscribe + round(); }
    std::string round() const { return my_id + master + address + peers; }
};

struct listener {
    sentinel_replies& to;
    int rounds = 0;
    std::vector<server_address> switches{};

    void on_part(pending_command& c, element const& e) { to.take_part(c, e); }
    void on_reply(pending_command c) { rounds += sentinel_replies::ends_round(c) ? 1 : 0; }
    void on_batch_answered() {}
    void on_push(element const& e) {
        if (auto const a = to.take_push(e)) switches.push_back(*a);
    }
    bool ends() const { return false; }
};

/// A connection to a sentinel that reads the replies byte by byte.
struct connection {
    void read(std::string const& bytes) {
        std::string come;
        for (char const c : bytes) {
            come += c;
            std::string_view view = come;
            BOOST_REQUIRE_MESSAGE(wire.read(view, user), wire.problem());
            come.erase(0, come.size() - view.size());
        }
        BOOST_TEST(come.empty());
    }
    void begin(std::string const& bytes) {
        auto& b = wire.send_first(replies.first_questions("", "", "me"));
        b.written = b.bytes.size();
        read(bytes);
        BOOST_TEST(wire.idle());
    }

    sentinel_replies replies{"rooms"};
    pipeline wire;
    listener user{.to = replies};
};

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_replies)

BOOST_AUTO_TEST_CASE(a_round_gives_the_id_the_primary_its_epoch_and_the_peers) {
    connection c;
    c.begin(sentinel().first());
    auto const& r = c.replies.report();
    BOOST_TEST(c.user.rounds == 1);
    BOOST_TEST(c.replies.subscribed());
    BOOST_TEST((r.id == 0x5acd216f16947b0cU));
    BOOST_TEST((r.primary == server_address{.host = "127.0.0.1", .port = 26390}));
    BOOST_TEST((r.epoch == 7U));
    BOOST_TEST((r.named_for == 8'123ms));
    BOOST_REQUIRE(r.peers.size() == 1U);
    BOOST_TEST((r.peers[0] == sentinel_peer{.id = 0x66f7237218b2f078U,
                                            .address = {.host = "127.0.0.1", .port = 26392}}));
    BOOST_TEST((r.refused == errc{}));
}

BOOST_AUTO_TEST_CASE(the_first_batch_authenticates_and_subscribes) {
    holdfast::redis::sentinel_replies replies("rooms");
    BOOST_TEST(replies.first_questions("", "", "me")->bytes.find("AUTH") == std::string::npos);
    auto const with_password = replies.first_questions("", "secret", "me")->bytes;
    BOOST_TEST(with_password.find("$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n") !=
               std::string::npos);
    auto const with_user = replies.first_questions("app", "secret", "me")->bytes;
    BOOST_TEST(with_user.find("$4\r\nAUTH\r\n$3\r\napp\r\n$6\r\nsecret\r\n") != std::string::npos);
    BOOST_TEST(with_user.find("$7\r\nSETNAME\r\n$2\r\nme\r\n") != std::string::npos);
    BOOST_TEST(with_user.find("$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_refused_subscription_shifts_no_reply) {
    for (std::string const text :
         {"-NOPERM this user has no permissions to run the 'subscribe' command\r\n+PONG\r\n",
          "-NOPERM No permissions to access a channel\r\n+PONG\r\n"}) {
        connection c;
        sentinel s;
        s.subscribe = text;
        c.begin(s.first());
        BOOST_TEST(!c.replies.subscribed());
        BOOST_TEST((c.replies.report().epoch == 7U));
        BOOST_TEST(c.user.rounds == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_password_refuses_all_and_shifts_no_reply) {
    connection c;
    std::string const no = "-NOAUTH Authentication required.\r\n";
    c.begin("-WRONGPASS invalid username-password pair\r\n" + no + no + no + no + no + no);
    BOOST_TEST((c.replies.report().refused == errc::access_denied));
    BOOST_TEST(c.replies.report().message.starts_with("WRONGPASS"));
    BOOST_TEST(c.user.rounds == 1);
}

BOOST_AUTO_TEST_CASE(a_refused_ping_shifts_no_reply) {
    connection c;
    sentinel s;
    s.subscribe = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
                  "-NOPERM this user has no permissions to run the 'ping' command\r\n";
    c.begin(s.first());
    BOOST_TEST(c.replies.subscribed());
    BOOST_TEST((c.replies.report().epoch == 7U));
}

BOOST_AUTO_TEST_CASE(an_unknown_name_has_no_primary_and_is_no_refusal) {
    connection c;
    sentinel s;
    s.master = s.peers = "-ERR No such master with that name\r\n";
    s.address = "_\r\n";
    c.begin(s.first());
    auto const& r = c.replies.report();
    BOOST_TEST(!r.primary);
    BOOST_TEST(!r.epoch);
    BOOST_TEST(r.peers.empty());
    BOOST_TEST((r.refused == errc{}));
    BOOST_TEST(c.user.rounds == 1);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_in_the_words_of_the_sentinel) {
    std::string const words = "NOPERM this user has no permissions to run the 'sentinel|master'"
                              " command";
    connection c;
    sentinel s;
    s.master = "-" + words + "\r\n";
    c.begin(s.first());
    BOOST_TEST((c.replies.report().refused == errc::access_denied));
    BOOST_TEST(c.replies.report().message == words);
    BOOST_TEST(!c.replies.report().epoch);
}

BOOST_AUTO_TEST_CASE(the_rights_to_ids_and_peers_are_needed) {
    // Without them a client would take fewer sentinels for all.
    for (auto const member : {&sentinel::my_id, &sentinel::peers}) {
        connection c;
        sentinel s;
        s.*member = "-NOPERM this user has no permissions to run the command\r\n";
        c.begin(s.first());
        BOOST_TEST((c.replies.report().refused == errc::access_denied));
        BOOST_TEST(c.user.rounds == 1);
    }
}

BOOST_AUTO_TEST_CASE(in_the_midst_of_a_failover_the_time_is_not_that_of_the_promoted_replica) {
    connection c;
    sentinel s;
    s.address = "*2\r\n" + bulk("127.0.0.1") + bulk("26391");
    c.begin(s.first());
    BOOST_TEST((c.replies.report().primary == server_address{.host = "127.0.0.1", .port = 26391}));
    BOOST_TEST(!c.replies.report().named_for);
}

BOOST_AUTO_TEST_CASE(a_server_that_says_it_is_a_replica_has_not_been_the_primary_for_long) {
    connection c;
    sentinel s;
    s.master = fields({{"ip", "127.0.0.1"},
                       {"port", "26390"},
                       {"role-reported", "slave"},
                       {"role-reported-time", "8123"},
                       {"config-epoch", "7"}});
    c.begin(s.first());
    BOOST_TEST((c.replies.report().epoch == 7U));
    BOOST_TEST(!c.replies.report().named_for);
}

BOOST_AUTO_TEST_CASE(a_sentinel_may_hide_its_id) {
    connection c;
    sentinel s;
    s.my_id = "-ERR Unknown sentinel subcommand 'myid'\r\n";
    c.begin(s.first());
    BOOST_TEST(!c.replies.report().id);
    BOOST_TEST((c.replies.report().refused == errc{}));
}

BOOST_AUTO_TEST_CASE(a_new_round_forgets_the_one_before) {
    connection c;
    c.begin(sentinel().first());
    c.replies.ask(c.wire);
    BOOST_TEST(!c.replies.report().primary);
    auto& b = c.wire.send({});
    b.written = b.bytes.size();
    sentinel s;
    s.address = "*2\r\n" + bulk("replica.example") + bulk("6380");
    c.read(s.round());
    BOOST_TEST(c.user.rounds == 2);
    BOOST_TEST(
        (c.replies.report().primary == server_address{.host = "replica.example", .port = 6380}));
}

BOOST_AUTO_TEST_CASE(invalid_addresses_are_no_answer) {
    for (auto const& [host, port] : {std::pair<std::string, std::string>{"", "1"},
                                     {"h", "0"},
                                     {"h", "65536"},
                                     {"h", "-1"},
                                     {"h", "1x"},
                                     {"h", ""},
                                     {"h\r\nx", "1"},
                                     {"h x", "1"},
                                     {"\x1b[31mh", "1"},
                                     {"u:hunter2@h", "1"},
                                     {std::string(256, 'h'), "1"}}) {
        connection c;
        sentinel s;
        s.address = "*2\r\n" + bulk(host) + bulk(port);
        c.begin(s.first());
        BOOST_TEST(!c.replies.report().primary);
    }
}

BOOST_AUTO_TEST_CASE(peers_are_bounded_and_those_without_an_id_or_a_port_left_out) {
    connection c;
    sentinel s;
    s.peers = "*1000\r\n";
    for (int i = 0; i < 1'000; ++i) s.peers += peer(peer_id, "26392");
    c.begin(s.first());
    BOOST_TEST(c.replies.report().peers.size() == holdfast::redis::sentinel_replies::max_peers);

    connection d;
    s.peers = "*3\r\n" + peer("", "26392") + peer(peer_id, "0") + peer(id, "26391");
    d.begin(s.first());
    BOOST_REQUIRE(d.replies.report().peers.size() == 1U);
    BOOST_TEST(d.replies.report().peers[0].address.port == 26391U);

    connection f;
    s.peers = "*1\r\n" + fields({{"ip", "\x1b[31mh"}, {"port", "26391"}, {"runid", peer_id}});
    f.begin(s.first());
    BOOST_TEST(f.replies.report().peers.empty());
}

BOOST_AUTO_TEST_CASE(announcements_of_this_primary_are_heard_amid_replies) {
    auto const push = [](std::string const& channel, std::string const& text) {
        return ">3\r\n" + bulk("message") + bulk(channel) + bulk(text);
    };
    connection c;
    sentinel s;
    c.begin(s.hello + s.subscribe + s.my_id + s.master +
            push("+switch-master", "rooms 127.0.0.1 26390 10.0.0.2 6380") + s.address + s.peers);
    c.read(push("+switch-master", "other 127.0.0.1 1 10.0.0.3 6380"));
    c.read(push("+sdown", "rooms 127.0.0.1 1 10.0.0.3 6380"));
    c.read(push("+switch-master", "rooms 127.0.0.1 1 10.0.0.3 0"));
    BOOST_REQUIRE(c.user.switches.size() == 1U);
    BOOST_TEST((c.user.switches[0] == server_address{.host = "10.0.0.2", .port = 6380}));
    BOOST_TEST((c.replies.report().epoch == 7U));
}

BOOST_AUTO_TEST_CASE(an_announcement_has_five_words) {
    BOOST_TEST((parse_switch("rooms a 1 b 2", "rooms") == server_address{.host = "b", .port = 2}));
    for (auto const* const text : {"", "rooms", "rooms a 1 b", "rooms a 1 b 2 ", "rooms a 1 b 2 3",
                                   "rooms  a 1 b 2", "room a 1 b 2", "rooms a 1  2"}) {
        BOOST_TEST(!parse_switch(text, "rooms").has_value(), text);
    }
}

BOOST_AUTO_TEST_CASE(an_id_has_forty_digits) {
    BOOST_TEST(parse_run_id(id).has_value());
    BOOST_TEST(!parse_run_id("").has_value());
    BOOST_TEST(!parse_run_id(id.substr(1)).has_value());
    BOOST_TEST(!parse_run_id(id + "0").has_value());
    BOOST_TEST(!parse_run_id("g" + id.substr(1)).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
