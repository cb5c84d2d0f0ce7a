#include "redis/net/certificate_facts.hpp"

#include "redis/wire/server_info.hpp"

#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string_view>

namespace holdfast::redis {

namespace {

struct free_bio {
    void operator()(BIO* b) const { BIO_free(b); }
};
struct free_names {
    void operator()(GENERAL_NAMES* n) const { GENERAL_NAMES_free(n); }
};

/// The certificate may come from anybody.
std::string printable(std::string_view text) {
    auto shown = harmless(std::string(text.substr(0, certificate_facts::longest_text)));
    if (shown.size() < text.size()) shown += "...";
    return shown;
}

std::string text_of(X509_NAME const* name) {
    std::unique_ptr<BIO, free_bio> const out(BIO_new(BIO_s_mem()));
    if (!out || X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253) < 0) return "?";
    char* text = nullptr;
    auto const size = BIO_get_mem_data(out.get(), &text);
    return printable({text, static_cast<std::size_t>(size)});
}

std::string text_of(ASN1_TIME const* time) {
    std::tm t{};
    if (ASN1_TIME_to_tm(time, &t) != 1) return "?";
    std::array<char, 64> text{};
    auto const size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &t);
    return {text.data(), size};
}

std::string_view bytes_of(ASN1_STRING const* s) {
    return {reinterpret_cast<char const*>(ASN1_STRING_get0_data(s)),
            static_cast<std::size_t>(ASN1_STRING_length(s))};
}

template <class Address>
std::string address_of(std::string_view bytes) {
    typename Address::bytes_type raw;
    std::copy(bytes.begin(), bytes.end(), raw.begin());
    return Address(raw).to_string();
}

/// Empty if the name is of a kind that no host has.
std::string text_of(GENERAL_NAME const& name) {
    if (name.type == GEN_DNS) return printable(bytes_of(name.d.dNSName));
    if (name.type != GEN_IPADD) return {};
    auto const bytes = bytes_of(name.d.iPAddress);
    if (bytes.size() == 4) return address_of<boost::asio::ip::address_v4>(bytes);
    return bytes.size() == 16 ? address_of<boost::asio::ip::address_v6>(bytes) : "";
}

void add_name(certificate_facts& to, std::string name) {
    if (name.empty()) return;
    if (to.names.size() < certificate_facts::most_names) {
        to.names.push_back(std::move(name));
    } else {
        ++to.more_names;
    }
}

} // namespace

certificate_facts facts_of(X509 const& c, bool of_server) {
    certificate_facts f;
    f.of_server = of_server;
    f.subject = text_of(X509_get_subject_name(&c));
    f.issuer = text_of(X509_get_issuer_name(&c));
    f.valid_from = text_of(X509_get0_notBefore(&c));
    f.valid_until = text_of(X509_get0_notAfter(&c));
    std::unique_ptr<GENERAL_NAMES, free_names> const names(
        static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&c, NID_subject_alt_name, nullptr, nullptr)));
    for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i)
        add_name(f, text_of(*sk_GENERAL_NAME_value(names.get(), i)));
    if (f.names.empty()) add_name(f, f.subject); // OpenSSL then compares the common name
    return f;
}

} // namespace holdfast::redis
