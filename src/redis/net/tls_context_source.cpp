#include "redis/net/tls_context_source.hpp"

#include <holdfast/error.hpp>

#include "redis/net/tls_observer.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdexcept>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ssl::context;

/// The message names the option.
struct unusable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The option as in a URL. The path may be long.
std::string named(char const* option, std::string const& path) {
    return std::string(option) + ' ' + path;
}

[[noreturn]] void cannot_read(char const* option, std::string const& path,
                              std::string const& reason) {
    throw unusable("cannot read " + named(option, path) + ": " + reason);
}

[[noreturn]] void cannot_read(char const* option, std::string const& path, int error) {
    cannot_read(option, path, std::generic_category().message(error));
}

/// OpenSSL's errors say less about files.
void check_file(char const* option, std::string const& path) {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) cannot_read(option, path, errno);
    if (!S_ISREG(s.st_mode)) cannot_read(option, path, "it is no regular file");
    auto const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) cannot_read(option, path, errno);
    ::close(fd);
}

void check_directory(char const* option, std::string const& path) {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) cannot_read(option, path, errno);
    if (!S_ISDIR(s.st_mode)) cannot_read(option, path, "it is no directory");
    if (::access(path.c_str(), R_OK | X_OK) != 0) cannot_read(option, path, errno);
}

bool is_error(error_code ec, int library, int reason) {
    auto const packed = static_cast<unsigned long>(static_cast<unsigned>(ec.value()));
    return ec.category() == asio::error::get_ssl_category() && ERR_GET_LIB(packed) == library &&
           ERR_GET_REASON(packed) == reason;
}

std::string reason_of(error_code ec, char const* missing) {
    if (is_error(ec, ERR_LIB_PEM, PEM_R_NO_START_LINE) ||
        is_error(ec, ERR_LIB_X509, X509_R_NO_CERTIFICATE_OR_CRL_FOUND) ||
        is_error(ec, ERR_LIB_OSSL_DECODER, ERR_R_UNSUPPORTED)) {
        return std::string("it holds no ") + missing + " in PEM";
    }
    return ec.message();
}

void trust(context& c, tls_options const& o) {
    error_code ec;
    if (!o.ca_file.empty()) {
        check_file("ca", o.ca_file);
        c.load_verify_file(o.ca_file, ec);
        if (ec) cannot_read("ca", o.ca_file, reason_of(ec, "certificate"));
    }
    if (!o.ca_directory.empty()) {
        check_directory("capath", o.ca_directory);
        c.add_verify_path(o.ca_directory, ec);
        if (ec) cannot_read("capath", o.ca_directory, ec.message());
    }
    if (o.ca_file.empty() && o.ca_directory.empty()) {
        c.set_default_verify_paths(ec);
        if (ec) throw unusable("cannot read the system's authorities: " + ec.message());
    }
}

/// Without a callback OpenSSL would ask on the terminal, and wait for the answer. It may ask for
/// any file: a certificate can be encrypted, too.
void never_ask(context& c) {
    c.set_password_callback([](std::size_t, context::password_purpose) { return std::string(); });
}

void use_key(context& c, tls_options const& o) {
    check_file("key", o.key_file);
    auto encrypted = false;
    c.set_password_callback([&](std::size_t, context::password_purpose) {
        encrypted = true;
        return o.key_password;
    });
    error_code ec;
    c.use_private_key_file(o.key_file, context::pem, ec);
    never_ask(c);
    if (is_error(ec, ERR_LIB_X509, X509_R_KEY_VALUES_MISMATCH) ||
        is_error(ec, ERR_LIB_X509, X509_R_KEY_TYPE_MISMATCH) ||
        (!ec && SSL_CTX_check_private_key(c.native_handle()) != 1)) {
        throw unusable(named("key", o.key_file) + " is not the key of " +
                       named("cert", o.certificate_file));
    }
    if (!ec) return;
    if (encrypted) {
        cannot_read("key", o.key_file,
                    o.key_password.empty() ? "it is encrypted, and no key_password is given"
                                           : "the key_password does not decrypt it");
    }
    cannot_read("key", o.key_file, reason_of(ec, "private key"));
}

std::shared_ptr<context> make_context(tls_options const& o) {
    if (o.context) return o.context;
    ERR_clear_error();
    auto made = std::make_shared<context>(context::tls_client);
    never_ask(*made);
    auto* const handle = made->native_handle();
    auto const oldest = o.min_version == tls_version::v1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    if (SSL_CTX_set_min_proto_version(handle, oldest) != 1)
        throw unusable("this system's OpenSSL does not support the minimum version");
    SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION);
    made->set_verify_mode(o.verify ? asio::ssl::verify_peer : asio::ssl::verify_none);
    if (o.verify) trust(*made, o);
    if (!o.certificate_file.empty()) {
        check_file("cert", o.certificate_file);
        error_code ec;
        made->use_certificate_chain_file(o.certificate_file, ec);
        if (ec) cannot_read("cert", o.certificate_file, reason_of(ec, "certificate"));
        use_key(*made, o);
    }
    tls_observer::allow_tickets(*made);
    ERR_clear_error(); // not for a later call of the program
    return made;
}

/// The path in a variable of OpenSSL, or the default.
std::string system_path(char const* variable, char const* usual) {
    auto const* const set = std::getenv(variable);
    return set != nullptr ? set : usual;
}

std::vector<std::string> files_of(tls_options const& o) {
    std::vector<std::string> all;
    if (o.context) return all;
    for (auto const* const path : {&o.ca_file, &o.ca_directory, &o.certificate_file, &o.key_file}) {
        if (!path->empty()) all.push_back(*path);
    }
    if (o.verify && o.ca_file.empty() && o.ca_directory.empty()) {
        all.push_back(system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file()));
        all.push_back(system_path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()));
    }
    return all;
}

bool is_address(std::string_view text) {
    error_code ec;
    asio::ip::make_address(text.substr(0, text.find('%')), ec);
    return !ec;
}

void check_name(char const* option, std::string const& name) {
    constexpr std::size_t longest = 255; // https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4
    auto const unfit = [](unsigned char c) { return c <= ' ' || c >= 0x7f; };
    if (name.size() <= longest && std::none_of(name.begin(), name.end(), unfit)) return;
    throw unusable(std::string(option) + " is no name: it may have up to " +
                   std::to_string(longest) + " printable ASCII characters without spaces");
}

void check_password(std::string const& password) {
    constexpr std::size_t longest = PEM_BUFSIZE - 1; // Asio cuts longer ones
    if (password.size() <= longest && password.find('\0') == password.npos) return;
    throw unusable("key_password may have up to " + std::to_string(longest) + " bytes, and no NUL");
}

void check(tls_options const& o) {
    check_name("sni", o.server_name);
    check_name("verify_name", o.verify_name);
    if (is_address(o.server_name))
        throw unusable("sni is " + o.server_name + "; TLS sends names, and no addresses");
    if (o.context) {
        tls_options usual;
        usual.server_name = o.server_name;
        usual.verify_name = o.verify_name;
        usual.context = o.context;
        if (!(o == usual))
            throw unusable("a context is given; only sni and verify_name may stand beside it");
    }
    if (o.certificate_file.empty() != o.key_file.empty()) {
        throw unusable(o.key_file.empty() ? named("cert", o.certificate_file) + " needs a key"
                                          : named("key", o.key_file) + " needs a cert");
    }
    if (o.key_file.empty() && !o.key_password.empty())
        throw unusable("key_password is given without a key");
    check_password(o.key_password);
    for (auto const* const path : {&o.ca_file, &o.ca_directory, &o.certificate_file, &o.key_file}) {
        if (path->find('\0') != path->npos) throw unusable("a path holds a NUL");
    }
}

} // namespace

tls_context_source::tls_context_source(tls_options options)
    : options_(std::move(options))
    , files_(files_of(options_)) {
    try {
        check(options_);
        files_.note();
        context_ = make_context(options_);
    } catch (std::bad_alloc const&) {
        throw;
    } catch (std::exception const& e) {
        throw system_error(make_error_code(errc::invalid_options), std::string("TLS: ") + e.what());
    }
}

tls_context_source::context_ptr const& tls_context_source::context() {
    auto const changed = files_.note();
    if (!changed && problem_.empty()) return context_; // as with a context of the program
    if (changed) ++version_;
    auto const again = !std::exchange(problem_, "not read").empty();
    try {
        context_ = make_context(options_);
        if (again && !changed) ++version_;
        problem_.clear();
    } catch (std::exception const& e) {
        problem_ = e.what();
    }
    return context_;
}

std::shared_ptr<tls_context_source> tls_context_sources::find_or_make(tls_options const& o) {
    auto const it = std::find_if(all_.begin(), all_.end(),
                                 [&](auto const& source) { return source->options() == o; });
    if (it != all_.end()) return *it;
    return all_.emplace_back(std::make_shared<tls_context_source>(o));
}

} // namespace holdfast::redis
