// The TLS stream against the TLS of real servers.
#include "redis/net/tls_stream.hpp"

#include "support/certificates.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"
#include "unit/redis/net/stream_user.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using namespace holdfast::test;

namespace {

/// A server that speaks TLS, with a certificate for server.test.
class tls_server {
public:
    explicit tls_server(server_kind const& kind)
        : server_([&] {
            server_options options;
            options.kind = kind;
            options.arguments = {
                "--tls-ca-cert-file", folder_.write("authority", certificates_.authority),
                "--tls-cert-file",    folder_.write("certificate", certificates_.certificate),
                "--tls-key-file",     folder_.write("key", certificates_.key),
                "--tls-auth-clients", "no"};
            options.extra_ports = {"tls-port"};
            return options;
        }()) {}

    asio::ip::tcp::endpoint endpoint() const {
        return {asio::ip::address_v4::loopback(), server_.port("tls-port")};
    }
    std::string const& authority() const { return certificates_.authority; }

private:
    certificates const certificates_ = make_certificates("DNS:server.test");
    swept_folder folder_;
    server server_;
};

/// A connection of its own, with blocking calls.
class wire {
public:
    wire(asio::ip::tcp::endpoint const& to, std::string const& authority, std::string name) {
        auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
        context->set_verify_mode(ssl::verify_peer);
        context->add_certificate_authority(asio::buffer(authority));
        user_ = std::make_shared<recording_user>(holdfast::redis::make_tls_stream(
            io_.get_executor(), to,
            {.context = std::move(context), .sent_name = name, .verified_name = name}));
    }

    error_code connect() {
        user_->connect();
        run_until([&] { return user_->connected.has_value(); });
        return *user_->connected;
    }

    /// Sends a request, reading all the while until the reply has its size.
    std::string ask(std::string_view request, std::size_t reply_size) {
        std::string reply;
        error_code ec;
        user_->read();
        while (reply.size() < reply_size) {
            request.remove_prefix(user_->write(request, ec));
            BOOST_REQUIRE(!ec);
            user_->writable.reset();
            if (!request.empty()) user_->wait_writable();
            run_until([&] { return user_->read_done || user_->writable; });
            if (user_->read_done) {
                BOOST_REQUIRE(!*user_->read_done);
                user_->read_done.reset();
                reply += user_->bytes();
                user_->read();
            }
            if (!request.empty()) run_until([&] { return user_->writable.has_value(); });
        }
        user_->close();
        io_.run();
        return reply;
    }

private:
    template <class Predicate>
    void run_until(Predicate happened) {
        io_.restart();
        while (!happened()) BOOST_REQUIRE(io_.run_one() != 0);
    }

    asio::io_context io_{1};
    std::shared_ptr<recording_user> user_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(tls_seam)

BOOST_AUTO_TEST_CASE(every_server_answers) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    for (auto const& kind : kinds) {
        BOOST_TEST_CONTEXT(kind.name) {
            tls_server const server(kind);
            {
                wire w(server.endpoint(), server.authority(), "server.test");
                BOOST_REQUIRE(!w.connect());
                BOOST_TEST(w.ask("*1\r\n$4\r\nPING\r\n", 7) == "+PONG\r\n");
            }
            wire w(server.endpoint(), server.authority(), "server.test");
            BOOST_REQUIRE(!w.connect());
            auto const value = pattern(1024 * 1024);
            auto const bulk = "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
            auto const expected = "+OK\r\n" + bulk;
            auto const reply =
                w.ask("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + bulk + "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
                      expected.size());
            BOOST_TEST((reply == expected));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_server_of_another_name_or_authority_is_refused) {
    tls_server const server(default_server());
    BOOST_TEST(!!wire(server.endpoint(), server.authority(), "other.test").connect());
    auto const other = make_certificates("DNS:server.test").authority;
    BOOST_TEST(!!wire(server.endpoint(), other, "server.test").connect());
}

BOOST_AUTO_TEST_SUITE_END()
