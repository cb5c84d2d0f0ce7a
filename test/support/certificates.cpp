#include "support/certificates.hpp"

#include <atomic>
#include <cstdio>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdexcept>

namespace holdfast::test {

namespace {

template <auto Free>
struct freed {
    template <class T>
    void operator()(T* object) const {
        Free(object);
    }
};
using certificate_ptr = std::unique_ptr<X509, freed<X509_free>>;
using bio_ptr = std::unique_ptr<BIO, freed<BIO_free>>;
using key_ptr = std::shared_ptr<EVP_PKEY>;

void check(bool done) {
    if (!done) throw std::runtime_error("a certificate cannot be made");
}

key_ptr make_key(key_kind kind) {
    auto* const made = kind == key_kind::ec ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048U);
    check(made != nullptr);
    return {made, freed<EVP_PKEY_free>()};
}

void add_extension(X509* to, X509* issuer, int id, std::string const& value) {
    if (value.empty()) return;
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    std::unique_ptr<X509_EXTENSION, freed<X509_EXTENSION_free>> const extension(
        X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
    check(extension && X509_add_ext(to, extension.get(), -1) == 1);
}

// The signer of a certificate. Null means that the certificate signs itself.
struct signer {
    X509* certificate = nullptr;
    EVP_PKEY* key = nullptr;
};

certificate_ptr certify(EVP_PKEY* key, certificate_options const& options, signer by,
                        bool is_authority) {
    static std::atomic<long> serial = 0;
    certificate_ptr made(X509_new());
    auto* const c = made.get();
    check(c != nullptr && X509_set_version(c, X509_VERSION_3) == 1);
    check(ASN1_INTEGER_set(X509_get_serialNumber(c), ++serial) == 1);
    X509_gmtime_adj(X509_getm_notBefore(c), std::chrono::seconds(options.from).count());
    X509_gmtime_adj(X509_getm_notAfter(c), std::chrono::seconds(options.until).count());
    check(X509_set_pubkey(c, key) == 1);
    check(X509_NAME_add_entry_by_txt(
              X509_get_subject_name(c), "CN", MBSTRING_ASC,
              reinterpret_cast<unsigned char const*>(options.common_name.c_str()), -1, -1, 0) == 1);
    auto* const issuer = by.certificate == nullptr ? c : by.certificate;
    check(X509_set_issuer_name(c, X509_get_subject_name(issuer)) == 1);
    if (is_authority) add_extension(c, issuer, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(c, issuer, NID_subject_alt_name, options.names);
    add_extension(c, issuer, NID_ext_key_usage, options.usage);
    check(X509_sign(c, by.key == nullptr ? key : by.key, EVP_sha256()) != 0);
    return made;
}

template <class Write>
std::string pem(Write write) {
    bio_ptr const out(BIO_new(BIO_s_mem()));
    check(out && write(out.get()) == 1);
    char* text = nullptr;
    auto const size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
    return pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

std::string pem_of(EVP_PKEY* key, std::string const& password) {
    return pem([&](BIO* out) {
        if (password.empty())
            return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
        return PEM_write_bio_PKCS8PrivateKey(out, key, EVP_aes_256_cbc(), password.data(),
                                             static_cast<int>(password.size()), nullptr, nullptr);
    });
}

std::string next_name() {
    static std::atomic<int> made = 0;
    return "authority " + std::to_string(++made);
}

} // namespace

authority::authority(std::chrono::hours until)
    : name_(next_name())
    , key_(make_key(key_kind::ec))
    , certificate_(certify(key_.get(), {.common_name = name_, .until = until}, {}, true).release(),
                   freed<X509_free>()) {}

authority::authority(authority const& by)
    : name_(next_name())
    , key_(make_key(key_kind::ec))
    , certificate_(
          certify(key_.get(), {.common_name = name_}, {by.certificate_.get(), by.key_.get()}, true)
              .release(),
          freed<X509_free>())
    , chain_(pem_of(certificate_.get()) + by.chain_) {}

std::string authority::certificate() const {
    return pem_of(certificate_.get());
}

certified authority::issue(certificate_options const& options) const {
    auto const key = make_key(options.key);
    auto const made = certify(key.get(), options, {certificate_.get(), key_.get()}, false);
    return {pem_of(made.get()) + chain_, pem_of(key.get(), options.key_password)};
}

certified authority::self_signed(certificate_options const& options) {
    auto const key = make_key(options.key);
    auto const made = certify(key.get(), options, {}, false);
    return {pem_of(made.get()), pem_of(key.get(), options.key_password)};
}

std::string authority::file_name() const {
    char text[16];
    std::snprintf(text, sizeof text, "%08lx.0", X509_subject_name_hash(certificate_.get()));
    return text;
}

std::string encrypted_certificate(certified const& c, std::string const& password) {
    bio_ptr const in(BIO_new_mem_buf(c.certificate.data(), static_cast<int>(c.certificate.size())));
    certificate_ptr const read(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    check(read != nullptr);
    return pem([&](BIO* out) {
        return PEM_ASN1_write_bio(reinterpret_cast<i2d_of_void*>(i2d_X509), PEM_STRING_X509, out,
                                  read.get(), EVP_aes_256_cbc(),
                                  reinterpret_cast<unsigned char const*>(password.data()),
                                  static_cast<int>(password.size()), nullptr, nullptr);
    });
}

certificates make_certificates(std::string const& names) {
    authority const root;
    auto const made = root.issue({.names = names});
    return {root.certificate(), made.certificate, made.key};
}

} // namespace holdfast::test
