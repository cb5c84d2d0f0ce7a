// The messages for failed connections: each row of the table of errors.
#include "redis/net/connection_failure.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string>
#include <utility>

namespace asio = boost::asio;
using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::tls_version;
using holdfast::protocol::fault;

namespace {

/// An error of OpenSSL as Asio reports it.
error_code of_ssl(int reason, int library = ERR_LIB_SSL) {
    return {static_cast<int>(ERR_PACK(library, 0, reason)), asio::error::get_ssl_category()};
}

constexpr handshake_facts in_handshake() {
    return {.begun = true, .answered = true};
}
handshake_facts connected() {
    return {.begun = true, .answered = true, .over = true};
}

certificate_facts some_certificate() {
    return {.subject = "CN=server",
            .issuer = "CN=root",
            .names = {"a.test", "10.0.0.1"},
            .valid_from = "2026-01-02 03:04 UTC",
            .valid_until = "2026-11-22 19:56 UTC"};
}

connection_failure refused(long verify_result, certificate_facts c = some_certificate()) {
    auto facts = in_handshake();
    facts.verify_result = verify_result;
    facts.refused = std::move(c);
    facts.name = "b.test";
    return explain_tls(of_ssl(SSL_R_CERTIFICATE_VERIFY_FAILED), {}, facts);
}

void check(connection_failure const& f, fault r, std::string const& text) {
    BOOST_TEST(f.message == text);
    BOOST_TEST((f.fault == r), f.message);
}

error_code const ends[] = {asio::ssl::error::stream_truncated, asio::error::eof,
                           asio::error::connection_reset, asio::error::broken_pipe};

} // namespace

BOOST_AUTO_TEST_SUITE(connection_failure)

BOOST_AUTO_TEST_CASE(an_error_of_openssl_itself_is_no_alert) {
    auto const local = explain_tls(of_ssl(SSL_AD_REASON_OFFSET + 256), {}, in_handshake());
    BOOST_TEST(local.message.find("the server ended") == std::string::npos, local.message);
    auto const alert = explain_tls(of_ssl(SSL_AD_REASON_OFFSET + 80), {}, in_handshake());
    BOOST_TEST(alert.message.find("the server ended") != std::string::npos, alert.message);
}

// The constants of OpenSSL as measured: 0xa000086 is the packed error that Asio reports.
BOOST_AUTO_TEST_CASE(the_numbers_are_those_that_were_measured) {
    BOOST_TEST(of_ssl(SSL_R_CERTIFICATE_VERIFY_FAILED).value() == 0xa000086);
    BOOST_TEST(SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE == 1040);
    BOOST_TEST(SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED == 1116);
    BOOST_TEST(SSL_R_TLSV1_ALERT_UNKNOWN_CA == 1048);
    BOOST_TEST(SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED == 1045);
    BOOST_TEST(SSL_R_TLSV1_ALERT_PROTOCOL_VERSION == 1070);
    BOOST_TEST(SSL_R_WRONG_VERSION_NUMBER == 267);
    BOOST_TEST(X509_V_ERR_HOSTNAME_MISMATCH == 62);
    BOOST_TEST(X509_V_ERR_IP_ADDRESS_MISMATCH == 64);
}

BOOST_AUTO_TEST_CASE(an_issuer_that_is_not_trusted) {
    for (auto const v :
         {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
          X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE}) {
        check(refused(v), fault::setup,
              "TLS: issuer \"CN=root\" is not trusted (set ca; does the server send its chain?)");
    }
}

BOOST_AUTO_TEST_CASE(a_certificate_that_is_self_signed) {
    check(refused(X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT), fault::setup,
          "TLS: the certificate is self-signed (give it as ca)");
}

BOOST_AUTO_TEST_CASE(a_certificate_out_of_its_time) {
    check(refused(X509_V_ERR_CERT_HAS_EXPIRED), fault::setup,
          "TLS: the certificate expired on 2026-11-22 19:56 UTC");
    check(refused(X509_V_ERR_CERT_NOT_YET_VALID), fault::setup,
          "TLS: the certificate is valid from 2026-01-02 03:04 UTC");
    auto c = some_certificate();
    c.of_server = false;
    check(refused(X509_V_ERR_CERT_HAS_EXPIRED, c), fault::setup,
          "TLS: the certificate of \"CN=server\" expired on 2026-11-22 19:56 UTC");
}

BOOST_AUTO_TEST_CASE(a_certificate_for_another_name) {
    for (auto const v : {X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH}) {
        check(refused(v), fault::setup,
              "TLS: the certificate is for a.test, 10.0.0.1 and not for b.test (set verify_name)");
    }
    auto c = some_certificate();
    c.more_names = 996;
    check(refused(X509_V_ERR_HOSTNAME_MISMATCH, c), fault::setup,
          "TLS: the certificate is for a.test, 10.0.0.1, 996 more and not for b.test "
          "(set verify_name)");
    c = {};
    check(refused(X509_V_ERR_HOSTNAME_MISMATCH, c), fault::setup,
          "TLS: the certificate is for no name and not for b.test (set verify_name)");
}

BOOST_AUTO_TEST_CASE(another_reason_to_refuse_a_certificate) {
    check(refused(X509_V_ERR_CERT_REVOKED), fault::setup,
          "TLS: the certificate is refused: certificate revoked");
    check(refused(X509_V_ERR_UNSPECIFIED), fault::setup,
          "TLS: a check of the program refused the certificate");
}

BOOST_AUTO_TEST_CASE(a_server_that_wants_a_certificate) {
    auto facts = in_handshake();
    auto const refusal = of_ssl(SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE);
    check(explain_tls(refusal, {}, facts), fault::setup,
          "TLS: the server refused the handshake (does it want a client certificate?)");
    facts.certified = true;
    check(explain_tls(refusal, {}, facts), fault::setup, "TLS: the server refused the handshake");
    check(explain_tls(of_ssl(SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED), {.unanswered = true},
                      connected()),
          fault::setup, "TLS: the server requires a client certificate (set cert, key)");
}

BOOST_AUTO_TEST_CASE(a_server_that_rejects_our_certificate) {
    std::pair<int, char const*> const all[] = {
        {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "unknown CA"},
        {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "expired"},
        {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "revoked"},
        {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "bad certificate"},
        {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "unsupported certificate"},
        {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "unknown certificate"},
        {SSL_R_TLSV1_ALERT_ACCESS_DENIED, "access denied"},
    };
    // In TLS 1.3 the alert comes after the handshake, in TLS 1.2 within it.
    for (auto const& [reason, text] : all) {
        for (auto const& facts : {connected(), in_handshake()}) {
            check(explain_tls(of_ssl(reason), {}, facts), fault::setup,
                  std::string("TLS: the server rejects our certificate: ") + text);
        }
    }
}

BOOST_AUTO_TEST_CASE(no_common_version) {
    auto facts = in_handshake();
    for (auto const reason : {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SSL_R_UNSUPPORTED_PROTOCOL}) {
        facts.min_version = tls_version::v1_2;
        check(explain_tls(of_ssl(reason), {}, facts), fault::setup,
              "TLS: the server accepts neither TLS 1.2 nor 1.3");
        facts.min_version = tls_version::v1_3;
        check(explain_tls(of_ssl(reason), {}, facts), fault::setup,
              "TLS: the server does not accept TLS 1.3");
    }
}

BOOST_AUTO_TEST_CASE(a_name_that_the_server_does_not_know) {
    check(explain_tls(of_ssl(SSL_R_TLSV1_UNRECOGNIZED_NAME), {}, in_handshake()), fault::setup,
          "TLS: the server does not know the name (set sni)");
}

BOOST_AUTO_TEST_CASE(a_port_without_tls) {
    handshake_facts const silent{.begun = true};
    check(explain_tls(asio::error::timed_out, {.limit = 750ms}, silent), fault::unclear,
          "TLS: no answer to the handshake for 750 ms: a port without TLS?");
    check(explain_tls(of_ssl(SSL_R_WRONG_VERSION_NUMBER), {}, silent), fault::setup,
          "TLS: the peer does not speak TLS");
    check(explain_tls(of_ssl(SSL_R_PACKET_LENGTH_TOO_LONG), {}, silent), fault::setup,
          "TLS: the peer does not speak TLS");
}

BOOST_AUTO_TEST_CASE(a_slow_handshake) {
    check(explain_tls(asio::error::timed_out, {.limit = 750ms}, in_handshake()), fault::broken,
          "TLS: the handshake took more than 750 ms");
}

BOOST_AUTO_TEST_CASE(a_tls_port_without_tls) {
    for (auto const ec : ends) {
        check(explain_plain(ec, {.unanswered = true}, true), fault::unclear,
              "the instance closed the connection at once: does this port require TLS (rediss)?");
    }
    check(explain_plain(asio::error::eof, {.unanswered = true}, false), fault::broken,
          "the instance closed the connection");
    BOOST_TEST(looks_like_tls("\x15\x03\x01"));
    BOOST_TEST(!looks_like_tls("-ERR"));
    BOOST_TEST(!looks_like_tls("\x15"));
    check(explain_tls_port(), fault::setup, "the port answers in TLS: use rediss");
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_in_the_handshake) {
    handshake_facts const silent{.begun = true};
    for (auto const ec : ends) {
        for (auto const& facts : {silent, in_handshake()}) {
            check(explain_tls(ec, {}, facts), fault::unclear,
                  "TLS: the peer closed during the handshake");
        }
    }
}

// A server that requires a certificate sends an alert, but that may be lost.
BOOST_AUTO_TEST_CASE(a_server_that_closes_after_the_handshake) {
    auto facts = connected();
    for (auto const ec : ends) {
        check(explain_tls(ec, {.unanswered = true}, facts), fault::unclear,
              "TLS: the server closed after the handshake (does it want a client certificate?)");
    }
    facts.certified = true;
    check(explain_tls(asio::error::eof, {.unanswered = true}, facts), fault::unclear,
          "TLS: the server closed after the handshake");
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_lost) {
    for (error_code const ec :
         {error_code(asio::ssl::error::stream_truncated), error_code(asio::error::eof)}) {
        check(explain_tls(ec, {}, connected()), fault::broken,
              "the instance closed the connection");
        check(explain_plain(ec, {}, true), fault::broken, "the instance closed the connection");
    }
    check(explain_tls(asio::error::connection_reset, {}, connected()), fault::broken,
          "Connection reset by peer");
    check(explain_plain(asio::error::connection_reset, {}, true), fault::broken,
          "Connection reset by peer");
}

BOOST_AUTO_TEST_CASE(a_transport_that_is_not_connected) {
    handshake_facts const none;
    check(explain_tls(asio::error::connection_refused, {}, none), fault::broken,
          "Connection refused");
    check(explain_tls(asio::error::timed_out, {}, none), fault::broken, "Connection timed out");
    // Linux reports this error only if the peer had accepted the connection.
    check(explain_tls(asio::error::connection_reset, {}, none), fault::unclear,
          "TLS: the peer closed during the handshake");
    check(explain_plain(asio::error::connection_refused, {}, true), fault::broken,
          "Connection refused");
}

BOOST_AUTO_TEST_CASE(any_other_error_has_the_reason_of_openssl) {
    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, nullptr); // a TLS context does this too
    check(explain_tls(of_ssl(SSL_R_TLSV1_ALERT_INTERNAL_ERROR), {}, in_handshake()), fault::unclear,
          "TLS: the server ended the connection: tlsv1 alert internal error");
    check(explain_tls(of_ssl(SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC), {}, connected()),
          fault::broken, "TLS: decryption failed or bad record mac");
    // The reason has the number of an alert, but is of another library.
    auto const other = explain_tls(of_ssl(1048, ERR_LIB_X509), {}, in_handshake());
    BOOST_TEST(other.message.starts_with("TLS: error "), other.message);
    BOOST_TEST((other.fault == fault::unclear));
}

BOOST_AUTO_TEST_SUITE_END()
