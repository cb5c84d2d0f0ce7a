// All that a client knows of one Sentinel deployment: its sentinels, their answers, the primary
// that they name, and whether the answers of that primary count. There are no sockets and no timers
// here.
//
// Joins sentinel_directory and promotion_guard with the texts for people. An event gives the action
// for the link to the primary.
#ifndef HOLDFAST_REDIS_SENTINEL_VIEW_HPP
#define HOLDFAST_REDIS_SENTINEL_VIEW_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>
#include <holdfast/options.hpp>

#include "protocol/messages.hpp"
#include "protocol/sentinel/promotion_guard.hpp"
#include "protocol/sentinel/sentinel_directory.hpp"
#include "redis/sentinel/sentinel_replies.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// How long the answers of a primary count after a majority of the sentinels named it (M).
inline constexpr std::chrono::milliseconds confirmation_time{2'000};

/// Numbers for the addresses of servers. A number is never given to another address.
class server_numbers {
public:
    /// More than the sentinels can name at one time.
    static constexpr std::size_t capacity = 96;

    std::uint32_t number_of(server_address const&);
    /// Null if the address was forgotten, because many others were named since.
    server_address const* find(std::uint32_t number) const;

private:
    struct entry {
        server_address address;
        std::uint32_t number = 0;
        std::uint64_t used = 0; ///< the call in which it was named last
    };

    std::vector<entry> all_;
    std::uint32_t last_ = 0;
    std::uint64_t calls_ = 0;
};

class sentinel_view {
public:
    using action = protocol::directory_action;
    using time_point = protocol::time_point;

    struct options {
        std::vector<host_port> sentinels;
        std::string primary_name;
        restart_policy on_restart{};
        std::chrono::milliseconds max_ttl{0};
    };

    /// A sentinel that is to be asked.
    struct sentinel {
        unsigned number = 0; ///< names it for as long as it is asked
        server_address address;
        /// Of a sentinel that others have listed. Empty for a configured address.
        std::optional<std::uint64_t> listed_id;
        std::optional<std::uint64_t> own_id;
        bool pending = true;              ///< neither answer nor failure since it was asked
        errc failure = errc::unreachable; ///< errc{}: it has answered
        bool announces = true;            ///< fail-overs, as far as is known
        std::string news;                 ///< its answer, or its failure, in words
    };

    explicit sentinel_view(options const&);

    //
    // Sentinels
    //

    /// First the configured ones, in their order. report() may add some and remove some that are
    /// not configured.
    std::vector<sentinel> const& sentinels() const { return sentinels_; }
    /// When to ask all sentinels the next time.
    time_point next_round() const { return directory_.next_round(); }
    void begin_round(time_point now) { directory_.begin_round(now); }
    /// This sentinel is asked now.
    void asked(unsigned number);

    /// A sentinel has answered a round of questions, which began at `begun`.
    [[nodiscard]] action report(unsigned number, sentinel_report const&, time_point begun,
                                time_point now);
    /// A sentinel has announced +switch-master to `server`.
    [[nodiscard]] action announced(server_address const& server, time_point now);
    /// A sentinel could not be connected to, the connection has ended, or it does not answer. The
    /// message holds no secret.
    void failed(unsigned number, errc, std::string_view message);

    //
    // The primary
    //

    /// The link to the primary is of no use any more.
    [[nodiscard]] action leave(protocol::leave_reason, time_point now);
    /// The primary to use. Empty while searching. Another epoch makes it another primary.
    std::optional<protocol::named_primary> const& named() const { return directory_.named(); }
    /// Its address.
    std::optional<server_address> primary() const;
    /// A time at which a majority named it already, by the sentinels' own words; now if they do not
    /// report.
    time_point named_since(time_point now) const;
    bool confirmed(time_point now) const { return directory_.confirmed(now); }
    time_point confirmed_until() const { return directory_.confirmed_until(); }
    /// True if each sentinel that was asked has answered or failed, and no primary is named.
    [[nodiscard]] bool searches_in_vain() const;

    /// Until when grants of the primary do not count, and why. The time is over if no fail-over is
    /// the reason.
    time_point quarantined_until() const { return guard_.grants_until(); }
    std::string const& quarantine_reason() const { return quarantine_reason_; }

    /// Why the answer yes to this command does not count; errc{} if it counts.
    errc objection(protocol::command, time_point now) const noexcept;
    /// An objection in words.
    static std::string_view objection_text(errc) noexcept;

    /// Why there is no primary, or why its answers do not count. The code is that of the sentinels
    /// if none answers and all fail alike.
    errc search_failure() const;
    std::string search_text() const;
    /// The sentinels that refuse to announce fail-overs, in words. Empty if none does.
    std::string refused_announcements() const;

private:
    using members = protocol::sentinel_members;

    sentinel* find(unsigned number);
    std::optional<unsigned> identify(sentinel&, sentinel_report const&);
    void learn(unsigned member, sentinel_report const&);
    void note(sentinel&, sentinel_report const&) const;
    static void fail(sentinel&, errc, std::string_view message);
    action apply(action);
    void begin_use(time_point now) noexcept;

    options const options_;
    protocol::sentinel_directory directory_;
    protocol::promotion_guard guard_;
    server_numbers numbers_;
    std::vector<sentinel> sentinels_;
    /// Since when each member has named its primary, as it says itself.
    std::array<std::optional<time_point>, members::capacity> named_since_{};
    unsigned last_number_ = 0;
    std::optional<protocol::named_primary> used_; ///< the last primary
    std::string used_text_;
    std::string quarantine_reason_;
};

} // namespace holdfast::redis

#endif
