#include "redis/server/reauthentication.hpp"

#include "redis/wire/server_info.hpp"

namespace holdfast::redis {

void reauthentication::start() {
    outdated_ = false;
    auto const& c = credentials_.current();
    if (c.password.empty()) return;
    unanswered_ = true;
    pending_command const command{.type = command_type::authenticate};
    if (c.user.empty()) {
        state_.commands.add(command, "AUTH", c.password);
    } else {
        state_.commands.add(command, "AUTH", c.user, c.password);
    }
}

void reauthentication::on_reply() {
    unanswered_ = false;
    if (error_.empty()) return state_.services.remove(degradation::old_credentials);
    state_.services.add(degradation::old_credentials,
                        "AUTH: " + std::string(shown_refusal(error_)));
    credentials_.refused();
}

} // namespace holdfast::redis
