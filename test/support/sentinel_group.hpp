// A primary, its replicas and their sentinels, as processes of the test.
#pragma once

#include "support/topology.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::test {

struct sentinel_group_options {
    server_kind kind = default_server();
    std::size_t replicas = 2;
    std::size_t sentinels = 3;
    std::size_t quorum = 2;
    // Two questions of a sentinel: a busy machine that misses one causes no fail-over.
    std::chrono::milliseconds down_after = std::chrono::seconds{2};
    // After a fail-over, the next begins only twice this time after it.
    std::chrono::milliseconds failover_timeout = std::chrono::seconds{6};
    std::string primary_name = "orders";
    // replica-priority of the members, from member 0 on: a lower one is promoted first, 0 never.
    // 100 for those that are not named.
    std::vector<int> priorities = {};

    std::optional<login> user = {};          // of the data servers
    std::optional<login> sentinel_user = {}; // of the sentinels
    // Of all servers, for 127.0.0.1: make_certificates("IP:127.0.0.1"). Addresses and URLs then
    // name ports with TLS.
    std::optional<certificates> tls = {};
    bool shiftable_clocks = false; // of the data servers: member(i).shift_clock()

    // Added to the command lines: see server_options. Without them nothing is persisted.
    std::vector<std::string> data_arguments = {};
    std::vector<std::string> sentinel_arguments = {};
};

// Members are the data servers: member 0 is the first primary, the others begin as its replicas.
// The constructor returns when each sentinel knows all others and all replicas, so that a fail-over
// can begin at once. All processes end with this process, however that ends, also frozen ones.
//
// A single server is killed, frozen, restarted or moved in time by member(i) and sentinel(i). The
// servers keep a configuration file, into which Sentinel writes the roles: a restarted member comes
// back in the role that it had. Sentinels that were frozen for 2 s start no fail-over for 30 s.
//
// Thread safety: distinct objects: safe. Shared objects: unsafe.
class sentinel_group {
public:
    using milliseconds = std::chrono::milliseconds;

    // The answer of a sentinel: its primary's port, and the epoch of that configuration.
    struct named {
        std::uint16_t port = 0;
        std::int64_t epoch = 0;
        friend bool operator==(named const&, named const&) = default;
    };

    explicit sentinel_group(sentinel_group_options options = {});

    [[nodiscard]] std::size_t members() const noexcept { return members_.size(); }
    [[nodiscard]] std::size_t sentinels() const noexcept { return sentinels_.size(); }
    [[nodiscard]] server& member(std::size_t i) { return *members_.at(i); }
    [[nodiscard]] server& sentinel(std::size_t i) { return *sentinels_.at(i); }
    [[nodiscard]] sentinel_group_options const& options() const noexcept { return options_; }

    // For clients under test.
    // redis+sentinel://user:password@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/name?sentinel_user=..
    [[nodiscard]] std::string url() const;
    // The same of some sentinels alone.
    [[nodiscard]] std::string url(std::vector<std::size_t> const& of_sentinels) const;
    [[nodiscard]] std::uint16_t port(std::size_t of_member) const; // as Sentinel names it
    [[nodiscard]] std::uint16_t sentinel_port(std::size_t i) const;
    [[nodiscard]] std::string ca_file() const; // empty without TLS

    // The witness, by the ports without TLS and with all rights. Sentinel closes connections of
    // members whose role changes.
    [[nodiscard]] redis_cli cli(std::size_t of_member) const;
    [[nodiscard]] redis_cli sentinel_cli(std::size_t i) const;

    // The answer of one sentinel; nothing when it does not run, is frozen, or does not answer.
    [[nodiscard]] std::optional<named> named_by(std::size_t sentinel);
    // The answer that more than half of all sentinels give.
    [[nodiscard]] std::optional<named> majority();
    // The member that a majority names. Throws std::runtime_error when there is no majority.
    [[nodiscard]] std::size_t primary();
    [[nodiscard]] std::size_t member_at(std::uint16_t port) const; // as Sentinel names it
    // "master" or "slave", by the member's own word.
    [[nodiscard]] std::string role(std::size_t of_member) const;

    // Until a majority names another port than `before`, or a higher epoch. Take majority() before
    // the fault.
    named wait_for_switch(named const& before, milliseconds timeout = std::chrono::seconds{60});
    // Until the primary that a majority names is one, all other members that run are its replicas
    // and in sync, and all sentinels that run agree and see that. Frozen servers do not count.
    void wait_until_settled(milliseconds timeout = std::chrono::seconds{40});

    // SENTINEL FAILOVER: returns when the sentinel has begun. Two primaries accept writes for about
    // 11 s.
    void begin_failover(std::size_t by_sentinel = 0);
    // The same without two primaries; valkey 9.1 alone. Elsewhere this throws cli_error.
    void begin_coordinated_failover(std::size_t by_sentinel = 0);

    // Cuts the replication of a member off its present primary, which refuses it from then on. The
    // server goes on, and answers clients and sentinels.
    void cut_replication(std::size_t of_member);
    void restore_replication(std::size_t of_member);

    // replica-priority. Returns when all sentinels that run know it, which may take 10 s.
    void set_priority(std::size_t of_member, int priority);

    // Kills the member and starts it again without its data; an RDB file of its last
    // synchronisation goes too.
    void restart_empty(std::size_t member);

private:
    [[nodiscard]] server_options data_options(std::size_t i) const;
    [[nodiscard]] server_options sentinel_options(std::size_t i) const;
    [[nodiscard]] bool usable(server& s) const;
    void wait_for_replicas();
    void introduce_sentinels();
    [[nodiscard]] bool sentinel_knows_all(std::size_t i);
    [[nodiscard]] bool settled();
    [[nodiscard]] std::string state();

    sentinel_group_options options_;
    std::optional<topology::tls_setup> tls_;
    std::vector<std::string> sentinel_ids_;
    std::vector<std::unique_ptr<server>> members_;
    std::vector<std::unique_ptr<server>> sentinels_;
    std::vector<redis_cli> sentinel_clis_; // for questions
};

} // namespace holdfast::test
