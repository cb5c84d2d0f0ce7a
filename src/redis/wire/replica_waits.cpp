#include "redis/wire/replica_waits.hpp"

#include "redis/wire/lock_kind.hpp"
#include "redis/wire/server_info.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace holdfast::redis {

namespace {

using state = protocol::replica_guard::state;

/// A batch has one WAIT at most, and it blocks the connection. The server rounds the time up to its
/// next tick, so that the answer comes up to 100 ms later.
std::chrono::milliseconds timeout_of_wait(std::chrono::milliseconds instance_timeout) {
    // Zero would mean for ever.
    return std::max(instance_timeout / 4, std::chrono::milliseconds(1));
}

bool is_demotion(std::string_view error) {
    return error.starts_with("UNBLOCKED") ||
           error.find("cannot be used with replica") != error.npos;
}

std::string number_of_replicas(unsigned present, unsigned needed) {
    return std::to_string(present) + " of " + std::to_string(needed) +
           (needed == 1 ? " replica" : " replicas");
}

} // namespace

static_assert(all_replicas == protocol::replica_guard::all);

replica_waits::replica_waits(unsigned wanted, std::chrono::milliseconds instance_timeout)
    : guard_(wanted)
    , timeout_(timeout_of_wait(instance_timeout)) {}

errc replica_waits::cause() const {
    switch (guard_.current()) {
    case state::votes:
        break;
    case state::few:
    case state::behind:
    case state::unlisted:
        return errc::too_few_replicas;
    case state::refused:
        return refused_;
    }
    return {};
}

void replica_waits::connected(std::optional<protocol::replica_list> const& list) {
    guard_.connected(list);
    update_reason();
}

void replica_waits::listed(std::optional<protocol::replica_list> const& list) {
    guard_.listed(list);
    update_reason();
}

void replica_waits::take_part(element const& e, secret_list const& secrets) {
    confirmed_ = 0;
    if (is_error(e.type)) return take_error(e.value, secrets);
    refused_ = {};
    demoted_ = false;
    if (e.type != reply_type::number) return;
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    confirmed_ = static_cast<unsigned>(std::clamp<std::int64_t>(number_of(e.value), 0, most));
}

void replica_waits::take_error(std::string_view error, secret_list const& secrets) {
    demoted_ = is_demotion(error);
    refused_ = demoted_ ? errc::read_only : classify(error);
    refusal_ = "WAIT: " + presentable(error, secrets);
}

void replica_waits::take_reply(unsigned asked, bool grants) {
    covered_ = false;
    if (refused_ != errc{}) {
        guard_.refuses(true);
    } else if (asked == 0) {
        guard_.refuses(false);
    } else {
        covered_ = guard_.waited(confirmed_, grants);
    }
    update_reason();
}

void replica_waits::update_reason() {
    switch (guard_.current()) {
    case state::votes:
        reason_.clear();
        break;
    case state::few:
        reason_ = number_of_replicas(guard_.present(), guard_.needed()) + " online (replicas)";
        break;
    case state::behind:
        reason_ = number_of_replicas(guard_.present(), guard_.needed()) +
                  " confirmed the last writes (replicas)";
        break;
    case state::unlisted:
        reason_ = "INFO does not list its replicas, and all must have each grant: set replicas to "
                  "their number";
        break;
    case state::refused:
        reason_ = refusal_ + "; without it no grant counts (replicas)";
        break;
    }
}

} // namespace holdfast::redis
