// The questions to a sentinel, and its replies. There are no sockets here.
//
// Facts that the wording stands on, measured with Redis 7.0, Redis 8.0 and Valkey 9.1:
// - A connection in RESP3 may subscribe and still send commands. A successful SUBSCRIBE is answered
//   by a push alone, a refused one by an error. So PING follows SUBSCRIBE in one command of the
//   pipeline, and an error that comes before the push takes a reply more.
// - SENTINEL MASTER of an unknown name is an error. GET-MASTER-ADDR-BY-NAME gives null.
// - Valkey 9.1 knows newer names for these commands, which Redis refuses.
#ifndef HOLDFAST_REDIS_SENTINEL_REPLIES_HPP
#define HOLDFAST_REDIS_SENTINEL_REPLIES_HPP

#include <holdfast/error.hpp>

#include "redis/wire/pipeline.hpp"
#include "redis/wire/reply_reader.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

struct server_address {
    std::string host;
    std::uint16_t port = 0;

    friend bool operator==(server_address const&, server_address const&) = default;
};

struct sentinel_peer {
    std::uint64_t id = 0;
    server_address address;

    friend bool operator==(sentinel_peer const&, sentinel_peer const&) = default;
};

/// The answers of a sentinel to one round of questions.
struct sentinel_report {
    /// From SENTINEL MYID. Empty if the sentinel does not report it.
    std::optional<std::uint64_t> id;
    /// The primary and its configuration epoch. Both are empty if the sentinel does not know the
    /// name, or reported an invalid address. The address comes from GET-MASTER-ADDR-BY-NAME.
    std::optional<server_address> primary;
    std::optional<std::uint64_t> epoch;
    /// How long the sentinel has had this primary, by its wall clock. The time begins anew with a
    /// fail-over, with a restart of the sentinel, and when the server changes its role. Empty if
    /// the server says that it is no primary.
    std::optional<std::chrono::milliseconds> named_for;
    std::vector<sentinel_peer> peers;
    bool announces = true; ///< false: the sentinel refuses to announce fail-overs
    /// Not errc{}: the sentinel refused a question that is needed. `message` has its words.
    errc refused{};
    std::string message;
};

/// The id of a sentinel or of a server, from its 40 hexadecimal digits. Empty for any other text.
std::optional<std::uint64_t> parse_run_id(std::string_view);

/// Parses "name old-host old-port new-host new-port". The new address, if the message is about
/// `name`.
std::optional<server_address> parse_switch(std::string_view message, std::string_view name);

class sentinel_replies {
public:
    /// More peers than the protocol has room for (protocol/sentinel/sentinel_members.hpp), so that
    /// it notices.
    static constexpr std::size_t max_peers = 40;
    static constexpr std::size_t max_host = 255;

    /// `name`: of the primary, as the sentinels have it.
    explicit sentinel_replies(std::string name)
        : name_(std::move(name)) {}

    /// The first batch of a connection: HELLO, with AUTH if there is a password, and SUBSCRIBE. A
    /// round of questions follows it in the same batch. `connection_name`: for CLIENT LIST.
    std::unique_ptr<batch> first_questions(std::string_view user, std::string_view password,
                                           std::string_view connection_name);
    /// Adds a round of questions. The report of the round before is dropped.
    void ask(pipeline&);

    void take_part(pending_command&, element const&);
    /// A part of a push. The new address, when a complete +switch-master for this primary has come.
    std::optional<server_address> take_push(element const&);
    /// True if the last question of a round has been answered by this command.
    static bool ends_round(pending_command const&);

    sentinel_report const& report() const { return report_; }
    /// True if the sentinel will announce fail-overs.
    bool subscribed() const { return subscribed_; }

private:
    enum class step : std::uint8_t {
        hello,
        subscribe,
        id,
        epoch,
        address,
        peers, ///< the last
    };

    template <class Append>
    void round(Append const& add);
    void take_hello(element const&);
    void take_id(element const&);
    void take_epoch(element const&);
    void take_address(element const&);
    void take_peers(element const&);
    void refuse(element const&);
    void end_peer();

    std::string name_;
    sentinel_report report_;
    bool subscribed_ = false, subscription_refused_ = false;
    // The reply that is being read
    std::string field_; ///< empty: the next part is the name of a field
    server_address address_;
    std::optional<std::uint64_t> peer_id_;
    bool in_peer_ = false;
    server_address master_;   ///< to which SENTINEL MASTER refers
    bool is_primary_ = false; ///< that server says so
    // The push that is being read
    unsigned push_parts_ = 0;
    bool push_is_message_ = false, push_is_switch_ = false;
};

} // namespace holdfast::redis

#endif
