// The facts of a certificate that error messages show.
#include "redis/net/certificate_facts.hpp"

#include "support/certificates.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string>

using namespace holdfast::redis;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

certificate_facts facts_of_pem(std::string const& pem, bool of_server = true) {
    std::unique_ptr<BIO, decltype(&BIO_free)> const in(
        BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
    std::unique_ptr<X509, decltype(&X509_free)> const c(
        PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr), &X509_free);
    BOOST_REQUIRE(c);
    return facts_of(*c, of_server);
}

} // namespace

BOOST_AUTO_TEST_SUITE(certificate_facts)

BOOST_AUTO_TEST_CASE(names_issuer_and_times) {
    authority const root;
    auto const f = facts_of_pem(
        root.issue({.names = "DNS:a.test,IP:10.0.0.1,IP:::1,email:x@y.test", .common_name = "me"})
            .certificate);
    BOOST_TEST(f.issuer == "CN=" + root.name());
    BOOST_TEST(f.subject == "CN=me");
    BOOST_TEST(f.names == (std::vector<std::string>{"a.test", "10.0.0.1", "::1"}),
               boost::test_tools::per_element());
    BOOST_TEST(f.more_names == 0U);
    BOOST_TEST(f.of_server);
    // The form is "2026-11-22 19:56 UTC".
    for (auto const& time : {f.valid_from, f.valid_until}) {
        BOOST_TEST(time.size() == 20U, time);
        BOOST_TEST(time.ends_with(" UTC"), time);
    }
    BOOST_TEST(f.valid_from < f.valid_until);
}

BOOST_AUTO_TEST_CASE(without_names_the_subject_counts) {
    auto const f = facts_of_pem(authority::self_signed({.common_name = "me"}).certificate, false);
    BOOST_TEST(f.names == std::vector<std::string>{"CN=me"}, boost::test_tools::per_element());
    BOOST_TEST(f.issuer == "CN=me");
    BOOST_TEST(!f.of_server);
}

BOOST_AUTO_TEST_CASE(hostile_names_are_bounded_and_printable) {
    std::string names;
    for (int n = 0; n < 1000; ++n) names += (n == 0 ? "DNS:n" : ",DNS:n") + std::to_string(n);
    auto const many = facts_of_pem(authority::self_signed({.names = names}).certificate);
    BOOST_TEST(many.names.size() == holdfast::redis::certificate_facts::most_names);
    BOOST_TEST(many.more_names == 1000 - holdfast::redis::certificate_facts::most_names);

    auto const odd =
        facts_of_pem(authority::self_signed({.names = "DNS:\x1b[2J\n" + std::string(5000, 'x'),
                                             .common_name = "a\x1b\nb"})
                         .certificate);
    for (auto const& text : {odd.names.at(0), odd.subject, odd.issuer}) {
        BOOST_TEST(text.size() <= holdfast::redis::certificate_facts::longest_text + 3);
        BOOST_TEST(std::none_of(text.begin(), text.end(),
                                [](unsigned char c) { return c < ' ' || c == 0x7f; }),
                   text);
    }
}

BOOST_AUTO_TEST_SUITE_END()
