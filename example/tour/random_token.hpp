// Tokens of the older ways that have them.
#ifndef HOLDFAST_TOUR_RANDOM_TOKEN_HPP
#define HOLDFAST_TOUR_RANDOM_TOKEN_HPP

#include <random>
#include <sstream>
#include <string>

namespace tour {

inline std::string random_token() {
    std::random_device random;
    std::ostringstream token;
    token << std::hex;
    for (int i = 0; i < 4; ++i) token << random();
    return token.str();
}

} // namespace tour

#endif
