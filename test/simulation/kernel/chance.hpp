// The random choices of a schedule. They follow from its seed.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_CHANCE_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_CHANCE_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace holdfast::test {

class chance {
protected:
    explicit chance(std::uint64_t seed)
        : random_(seed) {}
    chance(chance const&) = delete;
    chance& operator=(chance const&) = delete;
    ~chance() = default;

    std::uint64_t any() { return random_(); }
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    std::int64_t between(std::int64_t a, std::int64_t b) {
        return a + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(b - a + 1)));
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    bool percent(unsigned n) { return n != 0 && below(100) < n; }
    /// A random value from 0 to `most`.
    std::int64_t some(std::int64_t most) {
        return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most) + 1));
    }
    std::int64_t some(protocol::duration most) { return some(most.count()); }
    template <class T, std::size_t N>
    T any_of(std::array<T, N> const& those) {
        return those[below(N)];
    }
    template <class Range>
    void shuffle(Range& range) {
        std::shuffle(range.begin(), range.end(), random_);
    }

private:
    std::mt19937_64 random_;
};

} // namespace holdfast::test

#endif
