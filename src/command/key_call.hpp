// Calls on a key that are all that a command does.
#ifndef HOLDFAST_COMMAND_KEY_CALL_HPP
#define HOLDFAST_COMMAND_KEY_CALL_HPP

#include <holdfast/client.hpp>

#include "command/settings.hpp"

#include <boost/asio/io_context.hpp>

#include <string>
#include <utility>

namespace holdfast::command {

struct call_result {
    error how;
    key_report report{};
};

/// Makes one call with a client of its own, and waits for the end of the client.
template <class Call>
call_result ask(settings const& s, Call call) {
    boost::asio::io_context context(1);
    client locks(context.get_executor(), s.addresses(), s.options());
    call_result r;
    call(locks, [&](error e, key_report report) {
        r = {std::move(e), std::move(report)};
        locks.close();
    });
    context.run();
    return r;
}

/// @throws lock_error
key_report inspect_now(settings const&, std::string const& key);

/// A quorum does not have the key with the token, so nothing was `done`. Shows the key, and returns
/// the exit code.
int explain_loss(settings const&, std::string const& key, std::string const& done);

} // namespace holdfast::command

#endif
