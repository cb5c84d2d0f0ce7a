#include "support/certificates.hpp"

#include <atomic>
#include <memory>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
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
using key_ptr = std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed<X509_free>>;
using bio_ptr = std::unique_ptr<BIO, freed<BIO_free>>;

void check(bool done) {
    if (!done) throw std::runtime_error("a certificate cannot be made");
}

void add_extension(X509* to, X509* issuer, int id, std::string const& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    std::unique_ptr<X509_EXTENSION, freed<X509_EXTENSION_free>> const extension(
        X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
    check(extension && X509_add_ext(to, extension.get(), -1) == 1);
}

certificate_ptr certify(EVP_PKEY* key, char const* name, long serial, X509* issuer,
                        EVP_PKEY* issuer_key, int extension, std::string const& value) {
    certificate_ptr made(X509_new());
    auto* const c = made.get();
    check(c != nullptr && X509_set_version(c, X509_VERSION_3) == 1);
    check(ASN1_INTEGER_set(X509_get_serialNumber(c), serial) == 1);
    X509_gmtime_adj(X509_getm_notBefore(c), -24L * 60 * 60);
    X509_gmtime_adj(X509_getm_notAfter(c), 24L * 60 * 60);
    check(X509_set_pubkey(c, key) == 1);
    check(X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                                     reinterpret_cast<unsigned char const*>(name), -1, -1, 0) == 1);
    auto* const by = issuer == nullptr ? c : issuer;
    check(X509_set_issuer_name(c, X509_get_subject_name(by)) == 1);
    add_extension(c, by, extension, value);
    check(X509_sign(c, issuer_key, EVP_sha256()) != 0);
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

} // namespace

certificates make_certificates(std::string const& names) {
    key_ptr const authority_key(EVP_EC_gen("P-256")), key(EVP_EC_gen("P-256"));
    check(authority_key && key);
    // OpenSSL finds an authority by its name.
    static std::atomic<int> made = 0;
    auto const name = "authority " + std::to_string(++made);
    auto const authority = certify(authority_key.get(), name.c_str(), 1, nullptr,
                                   authority_key.get(), NID_basic_constraints, "critical,CA:TRUE");
    auto const certificate = certify(key.get(), "server of a test", 2, authority.get(),
                                     authority_key.get(), NID_subject_alt_name, names);
    return {
        pem([&](BIO* out) { return PEM_write_bio_X509(out, authority.get()); }),
        pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); }),
        pem([&](BIO* out) {
            return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        }),
    };
}

} // namespace holdfast::test
