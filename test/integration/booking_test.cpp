// The example booking sells seats by HTTP: its answers, and its end.
#include "integration/booking_process.hpp"
#include "integration/nothing_left.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace holdfast::test;

namespace {

struct stage {
    fleet instances{3};
    swept_folder folder;
    std::string database = "sqlite:" + folder.path("booking.db");
};

std::size_t count(std::vector<http_reply> const& replies, unsigned status) {
    return static_cast<std::size_t>(std::count_if(
        replies.begin(), replies.end(), [&](auto const& each) { return each.status == status; }));
}

} // namespace

BOOST_AUTO_TEST_SUITE(booking)

BOOST_AUTO_TEST_CASE(one_of_many_buyers_of_a_seat_has_it) {
    stage s;
    booking_process const a(s.instances, s.database), b(s.instances, s.database);
    std::vector<std::future<http_reply>> buyers;
    for (int i = 0; i < 8; ++i) {
        buyers.push_back(a.posting("/seats/7/buy", "a" + std::to_string(i)));
        buyers.push_back(b.posting("/seats/7/buy", "b" + std::to_string(i)));
    }
    std::vector<http_reply> replies;
    for (auto& each : buyers) replies.push_back(each.get());
    BOOST_TEST(count(replies, 200) == 1U);
    BOOST_TEST(count(replies, 409) == 15U);
    for (auto const& each : replies) {
        if (each.status == 409) {
            BOOST_TEST(each.body == "{\"error\":\"seat 7 is sold\"}");
            continue;
        }
        auto const owner = each.body.substr(each.body.find("\"owner\""), 12);
        BOOST_TEST(contains(each.body, "{\"seat\":7,\"owner\":\""), each.body);
        BOOST_TEST(contains(each.body, "\"state\":\"sold\",\"fence\":"), each.body);
        BOOST_TEST(b.shows("{\"seat\":7,\"state\":\"sold\"," + owner), owner);
    }
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(a_seat_is_held_for_its_buyer_alone) {
    stage s;
    booking_process const server(s.instances, s.database);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"free\"}"));
    BOOST_TEST(server.post("/seats/3/hold", "alice").status == 200U);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"held\",\"owner\":\"alice\"}"));
    auto const refused = server.post("/seats/3/buy", "bob");
    BOOST_TEST(refused.status == 409U);
    BOOST_TEST(refused.body == "{\"error\":\"seat 3 is held by another buyer\"}");
    BOOST_TEST(server.post("/seats/3/hold", "bob").status == 409U);
    BOOST_TEST(server.post("/seats/3/hold", "alice").status == 200U);
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U); // the answer was lost, say
    BOOST_TEST(server.post("/seats/3/hold", "alice").status == 409U);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"sold\",\"owner\":\"alice\"}"));
    check_nothing_left(s.instances);
}

// Who looks at the seat waits for the payment, on any server. The list does not.
BOOST_AUTO_TEST_CASE(a_look_at_a_seat_waits_for_a_purchase_under_way) {
    stage s;
    booking_process const a(s.instances, s.database, {"--payment", "500"});
    booking_process const b(s.instances, s.database);
    BOOST_TEST(b.get("/seats/7").body == "{\"seat\":7,\"state\":\"free\"}");
    auto bought = a.posting("/seats/7/buy", "alice");
    BOOST_TEST(a.metric_becomes("holdfast_leases_held", 1.));
    BOOST_TEST(b.shows("{\"seat\":7,\"state\":\"free\"}"));
    auto const looking = [](booking_process const& at) {
        return std::async(std::launch::async, [&at] { return at.get("/seats/7"); });
    };
    std::vector<std::future<http_reply>> looks;
    for (auto const* const at : {&a, &b, &a, &b}) looks.push_back(looking(*at));
    for (auto& each : looks) {
        auto const seen = each.get();
        BOOST_TEST(seen.status == 200U, seen.body);
        BOOST_TEST(seen.body == "{\"seat\":7,\"state\":\"sold\",\"owner\":\"alice\"}");
    }
    BOOST_TEST(bought.get().status == 200U);
    check_nothing_left(s.instances, std::chrono::seconds(5)); // the readers had a turn
}

BOOST_AUTO_TEST_CASE(a_seat_that_was_held_for_too_long_is_free_again) {
    stage s;
    booking_process const server(s.instances, s.database, {"--hold", "300"});
    BOOST_TEST(server.post("/seats/3/hold", "alice").status == 200U);
    BOOST_TEST(wait_until([&] { return server.post("/seats/3/buy", "bob").status == 200U; }));
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(seats_outlive_the_server) {
    stage s;
    {
        booking_process const server(s.instances, s.database);
        BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    }
    booking_process const server(s.instances, s.database);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"sold\",\"owner\":\"alice\"}"));
}

BOOST_AUTO_TEST_CASE(requests_share_a_connection) {
    stage s;
    booking_process const server(s.instances, s.database);
    auto const owner = std::string("{\"owner\":\"alice\"}");
    auto const buy =
        "POST /seats/4/buy HTTP/1.1\r\nContent-Length: " + std::to_string(owner.size()) +
        "\r\n\r\n" + owner;
    auto const said =
        send_raw(server.port(), buy + "GET /none HTTP/1.1\r\n\r\n"
                                      "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
    auto const sold = said.find("HTTP/1.1 200 OK"), none = said.find("HTTP/1.1 404 Not Found"),
               health = said.find("\"quorum\":2}");
    BOOST_TEST(sold == 0U, said);
    BOOST_TEST((none != said.npos && none > sold), said);
    BOOST_TEST((health != said.npos && health > none), said);
    BOOST_TEST(contains(said, "Connection: close\r\n"), said);
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(wrong_requests_are_refused_with_a_reason) {
    stage s;
    booking_process const server(s.instances, s.database, {"--seats", "12"});
    auto const owner = std::string("{\"owner\":\"alice\"}");
    struct wrong {
        http_question question;
        unsigned status;
        std::string reason;
    };
    std::vector<wrong> const all{
        {{"POST", "/seats/0/buy", owner}, 400, "\\\"0\\\" is not the number of a seat"},
        {{"POST", "/seats/x/buy", owner}, 400, "\\\"x\\\" is not the number of a seat"},
        {{"POST", "/seats/-1/buy", owner}, 400, "\\\"-1\\\" is not the number of a seat"},
        {{"POST", "/seats/1x/hold", owner}, 400, "\\\"1x\\\" is not the number of a seat"},
        {{"POST", "/seats//hold", owner}, 400, "is not the number of a seat"},
        {{"POST", "/seats/99999999999/buy", owner}, 400, "99999999999"},
        {{"POST", "/seats/" + std::string(7'000, '1') + "/buy", owner},
         400,
         "the number of a seat"},
        {{"POST", "/seats/1/2/buy", owner}, 404, "no such path"},
        {{"POST", "/seats/13/buy", owner}, 404, "there is no seat 13"},
        {{"POST", "/seats/12/buy", ""}, 400, "the body is not {\\\"owner\\\":\\\"NAME\\\"}"},
        {{"POST", "/seats/12/buy", "{\"owner\":"}, 400, "incomplete JSON"},
        {{"POST", "/seats/12/buy", "{\"owner\":12}"}, 400, "the body is not"},
        {{"POST", "/seats/12/buy", "[\"owner\"]"}, 400, "the body is not"},
        {{"POST", "/seats/12/buy", "{\"owner\":\"\"}"}, 400, "the owner is not 1 to 64 bytes"},
        {{"POST", "/seats/12/buy", "{\"owner\":\"a\\u0000b\"}"}, 400, "control characters"},
        {{"POST", "/seats/12/buy", "{\"owner\":\"" + std::string(65, 'a') + "\"}"}, 400, "64"},
        {{"POST", "/seats/12/buy", std::string(5'000, ' ')}, 413, "the body is too long"},
        {{"POST", "/seats/12/buy", owner, {{"X-Request-Timeout-Ms", "soon"}}}, 400, "soon"},
        {{"POST", "/seats/12/buy", owner, {{"X-Request-Timeout-Ms", "0"}}}, 400, "positive"},
        {{"GET", "/seats/x"}, 400, "\\\"x\\\" is not the number of a seat"},
        {{"GET", "/seats/"}, 400, "is not the number of a seat"},
        {{"GET", "/seats/13"}, 404, "there is no seat 13"},
        {{"GET", "/seats/12", {}, {{"X-Request-Timeout-Ms", "soon"}}}, 400, "soon"},
        {{"POST", "/seats/12", owner}, 405, "POST is not for /seats/12"},
        {{"GET", "/seats/12/buy"}, 405, "GET is not for /seats/12/buy"},
        {{"POST", "/seats"}, 405, "POST is not for /seats"},
        {{"DELETE", "/metrics"}, 405, "DELETE is not for /metrics"},
        {{"GET", "/"}, 404, "no such path: /"},
        {{"POST", "/seats/12/sell", owner}, 404, "no such path: /seats/12/sell"},
    };
    for (auto const& each : all) {
        auto const reply = ask_http(server.port(), each.question);
        auto const asked = each.question.method + ' ' + each.question.target + ' ';
        BOOST_TEST(reply.status == each.status, asked << reply.status << ' ' << reply.body);
        BOOST_TEST(contains(reply.body, "{\"error\":"), asked << reply.body);
        BOOST_TEST(contains(reply.body, each.reason), asked << reply.body);
    }
    BOOST_TEST(ask_http(server.port(), {"POST", "/seats"}).headers["Allow"] == "GET");
    BOOST_TEST(contains(send_raw(server.port(), "sell me a seat\r\n\r\n"), "HTTP/1.1 400 "));
    BOOST_TEST(contains(
        send_raw(server.port(), "GET / HTTP/1.1\r\nx: " + std::string(9'000, 'x') + "\r\n\r\n"),
        "HTTP/1.1 431 "));
    BOOST_TEST(server.shows("{\"seat\":12,\"state\":\"free\"}"));
}

BOOST_AUTO_TEST_CASE(a_wrong_command_line_is_named) {
    struct wrong {
        std::string arguments, reason;
    };
    std::string const instance = "--instances 127.0.0.1:1 ";
    std::vector<wrong> const all{
        {"", "--instances ADDRESS,.. is missing"},
        {"--seats", "--seats needs a value"},
        {"--colour red", "unknown option --colour"},
        {"--instances 127.0.0.1:x", "the port is not a number"},
        {instance + "--seats 0", "--seats: \"0\" is not a number from 1 to 1000000"},
        {instance + "--threads 2x", "--threads: \"2x\" is not a number"},
        {instance + "--listen 8080", "--listen: \"8080\" is not HOST:PORT"},
        {instance + "--listen 127.0.0.1:99999", "\"99999\" is not a number from 0 to 65535"},
        {instance + "--database sqlite:", "\"sqlite:\" names no file"},
        {instance + "--database sqlite:/nowhere/b.db", "/nowhere/b.db: unable to open"},
        {instance + "--database mysql://me:s3cret@db/seats", "\"mysql\" is neither sqlite:FILE"},
    };
    for (auto const& each : all) {
        auto const o = run_program(program("HOLDFAST_BOOKING") + ' ' + each.arguments);
        BOOST_TEST(o.status > 0, each.arguments << o.status);
        BOOST_TEST(contains(o.said, each.reason), each.arguments << '\n' << o.said);
        BOOST_TEST(!contains(o.said, "s3cret"), o.said);
    }
}

// The lines of each figure stand together, under its help and its type.
BOOST_AUTO_TEST_CASE(metrics_have_the_format_of_prometheus) {
    stage s;
    booking_process const server(s.instances, s.database);
    BOOST_TEST(server.post("/seats/3/buy", "alice").status == 200U);
    BOOST_TEST(server.post("/seats/3/buy", "bob").status == 409U);
    BOOST_TEST(server.metric("booking_requests_total{route=\"/seats/{n}/buy\",status=\"200\"}") ==
               1.);
    BOOST_TEST(server.metric("booking_requests_total{route=\"/seats/{n}/buy\",status=\"409\"}") ==
               1.);
    BOOST_TEST(server.metric("booking_request_duration_seconds_bucket{route=\"/seats/{n}/buy\","
                             "le=\"+Inf\"}") == 2.);
    BOOST_TEST(server.metric("holdfast_leases_acquired_total") == 2.);
    BOOST_TEST(server.metric("holdfast_leases_held") == 0.);
    for (std::size_t i = 0; i < s.instances.size(); ++i)
        BOOST_TEST(server.metric_becomes("holdfast_instance_state{address=\"" +
                                             s.instances[i].shown() + "\",state=\"up\"}",
                                         1.));

    auto const reply = server.get("/metrics");
    BOOST_TEST(reply.status == 200U);
    BOOST_TEST(reply.headers.at("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
    std::regex const help("# HELP ([a-z_]+) .*"),
        type("# TYPE ([a-z_]+) (counter|gauge|histogram)"),
        sample("([a-z_]+)(\\{[a-z]+=\"[^\"]*\"(,[a-z]+=\"[^\"]*\")*\\})? [-+.e0-9]+");
    std::set<std::string> seen;
    std::string name;
    std::istringstream lines(reply.body);
    std::smatch part;
    for (std::string line; std::getline(lines, line);) {
        if (std::regex_match(line, part, help)) {
            name = part[1];
            BOOST_TEST(seen.insert(name).second, name << " stands twice");
        } else if (std::regex_match(line, part, type)) {
            BOOST_TEST(part[1] == name);
        } else {
            BOOST_TEST(std::regex_match(line, part, sample), line);
            BOOST_TEST(line.starts_with(name), line);
        }
    }
    BOOST_TEST(seen.size() > 8U);
}

BOOST_AUTO_TEST_CASE(a_request_that_waits_ends_at_its_deadline) {
    stage s;
    booking_process const server(s.instances, s.database,
                                 {"--payment", "1500", "--deadline", "20000"});
    auto buying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(server.metric_becomes("holdfast_leases_held", 1.));
    auto const late = server.post("/seats/3/buy", "bob", {{"X-Request-Timeout-Ms", "100"}});
    BOOST_TEST(late.status == 504U);
    BOOST_TEST(contains(late.body, "seat 3 is busy"), late.body);
    BOOST_TEST(server.metric("holdfast_leases_held") == 1.);
    BOOST_TEST(buying.get().status == 200U);
    check_nothing_left(s.instances);
}

// The deadline also ends a payment, and the seat stays free.
BOOST_AUTO_TEST_CASE(a_request_that_pays_ends_at_its_deadline) {
    stage s;
    booking_process const server(s.instances, s.database,
                                 {"--payment", "60000", "--deadline", "300"});
    auto const late = server.post("/seats/3/buy", "alice");
    BOOST_TEST(late.status == 504U);
    BOOST_TEST(server.shows("{\"seat\":3,\"state\":\"free\"}"));
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_CASE(sigterm_lets_holders_finish_and_refuses_the_rest) {
    stage s;
    booking_process server(s.instances, s.database, {"--payment", "3000", "--deadline", "20000"});
    auto paying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(server.metric_becomes("holdfast_leases_held", 1.));
    auto waiting = server.posting("/seats/3/buy", "bob");
    BOOST_REQUIRE(server.metric_becomes("holdfast_acquires_waiting", 1.));
    // This connection stays open without a request.
    auto idle = std::async(std::launch::async, [&] {
        return send_raw(server.port(), "GET /healthz HTTP/1.1\r\n\r\n");
    });
    BOOST_REQUIRE(
        server.metric_becomes("booking_requests_total{route=\"/healthz\",status=\"200\"}", 1.));

    server.process.send_signal(SIGTERM);
    auto const refused = waiting.get();
    BOOST_TEST(refused.status == 503U);
    BOOST_TEST(refused.body == "{\"error\":\"this server is ending\"}");
    BOOST_TEST(refused.headers.at("Retry-After") == "1");
    BOOST_TEST(server.get("/healthz").status == 0U); // no new connections
    BOOST_TEST(paying.get().status == 200U);
    BOOST_TEST(server.process.status() == 0);
    BOOST_TEST(contains(idle.get(), "HTTP/1.1 200 OK"));
    check_nothing_left(s.instances);

    booking_process const next(s.instances, s.database);
    BOOST_TEST(next.shows("{\"seat\":3,\"state\":\"sold\",\"owner\":\"alice\"}"));
}

BOOST_AUTO_TEST_CASE(a_drain_has_a_limit_and_its_exit_status_tells) {
    stage s;
    booking_process server(s.instances, s.database,
                           {"--payment", "60000", "--deadline", "60000", "--drain", "200"});
    auto paying = server.posting("/seats/3/buy", "alice");
    BOOST_REQUIRE(server.metric_becomes("holdfast_leases_held", 1.));
    server.process.send_signal(SIGTERM);
    auto const ended = paying.get();
    BOOST_TEST(ended.status == 503U);
    BOOST_TEST(contains(ended.body, "the lock of seat 3 was lost"), ended.body);
    BOOST_TEST(server.process.status() == 1);
    check_nothing_left(s.instances);
}

BOOST_AUTO_TEST_SUITE_END()
