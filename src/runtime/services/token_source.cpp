#include "runtime/services/token_source.hpp"

#include <holdfast/clock.hpp>

#include <atomic>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdexcept>
#include <utility>

namespace holdfast::runtime {

namespace {

/// The number of forks between the process that loaded the library and this process.
std::atomic<unsigned> forks{0};

void count_fork() {
    forks.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] int const registered = ::pthread_atfork(nullptr, nullptr, count_fork);

} // namespace

/// False if the operating system has no random numbers.
bool token_source::fill() noexcept {
    auto const forked = forks.load(std::memory_order_relaxed);
    if (used_ < pool_.size() && forks_ == forked) return true;
    // OpenSSL's generator is seeded by the operating system and notices a fork.
    if (RAND_bytes(reinterpret_cast<unsigned char*>(pool_.data()),
                   static_cast<int>(sizeof pool_)) != 1) {
        return false;
    }
    used_ = 0;
    forks_ = forked;
    return true;
}

std::uint64_t token_source::next_bits() {
    if (!fill())
        throw std::runtime_error("no random numbers are to be had from the operating system");
    return std::exchange(pool_[used_++], 0);
}

std::uint64_t token_source::pause_bits() noexcept {
    if (fill()) return std::exchange(pool_[used_++], 0);
    auto const now = lease_clock::now().time_since_epoch().count();
    return static_cast<std::uint64_t>(now) * 0x9e3779b97f4a7c15;
}

redis::token token_source::next_token() {
    auto const first = next_bits();
    return redis::token({first, next_bits()});
}

void token_source::name_client() {
    if (client_name_.empty()) client_name_ = next_token().text(label_).view();
}

} // namespace holdfast::runtime
