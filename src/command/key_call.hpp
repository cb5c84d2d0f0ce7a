// Calls on a key that are all that a command does.
#ifndef HOLDFAST_COMMAND_KEY_CALL_HPP
#define HOLDFAST_COMMAND_KEY_CALL_HPP

#include <holdfast/client.hpp>

#include "command/keys.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::command {

struct call_result {
    error how;
    key_report report{};
};

/// Makes a call for each key with a client of its own, and waits for the end of the client.
template <class Call>
std::vector<call_result> ask_each(settings const& s, std::vector<std::string> const& keys,
                                  Call call) {
    boost::asio::io_context context(1);
    client locks(context.get_executor(), s.addresses(), s.options());
    std::vector<call_result> all(keys.size());
    auto missing = all.size();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        call(locks, keys[i], [&all, &missing, &locks, i](error e, key_report report) {
            all[i] = {std::move(e), std::move(report)};
            if (--missing == 0) locks.close();
        });
    }
    context.run();
    return all;
}

/// The same for a single call.
template <class Call>
call_result ask(settings const& s, Call call) {
    auto const once = [&](client& c, std::string const&, auto handler) {
        call(c, std::move(handler));
    };
    return std::move(ask_each(s, {""}, once).front());
}

/// @throws lock_error
std::vector<key_report> inspect_now(settings const&, std::vector<std::string> const& keys);

/// Of none of these keys, or not of all, a quorum has the token, so nothing was `done` with them.
/// Shows them, and returns the exit code.
int explain_loss(key_settings const&, std::vector<std::string> const& keys,
                 std::string const& done);

} // namespace holdfast::command

#endif
