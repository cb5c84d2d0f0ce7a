// A certificate, as far as a message may need it.
#ifndef HOLDFAST_REDIS_CERTIFICATE_FACTS_HPP
#define HOLDFAST_REDIS_CERTIFICATE_FACTS_HPP

#include <cstddef>
#include <openssl/types.h>
#include <string>
#include <vector>

namespace holdfast::redis {

/// All texts are printable and bounded, whatever the certificate holds.
struct certificate_facts {
    static constexpr std::size_t most_names = 4;
    static constexpr std::size_t longest_text = 128;

    std::string subject{}, issuer{};
    std::vector<std::string> names{}; ///< for which it is valid; the first of them
    std::size_t more_names = 0;
    std::string valid_from{}, valid_until{}; ///< UTC
    bool of_server = true;                   ///< else of an authority in its chain
};

certificate_facts facts_of(X509 const&, bool of_server);

} // namespace holdfast::redis

#endif
