// The failures of TLS with real servers: each in plain words, once, and retried with long pauses.
#include "integration/tls_fleet.hpp"
#include "support/documents.hpp"
#include "support/fake_server.hpp"
#include "support/text.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace ssl = boost::asio::ssl;
using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::size_t count(std::string_view text, std::string_view part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
}

/// The failure of the only instance: once in instances(), once in the report, and never up.
void check_fails(address const& a, std::string_view text,
                 client_options const& options = patient()) {
    test_client p({a}, options);
    BOOST_TEST(p.goes_down(0, errc::unreachable));
    auto const s = p.status(0);
    BOOST_TEST(count(s.message, text) == 1U, s.message);
    BOOST_TEST(count(s.message, "TLS: ") <= 1U, s.message);
    BOOST_TEST(s.address == a.to_string());
    BOOST_TEST(s.connections == 0U);
    BOOST_TEST(s.tls == "");
    auto const [e, l] = p.acquire("k");
    BOOST_TEST((e == errc::unreachable), e.what());
    BOOST_TEST(count(e.what(), text) == 1U, e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->instances.at(0).message == s.message);
    BOOST_TEST(p.status(0).connections == 0U);
}

void check_fails(tls_fleet const& f, std::string_view text) {
    check_fails(f.addresses().at(0), text);
}

/// One that succeeds with the same client options.
void check_connects(tls_fleet const& f, std::string_view protection = "TLS 1.3") {
    test_client p(f.addresses());
    BOOST_TEST(p.all_up(), p.status(0).message);
    BOOST_TEST(p.status(0).tls == protection);
    BOOST_TEST(p.status(0).tls_problem == "");
    auto l = p.hold("k");
    BOOST_TEST(p.releases(l));
    check_nothing_left(p, *f.servers);
}

std::vector<std::string> only(char const* version) {
    // Debian's security level allows no TLS 1.1.
    return {"--tls-protocols", version, "--tls-ciphers", "DEFAULT:@SECLEVEL=0"};
}

/// Passes on the first record of the server's answer to the handshake, and no more.
class stalling_relay {
public:
    using tcp = asio::ip::tcp;

    explicit stalling_relay(std::uint16_t server)
        : server_(asio::ip::address_v4::loopback(), server)
        , thread_([this] { serve(); }) {}
    ~stalling_relay() {
        ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
        thread_.join();
    }
    stalling_relay(stalling_relay const&) = delete;
    stalling_relay& operator=(stalling_relay const&) = delete;

    std::uint16_t port() const { return port_; }

private:
    void serve() {
        for (;;) {
            boost::system::error_code ec;
            auto& client = sockets_.emplace_back(context_);
            auto& server = sockets_.emplace_back(context_);
            acceptor_.accept(client, ec);
            if (ec) return;
            std::array<char, 4096> bytes{};
            server.connect(server_, ec);
            // A client that ends as it connects says nothing, and the server would wait for it.
            auto const hello = client.read_some(asio::buffer(bytes), ec);
            if (ec) continue;
            asio::write(server, asio::buffer(bytes.data(), hello), ec);
            // The header of a record ends with the length of the rest.
            asio::read(server, asio::buffer(bytes.data(), 5), ec);
            if (ec) continue;
            auto const length =
                static_cast<unsigned char>(bytes[3]) * 256U + static_cast<unsigned char>(bytes[4]);
            asio::read(server, asio::buffer(bytes.data() + 5, length), ec);
            asio::write(client, asio::buffer(bytes.data(), 5 + length), ec);
        }
    }

    tcp::endpoint const server_;
    asio::io_context context_{1};
    tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
    std::uint16_t const port_ = acceptor_.local_endpoint().port();
    std::deque<tcp::socket> sockets_; // stay open
    std::thread thread_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(tls_errors)

BOOST_AUTO_TEST_CASE(a_server_that_is_trusted_has_an_instance) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(3, kind);
        check_connects(f);
        // As a URL.
        test_client p({"rediss://127.0.0.1:" + std::to_string(f.port(0)) + "?ca=" + f.own.ca_file});
        BOOST_TEST(p.all_up(), p.status(0).message);
        BOOST_TEST(p.status(0).address == "rediss://127.0.0.1:" + std::to_string(f.port(0)));
    });
}

BOOST_AUTO_TEST_CASE(a_context_of_the_program_has_an_instance) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind, {.wants_certificate = true});
        auto const own = f.root.issue({});
        auto const context = std::make_shared<ssl::context>(ssl::context::tls_client);
        context->set_verify_mode(ssl::verify_peer);
        context->use_certificate(asio::buffer(own.certificate), ssl::context::pem);
        context->use_private_key(asio::buffer(own.key), ssl::context::pem);
        f.own = {.context = context};
        check_fails(f, "TLS: issuer \"CN=" + f.root.name() +
                           "\" is not trusted (set ca; does the server send its chain?)");
        context->add_certificate_authority(asio::buffer(f.root.certificate()));
        check_connects(f);
    });
}

BOOST_AUTO_TEST_CASE(a_server_of_an_unknown_authority) {
    on_oldest_and_newest([](server_kind const& kind) {
        authority const other;
        tls_fleet f(1, kind, {.certificate = other.issue(usual_names)});
        check_fails(f, "TLS: issuer \"CN=" + other.name() +
                           "\" is not trusted (set ca; does the server send its chain?)");
        f.own.ca_file = f.at.write("other", other.certificate());
        check_connects(f);
    });
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_send_its_chain) {
    on_oldest_and_newest([](server_kind const& kind) {
        authority const root;
        authority const between(root);
        auto c = between.issue(usual_names);
        auto const whole = c;
        auto const end = std::string_view("-----END CERTIFICATE-----\n");
        c.certificate.resize(c.certificate.find(end) + end.size());
        tls_fleet f(1, kind, {.certificate = c});
        f.own.ca_file = f.at.write("root", root.certificate());
        check_fails(f, "TLS: issuer \"CN=" + between.name() +
                           "\" is not trusted (set ca; does the server send its chain?)");
        f.rotate(whole);
        check_connects(f);
    });
}

BOOST_AUTO_TEST_CASE(a_self_signed_server) {
    on_oldest_and_newest([](server_kind const& kind) {
        auto const c = authority::self_signed(usual_names);
        tls_fleet f(1, kind, {.certificate = c});
        check_fails(f, "TLS: the certificate is self-signed (give it as ca)");
        f.own.ca_file = f.at.write("own", c.certificate);
        check_connects(f);
    });
}

BOOST_AUTO_TEST_CASE(a_server_whose_certificate_is_out_of_time) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        auto c = usual_names;
        c.from = -48h;
        c.until = -1h;
        f.rotate(f.root.issue(c));
        check_fails(f, "TLS: the certificate expired on 20");
        c.from = 24h;
        c.until = 48h;
        f.rotate(f.root.issue(c));
        check_fails(f, "TLS: the certificate is valid from 20");
    });
}

BOOST_AUTO_TEST_CASE(a_server_of_another_name_or_address) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        f.own.verify_name = "other.test";
        check_fails(f, "TLS: the certificate is for server.test, 127.0.0.1 and not for other.test "
                       "(set verify_name)");
        f.own.verify_name = "127.0.0.2";
        check_fails(f, "TLS: the certificate is for server.test, 127.0.0.1 and not for 127.0.0.2 "
                       "(set verify_name)");
        f.own.verify_name = "server.test.";
        check_connects(f);
        f.own.verify_name = "";
        check_fails(f.at_port(f.port(0), "localhost"),
                    "TLS: the certificate is for server.test, 127.0.0.1 and not for localhost "
                    "(set verify_name)");
        f.rotate(f.root.issue({.names = "DNS:server.test"}));
        check_fails(f,
                    "TLS: the certificate is for server.test and not for 127.0.0.1 (set verify_");
    });
}

BOOST_AUTO_TEST_CASE(no_password_goes_to_a_server_that_is_not_verified) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        redis_cli cli((*f.servers)[0]);
        auto const greetings = [&] {
            auto const told = cli.command({"INFO", "commandstats"}).string();
            return contains(told, "cmdstat_hello") || contains(told, "cmdstat_auth");
        };
        auto const connect = [&] {
            auto parts = f.addresses().at(0).parts();
            parts.credentials = {.user = "default", .password = "s3cr3t-XYZZY"};
            test_client p({parts});
            BOOST_TEST(p.goes_down(0, f.own.verify_name.empty() ? errc::access_denied
                                                                : errc::unreachable));
            BOOST_TEST(!contains(p.status(0).message, "XYZZY"));
        };
        f.own.verify_name = "other.test";
        connect();
        BOOST_TEST(!greetings());
        f.own.verify_name = "";
        BOOST_REQUIRE(cli.command({"ACL", "SETUSER", "default", "resetpass", ">other"}).is_ok());
        connect();
        BOOST_TEST(greetings());
    });
}

BOOST_AUTO_TEST_CASE(a_check_that_is_off_is_shown) {
    tls_fleet f(1, default_server(), {.certificate = authority::self_signed({})});
    f.own.verify = false;
    check_connects(f, "TLS 1.3, certificate not verified");
}

// In TLS 1.3 the handshake succeeds.
BOOST_AUTO_TEST_CASE(a_server_that_wants_a_certificate) {
    on_oldest_and_newest([](server_kind const& kind) {
        {
            tls_fleet f(1, kind, {.wants_certificate = true});
            check_fails(f, "TLS: the server requires a client certificate (set cert, key)");
            f.use(f.root.issue({}));
            check_connects(f);
        }
        tls_fleet f(1, kind, {.wants_certificate = true, .arguments = only("TLSv1.2")});
        check_fails(f,
                    "TLS: the server refused the handshake (does it want a client certificate?)");
        f.use(f.root.issue({}));
        check_connects(f, "TLS 1.2");
    });
}

BOOST_AUTO_TEST_CASE(a_server_that_rejects_our_certificate) {
    on_oldest_and_newest([](server_kind const& kind) {
        for (auto const* const version : {"TLSv1.2", "TLSv1.3"}) {
            tls_fleet f(1, kind, {.wants_certificate = true, .arguments = only(version)});
            f.use(authority().issue({}));
            check_fails(f, "TLS: the server rejects our certificate: unknown CA");
            f.use(f.root.issue({.from = -48h, .until = -1h}));
            check_fails(f, "TLS: the server rejects our certificate: expired");
        }
    });
}

BOOST_AUTO_TEST_CASE(a_server_without_a_common_version) {
    on_oldest_and_newest([](server_kind const& kind) {
        {
            tls_fleet f(1, kind, {.arguments = only("TLSv1.1")});
            check_fails(f, "TLS: the server accepts neither TLS 1.2 nor 1.3");
        }
        tls_fleet f(1, kind, {.arguments = only("TLSv1.2")});
        check_connects(f, "TLS 1.2");
        f.own.min_version = tls_version::v1_3;
        check_fails(f, "TLS: the server does not accept TLS 1.3");
    });
}

BOOST_AUTO_TEST_CASE(a_port_without_tls) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        auto options = patient();
        options.connect_timeout = 2s;
        auto const plain = f.at_port((*f.servers)[0].port());
        check_fails(plain, "TLS: no answer to the handshake for ", options);
        check_fails(plain, " ms: a port without TLS?", options);
    });
}

BOOST_AUTO_TEST_CASE(a_tls_port_without_tls) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        check_fails("127.0.0.1:" + std::to_string(f.port(0)),
                    "the instance closed the connection at once: does this port require TLS "
                    "(rediss)?");
    });
}

BOOST_AUTO_TEST_CASE(a_port_of_another_service) {
    tls_fleet const f(1);
    fake_server const http(behaviour::http);
    check_fails(f.at_port(http.port()), "TLS: the peer does not speak TLS");
    fake_server const closes(behaviour::closes);
    check_fails(f.at_port(closes.port()), "TLS: the peer closed during the handshake");
}

BOOST_AUTO_TEST_CASE(a_silent_port_delays_no_other_instance) {
    tls_fleet f(2);
    fake_server const silent(behaviour::silent);
    auto all = f.addresses();
    all.push_back(f.at_port(silent.port()));
    test_client p(all); // with timeouts longer than the test
    auto l = p.hold("k");
    BOOST_TEST(p.status(2).connections == 0U);
    BOOST_TEST((p.status(2).state == instance_state::connecting));
    BOOST_TEST(p.releases(l));
    check_nothing_left(*f.servers, 5s);
}

// The other instances are no less quick to answer: their timeout is the usual one.
BOOST_AUTO_TEST_CASE(a_slow_handshake_ends_at_its_limit_and_delays_no_other_instance) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(3, kind);
        auto all = f.addresses();
        stalling_relay const relay(f.port(2));
        all[2] = f.at_port(relay.port());
        test_client p(all, {.connect_timeout = 400ms});
        BOOST_TEST(p.until([&] { return p.status(0).connections + p.status(1).connections == 2; }));
        BOOST_TEST(p.until([&] {
            auto l = p.hold("k");
            BOOST_TEST(p.releases(l));
            return p.status(2).state == instance_state::down;
        }));
        BOOST_TEST(p.status(2).message.starts_with("TLS: the handshake took more than "),
                   p.status(2).message);
        BOOST_TEST(p.status(2).connections == 0U);
        BOOST_TEST(p.locks.stats().acquire_failed == 0U);
        for (std::size_t i = 0; i < 2; ++i) {
            BOOST_TEST((p.status(i).state == instance_state::up));
            BOOST_TEST(p.status(i).connections == 1U);
        }
    });
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_lost_is_no_matter_of_tls) {
    on_oldest_and_newest([](server_kind const& kind) {
        tls_fleet f(1, kind);
        test_client p(f.addresses(), trusting(patient()));
        BOOST_REQUIRE(p.all_up());
        (*f.servers)[0].kill();
        BOOST_TEST(p.until([&] { return p.status(0).message == "Connection refused"; }),
                   p.status(0).message);
        (*f.servers)[0].restart();
        BOOST_TEST(p.all_up());
    });
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_used_are_refused_at_once) {
    tls_fleet f(1);
    auto const refusal = [&] {
        asio::io_context context;
        try {
            client const c(context.get_executor(), f.addresses());
        } catch (system_error const& e) {
            BOOST_TEST((e.code() == errc::invalid_options));
            return std::string(e.what());
        }
        return std::string();
    };
    BOOST_TEST(refusal() == "");
    auto const mine = f.root.issue({.key_password = "s3cr3t-XYZZY"});
    f.use(mine);
    BOOST_TEST(refusal().starts_with("TLS: cannot read key " + f.own.key_file +
                                     ": it is encrypted, and no key_password is given"),
               refusal());
    f.own.key_password = "wr0ng-XYZZY";
    BOOST_TEST(refusal().starts_with("TLS: cannot read key " + f.own.key_file +
                                     ": the key_password does not decrypt it"),
               refusal());
    BOOST_TEST(!contains(refusal(), "XYZZY"));
    f.own.key_password = "s3cr3t-XYZZY";
    BOOST_TEST(refusal() == "");
    check_connects(f);
}

// Pauses of 1, 2, 4 and 8 s, less a quarter. The fifth connection is the last within 10 s, and a
// sixth comes 12 s later, or when a file has changed.
BOOST_AUTO_TEST_CASE(a_mistake_is_retried_with_long_pauses_and_at_once_when_a_file_changes) {
    authority const other;
    tls_fleet untrusted(1, default_server(), {.certificate = other.issue(usual_names)});
    tls_fleet wants(1, default_server(), {.wants_certificate = true});
    fake_server const silent(behaviour::silent);
    fake_server const closes(behaviour::closes), closes_plain(behaviour::closes);
    auto const refused = [](tls_fleet const& f) {
        return count((*f.servers)[0].log_tail(1000), "Error accepting a client connection");
    };
    test_client p({untrusted.addresses().at(0), wants.addresses().at(0),
                   wants.at_port(closes.port()), closes_plain.address()});
    test_client q({wants.at_port(silent.port())}, {.connect_timeout = 1s});
    p.runs_with(q);
    p.pass(lease_clock::now() + 10s);
    for (auto const* const servers : {&untrusted, &wants}) {
        BOOST_TEST(refused(*servers) >= 3U);
        BOOST_TEST(refused(*servers) <= 5U);
    }
    BOOST_TEST(silent.accepted() >= 3U);
    BOOST_TEST(silent.accepted() <= 5U);
    for (auto const* const way : {&closes, &closes_plain}) {
        BOOST_TEST(way->accepted() >= 3U);
        BOOST_TEST(way->accepted() <= 5U);
    }
    BOOST_TEST(p.until([&] { return refused(untrusted) >= 5; }, 20s));
    untrusted.at.write("ca", other.certificate());
    BOOST_TEST(p.becomes(0, instance_state::up));
}

// The commands of doc/production.md, for this machine.
BOOST_AUTO_TEST_CASE(the_documented_commands_make_what_a_server_and_a_client_need) {
    if (std::system("openssl version >/dev/null 2>&1") != 0) {
        BOOST_TEST_MESSAGE("not run: without openssl");
        return;
    }
    auto const read = [](std::string const& path) {
        std::ifstream in(path);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    auto const page = document_text("production.md");
    auto const begin = page.find("```sh\n") + 6;
    auto commands = page.substr(begin, page.find("```", begin) - begin);
    std::string const address = "10.0.0.1";
    BOOST_REQUIRE(contains(commands, address));
    commands.replace(commands.find(address), address.size(), "127.0.0.1");
    swept_folder const at;
    auto const script = at.write("commands", commands);
    auto const run = "cd " + at.path("") + " && sh -e " + script + " >/dev/null 2>&1";
    BOOST_REQUIRE(std::system(run.c_str()) == 0);
    tls_fleet f(1, default_server(),
                {.certificate = {read(at.path("server.pem")), read(at.path("server.key"))},
                 .trusts = read(at.path("ca.pem")),
                 .wants_certificate = true});
    f.own.ca_file = at.path("ca.pem");
    f.own.certificate_file = at.path("client.pem");
    f.own.key_file = at.path("client.key");
    check_connects(f);
}

BOOST_AUTO_TEST_SUITE_END()
