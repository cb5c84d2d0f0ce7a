// A set of configured instances, by index.
#ifndef HOLDFAST_PROTOCOL_INSTANCE_SET_HPP
#define HOLDFAST_PROTOCOL_INSTANCE_SET_HPP

#include <bit>
#include <cstdint>

namespace holdfast::protocol {

class instance_set {
public:
    /// The greatest number of instances of a client: one bit of a word for each.
    static constexpr unsigned capacity = 32;

    constexpr instance_set() = default;

    static constexpr instance_set first(unsigned n) {
        return instance_set(n >= capacity ? ~std::uint32_t{0} : (std::uint32_t{1} << n) - 1);
    }
    static constexpr instance_set only(unsigned i) { return instance_set(std::uint32_t{1} << i); }

    constexpr bool contains(unsigned i) const { return (bits_ >> i & 1U) != 0; }
    constexpr bool empty() const { return bits_ == 0; }
    constexpr unsigned size() const { return static_cast<unsigned>(std::popcount(bits_)); }
    constexpr void insert(unsigned i) { bits_ |= std::uint32_t{1} << i; }
    constexpr void erase(unsigned i) { bits_ &= ~(std::uint32_t{1} << i); }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for (auto rest = bits_; rest != 0; rest &= rest - 1) {
            visit(static_cast<unsigned>(std::countr_zero(rest)));
        }
    }

    friend constexpr instance_set operator|(instance_set a, instance_set b) {
        return instance_set(a.bits_ | b.bits_);
    }
    friend constexpr instance_set operator&(instance_set a, instance_set b) {
        return instance_set(a.bits_ & b.bits_);
    }
    friend constexpr instance_set operator-(instance_set a, instance_set b) {
        return instance_set(a.bits_ & ~b.bits_);
    }
    friend constexpr bool operator==(instance_set, instance_set) = default;

private:
    explicit constexpr instance_set(std::uint32_t bits)
        : bits_(bits) {}

    std::uint32_t bits_ = 0;
};

} // namespace holdfast::protocol

#endif
