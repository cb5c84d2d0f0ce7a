#include "redis/net/connection_failure.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string_view>

namespace holdfast::redis {

namespace {

namespace asio = boost::asio;
using protocol::fault;

bool is_end(error_code ec) {
    return ec == asio::error::eof || ec == asio::ssl::error::stream_truncated;
}

bool is_break(error_code ec) {
    return is_end(ec) || ec == asio::error::connection_reset || ec == asio::error::broken_pipe;
}

std::string text_of(error_code ec) {
    return is_end(ec) ? "the instance closed the connection" : ec.message();
}

connection_failure tls_failure(fault r, std::string const& text) {
    return {.message = "TLS: " + text, .fault = r};
}

//
// The server's certificate
//

std::string names_of(certificate_facts const& c) {
    if (c.names.empty()) return "no name";
    std::string all;
    for (auto const& name : c.names) all += (all.empty() ? "" : ", ") + name;
    if (c.more_names != 0) all += ", " + std::to_string(c.more_names) + " more";
    return all;
}

std::string certificate_of(certificate_facts const& c) {
    return c.of_server ? "the certificate" : "the certificate of \"" + c.subject + "\"";
}

std::string explain_refusal(handshake_facts const& f) {
    auto const& c = f.refused;
    switch (f.verify_result) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "the certificate is self-signed (give it as ca)";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return "issuer \"" + c.issuer +
               "\" is not trusted (set ca; does the server send its chain?)";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return certificate_of(c) + " expired on " + c.valid_until;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return certificate_of(c) + " is valid from " + c.valid_from;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "the certificate is for " + names_of(c) + " and not for " + f.name +
               " (set verify_name)";
    case X509_V_ERR_UNSPECIFIED:
        return "a check of the program refused the certificate";
    default:
        return certificate_of(c) + " is refused: " + X509_verify_cert_error_string(f.verify_result);
    }
}

//
// Alerts of the server
//

/// The reason for which the server rejects the client's certificate, if the alert says so.
char const* rejection_of(int reason) {
    switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "unknown CA";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "expired";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return "revoked";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        return "bad certificate";
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        return "unsupported certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        return "unknown certificate";
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return "access denied";
    default:
        return nullptr;
    }
}

char const* hint_at_certificate(handshake_facts const& f) {
    return f.certified ? "" : " (does it want a client certificate?)";
}

std::string reason_text(unsigned long packed) {
    auto const* const text = ERR_reason_error_string(packed);
    return text != nullptr ? text : "error " + std::to_string(packed);
}

connection_failure explain_ssl(unsigned long packed, handshake_facts const& f) {
    auto const reason = ERR_GET_REASON(packed);
    if (ERR_GET_LIB(packed) != ERR_LIB_SSL)
        return tls_failure(f.over ? fault::broken : fault::unclear, reason_text(packed));
    if (auto const* const rejection = rejection_of(reason)) {
        return tls_failure(fault::setup,
                           std::string("the server rejects our certificate: ") + rejection);
    }
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return tls_failure(fault::setup, explain_refusal(f));
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return tls_failure(fault::setup,
                           "the server requires a client certificate (set cert, key)");
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return tls_failure(fault::setup, std::string("the server refused the handshake") +
                                             hint_at_certificate(f));
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        return tls_failure(fault::setup, f.min_version == tls_version::v1_3
                                             ? "the server does not accept TLS 1.3"
                                             : "the server accepts neither TLS 1.2 nor 1.3");
    case SSL_R_TLSV1_UNRECOGNIZED_NAME:
        return tls_failure(fault::setup, "the server does not know the name (set sni)");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        if (!f.over) return tls_failure(fault::setup, "the peer does not speak TLS");
        break;
    default:
        break;
    }
    // Later errors come from a broken line rather than from a setting.
    auto const r = f.over ? fault::broken : fault::unclear;
    // Alerts have one byte. Local errors of OpenSSL may have greater numbers.
    auto const is_alert = reason >= SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255;
    return tls_failure(r,
                       (is_alert ? "the server ended the connection: " : "") + reason_text(packed));
}

} // namespace

connection_failure explain_plain(error_code ec, failure_moment at, bool over_network) {
    if (over_network && at.unanswered && is_break(ec)) {
        return {.message = "the instance closed the connection at once: does this port require "
                           "TLS (rediss)?",
                .fault = fault::unclear};
    }
    return {.message = text_of(ec)};
}

connection_failure explain_tls(error_code ec, failure_moment at, handshake_facts const& f) {
    if (ec.category() == asio::error::get_ssl_category())
        return explain_ssl(static_cast<unsigned>(ec.value()), f);
    auto const limit = std::to_string(at.limit.count()) + " ms";
    if (f.begun && !f.over && ec == asio::error::timed_out) {
        if (f.answered) return tls_failure(fault::broken, "the handshake took more than " + limit);
        return tls_failure(fault::unclear,
                           "no answer to the handshake for " + limit + ": a port without TLS?");
    }
    if (!f.over && is_break(ec))
        return tls_failure(fault::unclear, "the peer closed during the handshake");
    // The alert was lost on its way.
    if (f.over && at.unanswered && is_break(ec)) {
        return tls_failure(fault::unclear, std::string("the server closed after the handshake") +
                                               hint_at_certificate(f));
    }
    return {.message = text_of(ec)};
}

// https://www.rfc-editor.org/rfc/rfc8446#section-5.1: the type of the record (here an alert), and
// a version that begins with 3.
bool looks_like_tls(std::string_view first_bytes) {
    return first_bytes.starts_with("\x15\x03");
}

connection_failure explain_tls_port() {
    return {.message = "the port answers in TLS: use rediss", .fault = fault::setup};
}

} // namespace holdfast::redis
