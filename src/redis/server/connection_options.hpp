// The settings of one connection to a server.
#ifndef HOLDFAST_REDIS_CONNECTION_OPTIONS_HPP
#define HOLDFAST_REDIS_CONNECTION_OPTIONS_HPP

#include <holdfast/address.hpp>
#include <holdfast/credentials.hpp>
#include <holdfast/options.hpp>

#include "redis/net/tls_context_source.hpp"
#include "redis/server/instance.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace holdfast::redis {

struct connection_options {
    holdfast::address address;
    std::chrono::milliseconds instance_timeout, connect_timeout, max_reconnect_delay;
    std::chrono::milliseconds max_ttl;
    restart_policy on_restart;
    bool detect_clock_jumps;
    std::size_t max_pending_releases;
    std::string name;
    std::shared_ptr<tls_context_source> tls{}; ///< null: without TLS
    /// Empty: the credentials are those of the address.
    credentials_source source{};
    /// As client_options::replicas.
    unsigned replicas = 0;
    /// The server belongs to a Cluster: all keys of a command have one hash slot.
    bool in_cluster = false;
    std::string tls_name{};            ///< of the server; empty: the host of the address
    instance_counts* counts = nullptr; ///< shared by connections; null: the connection's own
};

} // namespace holdfast::redis

#endif
