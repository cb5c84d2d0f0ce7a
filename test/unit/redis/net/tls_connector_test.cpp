// Connections of TLS as an instance makes them: trust from files, the texts of real failures, and
// sessions that are resumed.
#include "redis/net/tls_connector.hpp"

#include "support/certificates.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"
#include "support/variable.hpp"
#include "unit/redis/net/stream_user.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
namespace data = boost::unit_test::data;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;
using namespace holdfast;
using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;
using user = recording_user;

namespace {

/// A server and a client of TLS, in one thread.
struct world {
    using peer_stream = ssl::stream<tcp::socket>;

    explicit world(certificate_options const& of_server = {.names = "DNS:server.test"}) {
        acceptor.open(tcp::v4());
        acceptor.bind({asio::ip::address_v4::loopback(), 0});
        acceptor.listen();
        serve(root.issue(of_server));
        options.ca_file = files.write("ca", root.certificate());
    }

    /// The server has this certificate from now on, and knows no earlier session.
    void serve(certified const& c) {
        context = std::make_unique<ssl::context>(ssl::context::tls_server);
        context->use_certificate_chain(asio::buffer(c.certificate));
        context->use_private_key(asio::buffer(c.key), ssl::context::pem);
        SSL_CTX_set_session_id_context(context->native_handle(),
                                       reinterpret_cast<unsigned char const*>("test"), 4);
    }
    void serve_only(int version) {
        SSL_CTX_set_max_proto_version(context->native_handle(), version);
        SSL_CTX_set_min_proto_version(context->native_handle(), version);
    }
    void want_certificate_of(authority const& a) {
        context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
        context->add_certificate_authority(asio::buffer(a.certificate()));
    }
    void use(certified const& c) {
        options.certificate_file = files.write("cert", c.certificate);
        options.key_file = files.write("key", c.key);
    }

    tls_connector& connector(std::string_view host = "server.test") {
        if (!made) made.emplace(std::make_shared<tls_context_source>(options), host);
        return *made;
    }
    std::shared_ptr<user> begin() {
        auto u = std::make_shared<user>(
            connector().make_stream(io.get_executor(), {acceptor.local_endpoint()}));
        u->connect();
        return u;
    }
    void accept() {
        peer.emplace(io, *context);
        acceptor.accept(peer->next_layer());
    }
    /// Does both sides of a handshake.
    std::shared_ptr<user> connect() {
        auto u = begin();
        accept();
        peer_result.reset();
        peer->async_handshake(ssl::stream_base::server, [&](error_code ec) { peer_result = ec; });
        run_until([&] { return u->connected && peer_result; });
        return u;
    }
    /// The server closes at once, without waiting for what was sent.
    void reset() {
        peer->next_layer().set_option(asio::socket_base::linger(true, 0));
        peer->next_layer().close();
    }
    /// Connects, and lets the server's tickets come.
    std::shared_ptr<user> talk() {
        auto u = connect();
        BOOST_REQUIRE_MESSAGE(!*u->connected, u->explain(*u->connected).message);
        asio::write(*peer, asio::buffer("x", 1));
        u->read();
        run_until([&] { return u->read_done.has_value(); });
        BOOST_TEST(!*u->read_done);
        return u;
    }
    /// Whether a connection is resumed. Both sides agree on that.
    bool resumes() {
        auto const u = talk();
        auto const reused = SSL_session_reused(peer->native_handle()) != 0;
        BOOST_TEST(contains(u->security(), "session resumed") == reused, u->security());
        reset(); // as connections are lost
        return reused;
    }
    /// A handshake that the client ends.
    std::string failure() {
        auto const u = connect();
        BOOST_REQUIRE(*u->connected);
        auto const f = u->explain(*u->connected);
        BOOST_TEST((f.fault == protocol::fault::setup), f.message);
        return f.message;
    }
    /// The failure of the first read, after a handshake that succeeded.
    std::string failure_of_read() {
        auto const u = connect();
        BOOST_REQUIRE_MESSAGE(!*u->connected, u->explain(*u->connected).message);
        u->read();
        peer->next_layer().close();
        run_until([&] { return u->read_done.has_value(); });
        return u->explain(*u->read_done, {.unanswered = true}).message;
    }

    /// The same as in TLS 1.2, where it comes within the handshake.
    std::string late_failure(int version) {
        return version == TLS1_3_VERSION ? failure_of_read() : failure();
    }

    template <class Predicate>
    void run_until(Predicate happened) {
        io.restart();
        while (!happened()) BOOST_REQUIRE(io.run_one() != 0);
    }

    asio::io_context io{1};
    tcp::acceptor acceptor{io};
    authority root;
    std::unique_ptr<ssl::context> context;
    std::optional<peer_stream> peer;
    std::optional<error_code> peer_result;
    swept_folder files;
    tls_options options;
    std::optional<tls_connector> made;
};

std::array const versions{TLS1_2_VERSION, TLS1_3_VERSION};

} // namespace

BOOST_AUTO_TEST_SUITE(tls_connector)

BOOST_DATA_TEST_CASE(a_lost_connection_resumes_its_session, data::make(versions), version) {
    world w;
    w.serve_only(version);
    BOOST_TEST(!w.resumes());
    for (int n = 0; n < 5; ++n) BOOST_TEST(w.resumes());
}

BOOST_DATA_TEST_CASE(a_change_of_files_resumes_nothing, data::make(versions), version) {
    world w;
    w.serve_only(version);
    w.use(w.root.issue({}));
    BOOST_TEST(!w.resumes());
    BOOST_TEST(w.resumes());
    w.files.write("ca", w.root.certificate());
    BOOST_TEST(!w.resumes());
    BOOST_TEST(w.resumes());
    // Nor the identity of the earlier certificate.
    auto const next = w.root.issue({});
    w.files.write("cert", next.certificate);
    w.files.write("key", next.key);
    BOOST_TEST(!w.resumes());
}

BOOST_AUTO_TEST_CASE(a_ticket_is_for_one_context_and_one_name) {
    auto const context = std::make_shared<ssl::context>(ssl::context::tls_client);
    auto const other = std::make_shared<ssl::context>(ssl::context::tls_client);
    redis::tls_ticket t;
    redis::tls_ticket::session_ptr const s(SSL_SESSION_new());
    BOOST_TEST(!t.find(context, "a"));
    t.keep(s.get(), context, "a");
    BOOST_TEST(!!t.find(context, "a"));
    BOOST_TEST(t.find(context, "a") != s); // a copy
    BOOST_TEST(!t.find(context, "b"));
    BOOST_TEST(!t.find(other, "a"));
    t.keep(s.get(), context, "b");
    BOOST_TEST(!t.find(context, "a"));
    t.drop();
    BOOST_TEST(!t.find(context, "b"));
}

// A server that has changed its certificate ends the session, and is verified again.
BOOST_AUTO_TEST_CASE(a_handshake_that_fails_drops_the_session) {
    world w;
    BOOST_TEST(!w.resumes());
    BOOST_TEST(w.resumes());
    auto const before = std::move(w.context);
    w.serve(authority().issue({.names = "DNS:server.test"}));
    BOOST_TEST(contains(w.failure(), "is not trusted"));
    *w.context = std::move(*before);
    BOOST_TEST(!w.resumes());
}

BOOST_AUTO_TEST_CASE(the_protection_is_told) {
    world w;
    BOOST_TEST(w.talk()->security() == "TLS 1.3");
    w.serve_only(TLS1_2_VERSION);
    w.made.reset();
    BOOST_TEST(w.talk()->security() == "TLS 1.2");
    w.made.reset();
    w.options.verify = false;
    w.serve(authority::self_signed({}));
    BOOST_TEST(w.talk()->security() == "TLS 1.3, certificate not verified");
    BOOST_TEST(w.begin()->security() == "");
}

BOOST_AUTO_TEST_CASE(the_handshake_is_announced_once) {
    world w;
    auto const u = w.connect();
    BOOST_TEST(u->handshakes == 1);
}

BOOST_AUTO_TEST_CASE(a_user_may_go_when_the_handshake_begins) {
    world w;
    auto const u = w.begin();
    u->at_handshake = [&] { u->destroy(); };
    w.accept();
    w.run_until([&] { return u->connected.has_value(); });
    BOOST_TEST(is_aborted(u->connected));
}

//
// Failures of verification
//

BOOST_AUTO_TEST_CASE(an_unknown_authority_is_named) {
    world w;
    w.options.ca_file = w.files.write("ca", authority().certificate());
    BOOST_TEST(w.failure() == "TLS: issuer \"CN=" + w.root.name() +
                                  "\" is not trusted (set ca; does the server send its chain?)");
}

BOOST_AUTO_TEST_CASE(a_chain_that_is_not_sent_is_named) {
    world w;
    authority const between(w.root);
    auto made = between.issue({.names = "DNS:server.test"});
    w.serve(made);
    BOOST_TEST(!*w.connect()->connected);
    auto const end = std::string_view("-----END CERTIFICATE-----\n");
    made.certificate.resize(made.certificate.find(end) + end.size());
    w.serve(made);
    BOOST_TEST(w.failure() == "TLS: issuer \"CN=" + between.name() +
                                  "\" is not trusted (set ca; does the server send its chain?)");
}

BOOST_AUTO_TEST_CASE(a_self_signed_certificate_is_trusted_if_it_is_given) {
    world w;
    auto const own = authority::self_signed({.names = "DNS:server.test"});
    w.serve(own);
    BOOST_TEST(w.failure() == "TLS: the certificate is self-signed (give it as ca)");
    w.made.reset();
    w.options.ca_file = w.files.write("ca", own.certificate);
    BOOST_TEST(!*w.connect()->connected);
}

BOOST_AUTO_TEST_CASE(a_directory_of_authorities_is_trusted) {
    world w;
    w.options.ca_file = "";
    w.options.ca_directory = w.files.path("authorities");
    std::filesystem::create_directory(w.options.ca_directory);
    BOOST_TEST(contains(w.failure(), "is not trusted"));
    w.files.write("authorities/" + w.root.file_name(), w.root.certificate());
    BOOST_TEST(!*w.connect()->connected);
}

BOOST_AUTO_TEST_CASE(by_default_the_authorities_of_the_system_are_trusted) {
    world w;
    w.options = {};
    std::filesystem::create_directory(w.files.path("authorities"));
    variable const file("SSL_CERT_FILE", w.files.write("bundle", authority().certificate()));
    variable const directory("SSL_CERT_DIR", w.files.path("authorities"));
    BOOST_TEST(contains(w.failure(), "is not trusted"));
    w.files.write("authorities/" + w.root.file_name(), w.root.certificate());
    BOOST_TEST(!*w.connect()->connected);
    std::filesystem::remove(w.files.path("authorities/" + w.root.file_name()));
    BOOST_TEST(contains(w.failure(), "is not trusted"));
    w.files.write("bundle", w.root.certificate());
    BOOST_TEST(!*w.connect()->connected);
}

// With a file or a directory, the authorities of the system are not trusted.
BOOST_AUTO_TEST_CASE(authorities_that_are_given_replace_those_of_the_system) {
    world w;
    variable const file("SSL_CERT_FILE", w.options.ca_file);
    w.options.ca_file = w.files.write("other", authority().certificate());
    BOOST_TEST(contains(w.failure(), "is not trusted"));
    w.made.reset();
    w.options.ca_file = "";
    w.options.ca_directory = w.files.path("authorities");
    std::filesystem::create_directory(w.options.ca_directory);
    BOOST_TEST(contains(w.failure(), "is not trusted"));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_certificate_is_told) {
    world w({.names = "DNS:server.test", .from = -48h, .until = -24h});
    auto const expired = w.failure();
    BOOST_TEST(expired.starts_with("TLS: the certificate expired on 20"), expired);
    BOOST_TEST(expired.ends_with(" UTC"), expired);
    w.serve(w.root.issue({.names = "DNS:server.test", .from = 24h, .until = 48h}));
    auto const early = w.failure();
    BOOST_TEST(early.starts_with("TLS: the certificate is valid from 20"), early);
    BOOST_TEST(early.ends_with(" UTC"), early);
}

BOOST_AUTO_TEST_CASE(the_end_of_an_authority_is_told) {
    world w;
    authority const old(-1h);
    w.serve(old.issue({.names = "DNS:server.test"}));
    w.options.ca_file = w.files.write("ca", old.certificate());
    auto const text = w.failure();
    BOOST_TEST(text.starts_with("TLS: the certificate of \"CN=" + old.name() + "\" expired on 20"),
               text);
}

BOOST_AUTO_TEST_CASE(the_names_of_a_certificate_for_another_host_are_told) {
    world w({.names = "DNS:a.test,DNS:b.test,IP:10.0.0.9"});
    auto const text = " (set verify_name)";
    auto const all = std::string("TLS: the certificate is for a.test, b.test, 10.0.0.9 and not ");
    BOOST_TEST(w.failure() == all + "for server.test" + text);
    for (auto const* const host : {"10.0.0.1", "::1"}) {
        w.made.reset();
        w.connector(host);
        BOOST_TEST(w.failure() == all + "for " + host + text);
    }
    w.made.reset();
    w.connector("10.0.0.9");
    BOOST_TEST(!*w.connect()->connected);
    w.made.reset();
    w.options.verify_name = "b.test.";
    BOOST_TEST(!*w.connect()->connected);
    w.made.reset();
    w.options.verify_name = "c.test";
    BOOST_TEST(w.failure() == all + "for c.test" + text);
}

// https://www.rfc-editor.org/rfc/rfc6125#section-6.4.3
BOOST_AUTO_TEST_CASE(a_wildcard_stands_for_a_whole_label) {
    world w({.names = "DNS:*.locks.test"});
    w.connector("one.locks.test");
    BOOST_TEST(!*w.connect()->connected);
    w.made.reset();
    w.connector("one.two.locks.test");
    BOOST_TEST(contains(w.failure(), "is for *.locks.test and not for one.two.locks.test"));
    w.made.reset();
    w.serve(w.root.issue({.names = "DNS:o*.locks.test"}));
    w.connector("one.locks.test");
    BOOST_TEST(contains(w.failure(), "is for o*.locks.test and not for one.locks.test"));
}

BOOST_AUTO_TEST_CASE(a_certificate_of_a_client_is_none_of_a_server) {
    world w({.names = "DNS:server.test", .usage = "clientAuth"});
    auto const text = w.failure();
    BOOST_TEST(text.starts_with("TLS: the certificate is refused: "), text);
}

BOOST_AUTO_TEST_CASE(a_name_is_sent_and_no_address) {
    world w;
    auto const sent = [&](std::string_view host, std::string_view name) {
        w.made.reset();
        w.options.server_name = name;
        w.options.verify_name = "server.test";
        w.connector(host);
        BOOST_REQUIRE(!*w.connect()->connected);
        auto const* const seen =
            SSL_get_servername(w.peer->native_handle(), TLSEXT_NAMETYPE_host_name);
        return std::string(seen == nullptr ? "none" : seen);
    };
    BOOST_TEST(sent("host.test.", "") == "host.test");
    BOOST_TEST(sent("host.test", "front.test.") == "front.test");
    BOOST_TEST(sent("10.0.0.1", "front.test") == "front.test");
    for (auto const* const host : {"10.0.0.1", "::1", "fe80::1%lo"})
        BOOST_TEST(sent(host, "") == "none");
}

//
// A context of the program
//

BOOST_AUTO_TEST_CASE(the_check_of_a_program_decides) {
    world w;
    auto accepts = true;
    int asked = 0;
    w.options = {};
    w.options.context = std::make_shared<ssl::context>(ssl::context::tls_client);
    w.options.context->set_verify_mode(ssl::verify_peer);
    w.options.context->add_certificate_authority(asio::buffer(w.root.certificate()));
    w.options.context->set_verify_callback([&](bool valid, ssl::verify_context&) {
        ++asked;
        return valid && accepts;
    });
    BOOST_TEST(!w.resumes());
    BOOST_TEST(asked > 0);
    BOOST_TEST(!w.resumes()); // its cache is the program's
    accepts = false;
    BOOST_TEST(w.failure() == "TLS: a check of the program refused the certificate");
    accepts = true;
    w.made.reset();
    w.connector("other.test");
    BOOST_TEST(contains(w.failure(), "and not for other.test"));
}

//
// The client's certificate
//

BOOST_DATA_TEST_CASE(a_missing_certificate_is_told, data::make(versions), version) {
    world w;
    w.serve_only(version);
    w.want_certificate_of(w.root);
    BOOST_TEST(
        w.late_failure(version) ==
        (version == TLS1_3_VERSION
             ? "TLS: the server requires a client certificate (set cert, key)"
             : "TLS: the server refused the handshake (does it want a client certificate?)"));
    w.made.reset();
    w.use(w.root.issue({}));
    BOOST_TEST(!*w.connect()->connected);
    BOOST_TEST(!*w.peer_result);
}

BOOST_DATA_TEST_CASE(a_certificate_that_the_server_rejects_is_told, data::make(versions), version) {
    world w;
    w.serve_only(version);
    w.want_certificate_of(w.root);
    w.use(authority().issue({}));
    BOOST_TEST(w.late_failure(version) == "TLS: the server rejects our certificate: unknown CA");
    w.made.reset();
    w.use(w.root.issue({.from = -48h, .until = -24h}));
    BOOST_TEST(w.late_failure(version) == "TLS: the server rejects our certificate: expired");
}

// The server has closed before the first bytes are written. Its alert has come before.
BOOST_AUTO_TEST_CASE(the_alert_is_read_after_a_write_has_failed) {
    world w;
    w.want_certificate_of(w.root);
    auto const u = w.connect();
    BOOST_REQUIRE(!*u->connected);
    BOOST_REQUIRE(*w.peer_result);
    w.reset();
    error_code ec;
    while (!ec) u->write("question", ec);
    u->shut_down();
    u->read();
    w.run_until([&] { return u->read_done.has_value(); });
    BOOST_TEST(u->explain(*u->read_done).message ==
               "TLS: the server requires a client certificate (set cert, key)");
}

//
// Peers that are no servers of TLS, or not of ours
//

BOOST_AUTO_TEST_CASE(a_server_of_old_versions_is_told) {
    world w;
    w.serve_only(TLS1_1_VERSION);
    SSL_CTX_set_security_level(w.context->native_handle(), 0);
    BOOST_TEST(w.failure() == "TLS: the server accepts neither TLS 1.2 nor 1.3");
    w.serve_only(TLS1_2_VERSION);
    w.made.reset();
    w.options.min_version = tls_version::v1_3;
    BOOST_TEST(w.failure() == "TLS: the server does not accept TLS 1.3");
}

BOOST_AUTO_TEST_CASE(a_peer_without_tls_is_told) {
    world w;
    auto const answer = [&](std::string_view bytes) {
        auto const u = w.begin();
        w.accept();
        asio::write(w.peer->next_layer(), asio::buffer(bytes));
        w.run_until([&] { return u->connected.has_value(); });
        BOOST_REQUIRE(*u->connected);
        return u->explain(*u->connected).message;
    };
    BOOST_TEST(answer("HTTP/1.1 400 Bad Request\r\n\r\n") == "TLS: the peer does not speak TLS");
    BOOST_TEST(answer("-ERR unknown command\r\n") == "TLS: the peer does not speak TLS");
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_is_told) {
    world w;
    for (auto const resets : {false, true}) {
        auto const u = w.begin();
        w.accept();
        if (resets) {
            w.reset();
        } else {
            w.peer->next_layer().shutdown(tcp::socket::shutdown_both);
        }
        w.run_until([&] { return u->connected.has_value(); });
        BOOST_REQUIRE(*u->connected);
        auto const f = u->explain(*u->connected);
        BOOST_TEST(f.message == "TLS: the peer closed during the handshake");
        BOOST_TEST((f.fault == protocol::fault::unclear));
    }
}

BOOST_AUTO_TEST_CASE(silence_is_told_from_a_slow_handshake) {
    world w;
    auto const u = w.begin();
    w.accept();
    w.run_until([&] { return u->handshakes == 1; });
    w.io.poll();
    BOOST_TEST(u->explain(asio::error::timed_out, {.limit = 750ms}).message ==
               "TLS: no answer to the handshake for 750 ms: a port without TLS?");
    // The answer of the server, but for its last byte.
    auto* const peer = w.peer->native_handle();
    auto* const in = BIO_new(BIO_s_mem());
    auto* const out = BIO_new(BIO_s_mem());
    SSL_set_bio(peer, in, out);
    SSL_set_accept_state(peer);
    std::array<char, 16 * 1024> bytes{};
    auto const size = w.peer->next_layer().read_some(asio::buffer(bytes));
    BIO_write(in, bytes.data(), static_cast<int>(size));
    SSL_do_handshake(peer);
    auto const answer = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    BOOST_REQUIRE(answer > 1);
    asio::write(w.peer->next_layer(),
                asio::buffer(bytes.data(), static_cast<std::size_t>(answer) - 1));
    w.run_until([&] {
        return contains(u->explain(asio::error::timed_out, {.limit = 750ms}).message,
                        "TLS: the handshake took more than 750 ms");
    });
    BOOST_TEST(!u->connected);
}

BOOST_AUTO_TEST_CASE(a_port_without_a_server_is_no_matter_of_tls) {
    world w;
    auto const closed = w.acceptor.local_endpoint();
    w.acceptor.close();
    auto const u = std::make_shared<user>(w.connector().make_stream(w.io.get_executor(), {closed}));
    u->connect();
    w.run_until([&] { return u->connected.has_value(); });
    auto const f = u->explain(*u->connected);
    BOOST_TEST(f.message == "Connection refused");
    BOOST_TEST((f.fault == protocol::fault::broken));
    BOOST_TEST(u->explain(asio::error::timed_out).message == "Connection timed out");
    BOOST_TEST(u->handshakes == 0);
}

BOOST_AUTO_TEST_SUITE_END()
