#include <holdfast/testing/instance.hpp>

#include "testing/listener.hpp"

#include <stdexcept>

namespace holdfast::testing {

instance::instance()
    : listener_(std::make_unique<listener>()) {}

instance::~instance() = default;
instance::instance(instance&&) noexcept = default;
instance& instance::operator=(instance&&) noexcept = default;

holdfast::address instance::address() const {
    return "127.0.0.1:" + std::to_string(listener_->port());
}

void instance::down() {
    listener_->down();
}
void instance::up() {
    listener_->up();
}
void instance::freeze() {
    listener_->freeze();
}
void instance::thaw() {
    listener_->thaw();
}
void instance::restart() {
    listener_->restart();
}

void instance::flush() {
    listener_->use([](lock_server& s) { return s.execute({"flushall"}); });
}

void instance::hold(std::string_view key, std::chrono::milliseconds ttl) {
    // As the token of a client with a label.
    constexpr std::string_view token = "somebody-else:00000000000000000000000000000000";
    auto const set = listener_->use([&](lock_server& s) {
        return s.execute(
            {"set", std::string(key), std::string(token), "px", std::to_string(ttl.count())});
    });
    if (set.is_error()) {
        throw std::invalid_argument("holdfast::testing::instance::hold: ttl " +
                                    std::to_string(ttl.count()) + " ms: " + set.text);
    }
}

bool instance::erase(std::string_view key) {
    return listener_->use([&](lock_server& s) {
                        return s.execute({"del", std::string(key)});
                    })
               .number > 0;
}

bool instance::holds(std::string_view key) const {
    return listener_->use([&](lock_server& s) {
                        return s.execute({"exists", std::string(key)});
                    })
               .number > 0;
}

std::vector<std::string> instance::keys() const {
    return listener_->use([](lock_server& s) { return s.keys(); });
}

std::vector<holdfast::address> addresses(std::span<instance const> instances) {
    std::vector<holdfast::address> all;
    all.reserve(instances.size());
    for (auto const& each : instances) all.push_back(each.address());
    return all;
}

} // namespace holdfast::testing
