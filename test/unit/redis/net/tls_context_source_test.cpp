// Contexts of TLS from files: their errors, and files that change.
#include <holdfast/error.hpp>

#include "redis/net/tls_connector.hpp"
#include "redis/net/tls_context_source.hpp"

#include "support/certificates.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"
#include "support/variable.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <openssl/ssl.h>
#include <pty.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;
namespace ssl = boost::asio::ssl;
using namespace holdfast;
using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// The files of a client.
struct files {
    files() {
        auto const mine = root.issue({});
        options.ca_file = at.write("ca", root.certificate());
        options.certificate_file = at.write("cert", mine.certificate);
        options.key_file = at.write("key", mine.key);
    }
    /// A new pair, in two steps: the certificate, and then the key.
    certified renew_certificate() const {
        auto const next = root.issue({});
        at.write("cert", next.certificate);
        return next;
    }

    authority root;
    swept_folder at;
    tls_options options;
};

/// The message with which the options are refused.
std::string refusal(tls_options const& o) {
    try {
        tls_context_source const made(o);
    } catch (system_error const& e) {
        BOOST_TEST((e.code() == errc::invalid_options));
        return e.what();
    }
    return "accepted";
}

void check_refused(tls_options const& o, std::string_view text) {
    auto const said = refusal(o);
    BOOST_TEST(said.starts_with("TLS: "), said);
    BOOST_TEST(contains(said, text), said << " has no " << text);
}

SSL_CTX* handle(tls_context_source& s) {
    return s.context()->native_handle();
}

bool has_certificate(tls_context_source& s) {
    return SSL_CTX_get0_certificate(handle(s)) != nullptr;
}

/// A terminal on which a child has said something, and the status with which the child ended.
struct terminal {
    std::string said;
    int status = -1;
};

/// Runs the body in a child that has a terminal of its own. An answer to a question there lets the
/// child go on.
template <class Body>
terminal run_at_terminal(Body body) {
    terminal t;
    int master = -1;
    auto const child = ::forkpty(&master, nullptr, nullptr, nullptr);
    BOOST_REQUIRE(child >= 0);
    if (child == 0) ::_exit(body() ? 0 : 1);
    char bytes[256];
    for (ssize_t size; (size = ::read(master, bytes, sizeof bytes)) > 0;) {
        t.said.append(bytes, static_cast<std::size_t>(size));
        [[maybe_unused]] auto const answered = ::write(master, "\n", 1);
    }
    ::close(master);
    BOOST_REQUIRE(::waitpid(child, &t.status, 0) == child);
    return t;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tls_context_source)

BOOST_AUTO_TEST_CASE(by_default_the_server_is_verified_and_the_version_is_recent) {
    files f;
    redis::tls_context_source s(f.options);
    BOOST_TEST(SSL_CTX_get_verify_mode(handle(s)) == SSL_VERIFY_PEER);
    BOOST_TEST(SSL_CTX_get_min_proto_version(handle(s)) == TLS1_2_VERSION);
    BOOST_TEST((SSL_CTX_get_options(handle(s)) & SSL_OP_NO_RENEGOTIATION) != 0U);
    BOOST_TEST(SSL_CTX_get_session_cache_mode(handle(s)) ==
               (SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL));
    BOOST_TEST(has_certificate(s));
    BOOST_TEST(s.problem() == "");
}

BOOST_AUTO_TEST_CASE(options_are_applied) {
    files f;
    f.options.min_version = tls_version::v1_3;
    f.options.verify = false;
    f.options.certificate_file = f.options.key_file = "";
    redis::tls_context_source s(f.options);
    BOOST_TEST(SSL_CTX_get_verify_mode(handle(s)) == SSL_VERIFY_NONE);
    BOOST_TEST(SSL_CTX_get_min_proto_version(handle(s)) == TLS1_3_VERSION);
    BOOST_TEST(!has_certificate(s));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_named_with_the_reason) {
    using member = std::string tls_options::*;
    std::pair<member, char const*> const all[] = {{&tls_options::ca_file, "ca"},
                                                  {&tls_options::ca_directory, "capath"},
                                                  {&tls_options::certificate_file, "cert"},
                                                  {&tls_options::key_file, "key"}};
    for (auto const& [option, name] : all) {
        files f;
        f.options.*option = f.at.path("missing");
        check_refused(f.options, std::string("cannot read ") + name + ' ' + f.at.path("missing") +
                                     ": No such file or directory");
    }
    files f;
    auto const nonsense = f.at.write("nonsense", "no PEM\n");
    auto const empty = f.at.write("empty", "");
    for (auto const& path : {nonsense, empty}) {
        auto o = f.options;
        o.ca_file = path;
        check_refused(o, "cannot read ca " + path + ": it holds no certificate in PEM");
        o = f.options;
        o.certificate_file = path;
        check_refused(o, "cannot read cert " + path + ": it holds no certificate in PEM");
        o = f.options;
        o.key_file = path;
        check_refused(o, "cannot read key " + path + ": it holds no private key in PEM");
    }
    auto o = f.options;
    o.ca_file = f.at.path("");
    check_refused(o, "it is no regular file");
    o = f.options;
    o.ca_directory = f.options.ca_file;
    check_refused(o, "it is no directory");
}

// Reading would wait for a writer.
BOOST_AUTO_TEST_CASE(a_pipe_is_no_file) {
    files f;
    auto const path = f.at.path("pipe");
    BOOST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    f.options.ca_file = path;
    check_refused(f.options, "it is no regular file");
}

BOOST_AUTO_TEST_CASE(a_key_must_be_that_of_the_certificate) {
    files f;
    auto const expected =
        "key " + f.options.key_file + " is not the key of cert " + f.options.certificate_file;
    f.at.write("key", f.root.issue({}).key);
    check_refused(f.options, expected);
    f.at.write("key", f.root.issue({.key = key_kind::rsa}).key);
    check_refused(f.options, expected);
}

BOOST_AUTO_TEST_CASE(an_encrypted_key_needs_its_password) {
    files f;
    auto const mine = f.root.issue({.key_password = "s3cr3t-XYZZY"});
    f.at.write("cert", mine.certificate);
    f.at.write("key", mine.key);
    check_refused(f.options, "it is encrypted, and no key_password is given");
    f.options.key_password = "wr0ng-XYZZY";
    check_refused(f.options, "the key_password does not decrypt it");
    BOOST_TEST(!contains(refusal(f.options), "XYZZY"));
    f.options.key_password = "s3cr3t-XYZZY";
    redis::tls_context_source s(f.options);
    BOOST_TEST(has_certificate(s));
    // OpenSSL would cut them.
    for (auto const& odd : {std::string(1024, 'x'), std::string("a\0b", 3)}) {
        f.options.key_password = odd;
        check_refused(f.options, "key_password may have up to 1023 bytes, and no NUL");
    }
}

BOOST_AUTO_TEST_CASE(an_encrypted_file_is_never_asked_about_on_the_terminal) {
    files f;
    auto const mine = f.root.issue({.key_password = "s3cr3t"});
    f.at.write("cert", mine.certificate);
    auto const encrypted_key = f.at.write("encrypted.key", mine.key);
    auto const encrypted = f.at.write("encrypted.pem", encrypted_certificate(mine, "s3cr3t"));
    auto const check_silent = [](tls_options const& o) {
        auto const t = run_at_terminal([&] { return refusal(o) != "accepted"; });
        BOOST_TEST(t.said == "");
        BOOST_TEST(t.status == 0);
    };
    auto o = f.options;
    o.key_file = encrypted_key;
    check_silent(o);
    o.key_password = "wrong";
    check_silent(o);
    o = f.options;
    o.certificate_file = encrypted;
    check_silent(o);
    o = f.options;
    o.ca_file = encrypted;
    check_silent(o);
}

BOOST_AUTO_TEST_CASE(options_that_contradict_each_other_are_refused) {
    files const f;
    auto o = f.options;
    o.key_file = "";
    check_refused(o, "cert " + o.certificate_file + " needs a key");
    o = f.options;
    o.certificate_file = "";
    check_refused(o, "key " + o.key_file + " needs a cert");
    o = {};
    o.key_password = "s3cr3t-XYZZY";
    check_refused(o, "key_password is given without a key");
    BOOST_TEST(!contains(refusal(o), "XYZZY"));
    o = {};
    o.server_name = "10.0.0.1";
    check_refused(o, "sni is 10.0.0.1");
    o.server_name = "::1";
    check_refused(o, "sni is ::1");
    for (auto const& odd : {std::string("a b"), std::string("a\0b", 3), std::string(256, 'x')}) {
        o = {};
        o.server_name = odd;
        check_refused(o, "sni is no name");
        o = {};
        o.verify_name = odd;
        check_refused(o, "verify_name is no name");
    }
    o = {};
    o.ca_file = std::string("a\0b", 3);
    check_refused(o, "a path holds a NUL");
}

BOOST_AUTO_TEST_CASE(a_context_of_the_program_is_used_as_it_is) {
    auto const given = std::make_shared<ssl::context>(ssl::context::tls_client);
    SSL_CTX_set_session_cache_mode(given->native_handle(), SSL_SESS_CACHE_OFF);
    auto const options = SSL_CTX_get_options(given->native_handle());
    tls_options o;
    o.context = given;
    o.server_name = "sent.test";
    o.verify_name = "verified.test";
    redis::tls_context_source s(o);
    BOOST_TEST(s.context() == given);
    BOOST_TEST(!s.files_changed());
    BOOST_TEST(SSL_CTX_get_options(given->native_handle()) == options);
    BOOST_TEST(SSL_CTX_get_session_cache_mode(given->native_handle()) == SSL_SESS_CACHE_OFF);

    auto const beside = [&](auto change) {
        auto with = o;
        change(with);
        check_refused(with, "a context is given; only sni and verify_name may stand beside it");
    };
    beside([](tls_options& x) { x.ca_file = "x"; });
    beside([](tls_options& x) { x.ca_directory = "x"; });
    beside([](tls_options& x) { x.certificate_file = "x"; });
    beside([](tls_options& x) { x.key_file = "x"; });
    beside([](tls_options& x) { x.key_password = "x"; });
    beside([](tls_options& x) { x.min_version = tls_version::v1_3; });
    beside([](tls_options& x) { x.verify = false; });
}

BOOST_AUTO_TEST_CASE(files_are_read_once_until_one_changes) {
    for (auto const* const name : {"ca", "cert", "key"}) {
        BOOST_TEST_CONTEXT(name) {
            files f;
            redis::tls_context_source s(f.options);
            auto const first = s.context();
            BOOST_TEST(s.context() == first);
            BOOST_TEST(!s.files_changed());
            auto const version = s.version();
            fs::copy_file(f.at.path(name), f.at.path("copy"));
            fs::rename(f.at.path("copy"), f.at.path(name)); // the same content, another inode
            BOOST_TEST(s.files_changed());
            BOOST_TEST(s.context() != first);
            BOOST_TEST(s.version() > version);
            BOOST_TEST(!s.files_changed());
            BOOST_TEST(s.context() == s.context());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_written_in_place_has_changed) {
    files f;
    redis::tls_context_source s(f.options);
    auto const first = s.context();
    auto const content = f.root.certificate() + authority().certificate();
    { // the same inode
        auto const fd = ::open(f.options.ca_file.c_str(), O_WRONLY | O_TRUNC);
        BOOST_REQUIRE(::write(fd, content.data(), content.size()) ==
                      static_cast<ssize_t>(content.size()));
        ::close(fd);
    }
    BOOST_TEST(s.files_changed());
    BOOST_TEST(s.context() != first);
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_elsewhere_has_changed) {
    files f;
    f.at.write("other", f.root.certificate());
    fs::create_symlink("ca", f.at.path("link"));
    f.options.ca_file = f.at.path("link");
    redis::tls_context_source s(f.options);
    auto const first = s.context();
    fs::create_symlink("other", f.at.path("link.new"));
    fs::rename(f.at.path("link.new"), f.at.path("link"));
    BOOST_TEST(s.context() != first);
}

BOOST_AUTO_TEST_CASE(a_directory_changes_when_a_certificate_is_added) {
    files f;
    fs::create_directory(f.at.path("authorities"));
    f.options.ca_directory = f.at.path("authorities");
    f.options.ca_file = "";
    redis::tls_context_source s(f.options);
    auto const first = s.context();
    BOOST_TEST(s.context() == first);
    f.at.write("authorities/0", f.root.certificate());
    BOOST_TEST(s.context() != first);
}

BOOST_AUTO_TEST_CASE(without_authorities_those_of_the_system_are_trusted_and_watched) {
    files f;
    variable const file("SSL_CERT_FILE", f.options.ca_file);
    variable const directory("SSL_CERT_DIR", f.at.path("none"));
    redis::tls_context_source s({});
    auto* const store = SSL_CTX_get_cert_store(handle(s));
    BOOST_TEST(sk_X509_OBJECT_num(X509_STORE_get0_objects(store)) == 1);
    auto const first = s.context();
    f.at.write("ca", authority().certificate());
    BOOST_TEST(s.files_changed());
    BOOST_TEST(s.context() != first);
}

// A tool that renews writes two files, and a connection may come between.
BOOST_AUTO_TEST_CASE(files_that_do_not_fit_leave_the_earlier_ones_in_use_and_are_told) {
    files f;
    redis::tls_context_source s(f.options);
    auto const first = s.context();
    auto const next = f.renew_certificate();
    BOOST_TEST(s.context() == first);
    BOOST_TEST(s.problem() == "key " + f.options.key_file + " is not the key of cert " +
                                  f.options.certificate_file);
    BOOST_TEST(s.context() == first);
    f.at.write("key", next.key);
    BOOST_TEST(s.context() != first);
    BOOST_TEST(s.problem() == "");
    fs::remove(f.options.ca_file);
    auto const second = s.context();
    BOOST_TEST(s.context() == second);
    BOOST_TEST(s.problem() ==
               "cannot read ca " + f.options.ca_file + ": No such file or directory");
}

// Its own version is that of the present files.
BOOST_AUTO_TEST_CASE(files_that_stay_wrong_are_read_again_and_are_no_change) {
    files f;
    redis::tls_context_source s(f.options);
    fs::remove(f.options.key_file);
    s.context();
    auto const version = s.version();
    for (int n = 0; n < 3; ++n) {
        s.context();
        BOOST_TEST(s.problem() != "");
        BOOST_TEST(s.version() == version);
        BOOST_TEST(!s.files_changed());
    }
}

BOOST_AUTO_TEST_CASE(instances_with_the_same_options_share_a_source) {
    files f;
    tls_context_sources all;
    auto const first = all.find_or_make(f.options);
    BOOST_TEST(all.find_or_make(f.options) == first);
    auto const change = [&](auto how) {
        auto o = f.options;
        how(o);
        return o;
    };
    BOOST_TEST(all.find_or_make(change([](auto& o) { o.verify_name = "x"; })) != first);
    BOOST_TEST(all.find_or_make(change([](auto& o) { o.verify = false; })) != first);
    BOOST_TEST(all.find_or_make(change([](auto& o) { o.min_version = tls_version::v1_3; })) !=
               first);
    BOOST_TEST(all.find_or_make(f.options) == first);
}

BOOST_AUTO_TEST_CASE(names_are_those_of_the_host_unless_others_are_given) {
    auto const check = [](std::string_view host, tls_options const& o, std::string_view sent,
                          std::string_view verified) {
        auto const n = names_for(host, o);
        BOOST_TEST(n.sent == sent);
        BOOST_TEST(n.verified == verified);
    };
    check("server.test", {}, "server.test", "server.test");
    check("server.test.", {}, "server.test", "server.test");
    check("10.0.0.1", {}, "", "10.0.0.1");
    check("::1", {}, "", "::1");
    check("fe80::1%eth0", {}, "", "fe80::1");
    tls_options o;
    o.server_name = "front.test.";
    check("10.0.0.1", o, "front.test", "10.0.0.1");
    o.verify_name = "back.test.";
    check("10.0.0.1", o, "front.test", "back.test");
    o.server_name = "";
    o.verify_name = "fe80::1%eth0";
    check("server.test", o, "server.test", "fe80::1");
}

BOOST_AUTO_TEST_SUITE_END()
