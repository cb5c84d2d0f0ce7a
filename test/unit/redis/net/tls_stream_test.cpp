// TLS as a stream: whom it trusts, that nothing is lost when the socket is full, and how it ends.
#include "redis/net/tls_connector.hpp"
#include "redis/net/tls_stream.hpp"

#include "support/certificates.hpp"
#include "unit/redis/net/stream_user.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;
using holdfast::redis::make_tls_stream;
using holdfast::test::certificates;
using holdfast::test::check_bytes_go_both_ways;
using holdfast::test::is_aborted;
using holdfast::test::long_write;
using holdfast::test::make_certificates;
using holdfast::test::pattern;
using user = holdfast::test::recording_user;

namespace {

certificates const& server_certificates() {
    static auto const made = make_certificates("DNS:server.test,IP:127.0.0.1");
    return made;
}

std::shared_ptr<ssl::context> trusting(certificates const& c) {
    auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
    context->set_verify_mode(ssl::verify_peer);
    context->add_certificate_authority(asio::buffer(c.authority));
    return context;
}

/// A TLS server for one connection at a time, and the streams that lead to it.
struct loopback {
    using peer_stream = ssl::stream<tcp::socket>;

    loopback() {
        acceptor_.open(tcp::v4());
        // A small window, so that much does not fit.
        acceptor_.set_option(asio::socket_base::receive_buffer_size(8 * 1024));
        acceptor_.bind({asio::ip::address_v4::loopback(), 0});
        acceptor_.listen();
        auto const& c = server_certificates();
        context_.use_certificate(asio::buffer(c.certificate), ssl::context::pem);
        context_.use_private_key(asio::buffer(c.key), ssl::context::pem);
    }

    std::shared_ptr<user> make(std::string name = "server.test") {
        return make(trusting(server_certificates()), std::move(name));
    }
    std::shared_ptr<user> make(std::shared_ptr<ssl::context> context, std::string name) {
        auto const executor = asio::make_strand(io_.get_executor());
        auto const names = holdfast::redis::names_for(name, {});
        return std::make_shared<user>(make_tls_stream(executor, {acceptor_.local_endpoint()},
                                                      {.context = std::move(context),
                                                       .sent_name = names.sent,
                                                       .verified_name = names.verified}));
    }

    /// Connects the user, and does the server's side of the handshake. The results that the user
    /// got.
    error_code connect(user& u) {
        u.connect();
        accept();
        bool shaken = false;
        peer_->async_handshake(ssl::stream_base::server, [&](error_code) { shaken = true; });
        run_until([&] { return u.connected && shaken; });
        auto const result = *u.connected;
        u.forget();
        return result;
    }

    std::shared_ptr<user> connected() {
        auto u = make();
        BOOST_REQUIRE(!connect(*u));
        return u;
    }

    void accept() {
        peer_.emplace(io_, context_);
        acceptor_.accept(peer_->next_layer());
    }

    /// Fills the stream until it takes no more. The number of bytes that it took.
    std::size_t fill(user& u) {
        std::string const much(64 * 1024, 'x');
        std::size_t all = 0;
        // The kernel may take a bit more at the second try.
        for (int refused = 0; refused < 10;) {
            error_code ec;
            auto const size = u.write(much, ec);
            BOOST_REQUIRE(!ec);
            all += size;
            refused = size == 0 ? refused + 1 : 0;
            BOOST_REQUIRE(all < 64 * 1024 * 1024);
            io_.restart();
            io_.poll();
        }
        return all;
    }

    void peer_sends(std::string_view bytes) { asio::write(*peer_, asio::buffer(bytes)); }

    template <class Predicate>
    void run_until(Predicate happened) {
        io_.restart();
        while (!happened()) BOOST_REQUIRE(io_.run_one() != 0);
    }

    asio::io_context io_{1};
    tcp::acceptor acceptor_{io_};
    ssl::context context_{ssl::context::tls_server};
    std::optional<peer_stream> peer_;
};

bool is_refusal(error_code ec) {
    return ec.category() == asio::error::get_ssl_category() &&
           ERR_GET_REASON(static_cast<unsigned long>(ec.value())) ==
               SSL_R_CERTIFICATE_VERIFY_FAILED;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tls_stream)

BOOST_AUTO_TEST_CASE(carries_bytes_both_ways) {
    loopback lo;
    auto const u = lo.connected();
    check_bytes_go_both_ways(lo, *u, *lo.peer_);
}

// In the middle the peer changes its keys and asks for new ones.
BOOST_AUTO_TEST_CASE(carries_much_in_order_while_a_read_waits) {
    loopback lo;
    auto const u = lo.connected();
    auto const sent = pattern(12 * 1024 * 1024);
    long_write writing{*u, sent};
    std::string heard;
    u->then = [&] {
        if (u->read_done) {
            BOOST_REQUIRE(!*u->read_done);
            heard += u->bytes();
            u->read_done.reset();
            u->read();
        }
        if (u->writable) {
            BOOST_REQUIRE(!*u->writable);
            u->writable.reset();
            writing.go_on();
        }
    };
    u->read();

    std::string got(sent.size(), '\0');
    bool done = false;
    auto const half = got.size() / 2;
    asio::async_read(*lo.peer_, asio::buffer(got.data(), half), [&](error_code ec, std::size_t) {
        BOOST_REQUIRE(!ec);
        BOOST_REQUIRE(SSL_key_update(lo.peer_->native_handle(), SSL_KEY_UPDATE_REQUESTED) == 1);
        lo.peer_sends("new keys");
        asio::async_read(*lo.peer_, asio::buffer(got.data() + half, got.size() - half),
                         [&](error_code end, std::size_t) {
                             BOOST_TEST(!end, end.message());
                             done = true;
                         });
    });
    writing.go_on();
    lo.run_until([&] { return done && heard == "new keys"; });
    BOOST_TEST((got == sent));
    BOOST_TEST(writing.blocked > 3);
    lo.peer_sends("!");
    lo.run_until([&] { return heard == "new keys!"; });
    u->then = [] {};
}

BOOST_AUTO_TEST_CASE(takes_no_more_than_fits_until_it_has_drained) {
    loopback lo;
    auto const u = lo.connected();
    auto const filled = lo.fill(*u);
    error_code ec;
    BOOST_TEST(u->write("x", ec) == 0u);
    BOOST_TEST(!ec);
    u->wait_writable();
    lo.io_.restart();
    lo.io_.poll();
    BOOST_TEST(!u->writable);
    std::string got(filled, '\0');
    bool done = false;
    asio::async_read(*lo.peer_, asio::buffer(got), [&](error_code end, std::size_t) {
        BOOST_TEST(!end);
        done = true;
    });
    lo.run_until([&] { return done && u->writable; });
    BOOST_TEST(!*u->writable);
    BOOST_TEST(u->write("x", ec) == 1u);
}

// The rest of what write() has taken goes out, though no user waits for it.
BOOST_AUTO_TEST_CASE(bytes_that_were_taken_are_sent) {
    loopback lo;
    auto const u = lo.connected();
    std::string got(lo.fill(*u), '\0');
    bool done = false;
    asio::async_read(*lo.peer_, asio::buffer(got), [&](error_code ec, std::size_t) {
        BOOST_TEST(!ec);
        done = true;
    });
    lo.run_until([&] { return done; });
}

BOOST_AUTO_TEST_CASE(trusts_a_server_of_the_right_name_only) {
    loopback lo;
    auto const connected = [&](std::string name) { return lo.connect(*lo.make(std::move(name))); };
    BOOST_TEST(!connected("server.test"));
    BOOST_TEST(!connected("server.test."));
    BOOST_TEST(!connected("127.0.0.1"));
    BOOST_TEST(!connected(""));
    BOOST_TEST(is_refusal(connected("other.test")));
    BOOST_TEST(is_refusal(connected("127.0.0.2")));
    BOOST_TEST(is_refusal(connected("::1%lo")));
}

BOOST_AUTO_TEST_CASE(trusts_a_known_authority_only) {
    loopback lo;
    auto const u = lo.make(trusting(make_certificates("DNS:server.test")), "server.test");
    BOOST_TEST(is_refusal(lo.connect(*u)));
}

BOOST_AUTO_TEST_CASE(sends_a_name_but_no_address) {
    loopback lo;
    auto const sent = [&](std::string name) {
        BOOST_REQUIRE(!lo.connect(*lo.make(std::move(name))));
        auto const* const seen =
            SSL_get_servername(lo.peer_->native_handle(), TLSEXT_NAMETYPE_host_name);
        return std::string(seen == nullptr ? "none" : seen);
    };
    BOOST_TEST(sent("server.test.") == "server.test");
    BOOST_TEST(sent("127.0.0.1") == "none");
    BOOST_TEST(sent("") == "none");
}

BOOST_AUTO_TEST_CASE(a_name_that_cannot_be_one_is_an_error) {
    loopback lo;
    for (auto const& name : {std::string("a\0b", 3), std::string(300, 'x')}) {
        auto const u = lo.make(name);
        u->connect();
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(!!*u->connected);
    }
}

BOOST_AUTO_TEST_CASE(does_not_renegotiate) {
    loopback lo;
    SSL_CTX_set_max_proto_version(lo.context_.native_handle(), TLS1_2_VERSION);
    auto const u = lo.connected();
    u->read();
    auto* const peer = lo.peer_->native_handle();
    BOOST_REQUIRE(SSL_renegotiate(peer) == 1);
    SSL_do_handshake(peer); // into the peer's buffer, and out with the next bytes
    lo.peer_sends("still here");
    lo.run_until([&] { return u->read_done.has_value(); });
    BOOST_TEST(!*u->read_done);
    BOOST_TEST(u->bytes() == "still here");
    u->forget();
    u->read();
    // The peer insists, so the connection ends.
    std::string got(1, '\0');
    error_code ec, ignored;
    u->write("x", ignored);
    asio::read(*lo.peer_, asio::buffer(got), ec);
    BOOST_TEST(SSL_session_reused(peer) == 0);
    BOOST_TEST(SSL_renegotiate_pending(peer) == 1);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_peer_is_an_error) {
    loopback lo;
    auto const end_of_read = [&](auto end) {
        auto const u = lo.connected();
        u->read();
        end();
        lo.run_until([&] { return u->read_done.has_value(); });
        return *u->read_done;
    };
    auto& peer = lo.peer_;
    BOOST_TEST(end_of_read([&] { peer->next_layer().close(); }) == asio::error::eof);
    bool shut = false;
    BOOST_TEST(end_of_read([&] { peer->async_shutdown([&](error_code) { shut = true; }); }) ==
               asio::error::eof);
    lo.run_until([&] { return shut; });
    BOOST_TEST(end_of_read([&] {
                   peer->next_layer().set_option(asio::socket_base::linger(true, 0));
                   peer->next_layer().close();
               }) == asio::error::connection_reset);
    {
        auto const u = lo.connected();
        lo.fill(*u);
        u->wait_writable();
        peer->next_layer().close();
        lo.run_until([&] { return u->writable.has_value(); });
        error_code ec;
        while (!ec) u->write("x", ec);
        BOOST_TEST(u->write("x", ec) == 0u);
        BOOST_TEST(!!ec);
    }
    {
        auto const u = lo.make();
        u->connect();
        lo.accept();
        peer->next_layer().close();
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(!!*u->connected);
    }
    lo.acceptor_.close();
    lo.acceptor_.open(tcp::v4());
    lo.acceptor_.bind({asio::ip::address_v4::loopback(), 0});
    auto const u = lo.make();
    u->connect();
    lo.run_until([&] { return u->connected.has_value(); });
    BOOST_TEST(*u->connected == asio::error::connection_refused);
}

BOOST_DATA_TEST_CASE(may_be_closed_or_destroyed_at_any_time,
                     boost::unit_test::data::make({false, true}), destroys) {
    loopback lo;
    auto const end = [&](user& u) {
        if (destroys) {
            u.destroy();
        } else {
            u.close();
        }
    };
    std::weak_ptr<user> seen;
    {
        auto const u = lo.make();
        u->connect();
        end(*u);
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(is_aborted(u->connected));
        lo.accept();
    }
    {
        auto const u = lo.make(); // in the handshake
        seen = u;
        u->connect();
        lo.accept();
        lo.io_.restart();
        lo.io_.poll();
        end(*u);
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(is_aborted(u->connected));
    }
    BOOST_TEST(seen.expired());
    {
        auto const u = lo.connected();
        seen = u;
        lo.fill(*u);
        u->read();
        u->wait_writable();
        end(*u);
        lo.run_until([&] { return u->read_done && u->writable; });
        BOOST_TEST(is_aborted(u->read_done));
        BOOST_TEST(is_aborted(u->writable));
    }
    BOOST_TEST(seen.expired());
    {
        auto const u = lo.connected();
        u->then = [&] { end(*u); };
        lo.fill(*u);
        u->read();
        u->wait_writable();
        lo.peer_sends("x");
        lo.run_until([&] { return u->read_done && u->writable; });
        BOOST_TEST(is_aborted(u->read_done) != is_aborted(u->writable)); // the first ends the other
        u->then = [] {};
    }
    {
        auto const u = lo.make();
        u->then = [&] { end(*u); };
        BOOST_TEST(!lo.connect(*u));
        u->then = [] {};
    }
}

BOOST_AUTO_TEST_CASE(a_context_may_be_destroyed_with_operations_under_way) {
    std::vector<std::weak_ptr<user>> seen;
    {
        loopback lo;
        auto const busy = lo.connected();
        lo.fill(*busy);
        busy->read();
        busy->wait_writable();
        auto const shaking = lo.make();
        shaking->connect();
        lo.io_.restart();
        lo.io_.poll();
        auto const connecting = lo.make();
        connecting->connect();
        seen = {busy, shaking, connecting};
    }
    for (auto const& u : seen) BOOST_TEST(u.expired());
}

BOOST_AUTO_TEST_SUITE_END()
