#include "redis/server/reconnector.hpp"

#include <algorithm>

namespace holdfast::redis {

namespace {

constexpr std::chrono::seconds between_file_checks{1}, between_questions{5};
constexpr unsigned file_checks_for_a_question = between_questions / between_file_checks;

} // namespace

reconnector::reconnector(asio::any_io_executor const& executor, instance_owner& owner,
                         std::chrono::milliseconds max_pause)
    : owner_(owner)
    , max_pause_(max_pause)
    , policy_(max_pause)
    , timer_(executor, owner) {}

void reconnector::forget() {
    policy_ = protocol::reconnect_policy(max_pause_);
    at_ = {};
}

void reconnector::begin_pause() {
    at_ = owner_.time() + policy_.next(owner_.random_bits());
}

bool reconnector::asks_for_credentials(setup_sources sources) {
    if (!sources.credentials) return false;
    return !sources.files || ++file_checks_ % file_checks_for_a_question == 0;
}

lease_clock::duration reconnector::pause(setup_sources sources) const noexcept {
    auto const left = at_ - owner_.time();
    if (sources.files) return std::min<lease_clock::duration>(left, between_file_checks);
    if (sources.credentials) return std::min<lease_clock::duration>(left, between_questions);
    return left;
}

} // namespace holdfast::redis
