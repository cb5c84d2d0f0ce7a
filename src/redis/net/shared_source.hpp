// One source of credentials for all connections of an instance.
#ifndef HOLDFAST_REDIS_SHARED_SOURCE_HPP
#define HOLDFAST_REDIS_SHARED_SOURCE_HPP

#include <holdfast/clock.hpp>
#include <holdfast/credentials.hpp>

#include <chrono>
#include <functional>

namespace holdfast::redis {

/// Each node of a Cluster has a connection, which asks for credentials by itself. The result asks
/// `source` once for all that ask at a time, and not again within a second after its reply: they
/// get the same reply. If `source` has not replied after `timeout`, the next call asks it again.
///
/// @par Thread safety  Call the result on the executor of the client only. The reply of `source`
/// comes on any thread.
credentials_source share(credentials_source source, std::chrono::milliseconds timeout,
                         std::function<lease_clock::time_point()> now = lease_clock::now);

} // namespace holdfast::redis

#endif
