#ifndef HOLDFAST_CREDENTIALS_HPP
#define HOLDFAST_CREDENTIALS_HPP

#include <holdfast/detail/boost_version.hpp>

#include <boost/system/error_code.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace holdfast {

/// A user of an instance, and the password. Any bytes.
struct credentials {
    /// Empty: the default user.
    std::string user{};
    /// Empty: the client does not authenticate. From a credentials_source that is a failure.
    std::string password{};
    /// The end of a password that expires, as the tokens of cloud services do. The client asks its
    /// credentials_source for the next one before that time, and authenticates again on the open
    /// connection.
    std::chrono::system_clock::time_point valid_until =
        (std::chrono::system_clock::time_point::max)();
};

/// Takes the credentials, or an error, from a credentials_source. To be called once, on any
/// thread, also within the call of the source. The client ignores further calls, and calls after
/// its end.
using credentials_reply = std::function<void(boost::system::error_code, credentials)>;

/// Provides the credentials of an instance, one request at a time.
///
/// The client calls it on its executor:
/// - before each connection: up to once a second, or once in client_options::max_reconnect_delay,
///   while the instance is down;
/// - every 5 s at most while the instance refuses the present credentials; it connects at once with
///   others;
/// - before `valid_until` of the present ones: at a random time from two leads to one and a half
///   before that. The lead is 3 minutes, or a fifth of the lifetime if that is shorter. Never more
///   than once a second.
///
/// The source must return at once; a source that needs time replies later. An error, an exception,
/// an empty password, and no reply within client_options::connect_timeout are failures. After a
/// failure, and after credentials that the server refused, an open connection keeps its user, and
/// the client asks again after 1 s, then after twice as long each time, up to 30 s. instances()
/// shows degradation::old_credentials meanwhile. A new connection uses the credentials from before;
/// the first one has none, and waits.
using credentials_source = std::function<void(credentials_reply)>;

} // namespace holdfast

#endif
