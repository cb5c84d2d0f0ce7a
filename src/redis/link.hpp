// The line to one instance: a session that is made, probed, watched and made again, and a pipeline on it.
//
// Commands that are submitted during one turn of the event loop travel in one batch; up to two batches are in
// flight. An instance is
//   connecting  until its first connection is made or has failed: commands wait for it;
//   up          after its probe was answered as by a server that can vote;
//   suspect     when an answer is overdue: what waits for it is answered without it, until it speaks again;
//   down        when there is no connection.
// Votes are asked only while it is connecting or up; for a lock that is new, only of one that cannot have
// forgotten another (see protocol/restart_guard.hpp, clock_guard.hpp). Releases are kept until they can be sent or their key
// has expired. Not thread-safe, but for status() and counts().
#ifndef HOLDFAST_REDIS_LINK_HPP
#define HOLDFAST_REDIS_LINK_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>
#include <holdfast/options.hpp>
#include <holdfast/stats.hpp>

#include "protocol/clock_guard.hpp"
#include "protocol/messages.hpp"
#include "protocol/quarantine.hpp"
#include "protocol/restart_guard.hpp"
#include "redis/encoder.hpp"
#include "redis/exchange.hpp"
#include "redis/server_info.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

namespace asio = boost::asio;

class link_owner {
public:
    /// Something waits to be sent: call flush() before this turn of the event loop ends, or in the next.
    virtual void want_turn() = 0;
    /// Whether no other instance is known to be the server with this run id.
    virtual bool is_new_server(unsigned instance, std::string_view run_id) = 0;
    /// The server says that a key has changed that we had asked it to watch; or, by its own decision, that
    /// any of them may have.
    virtual void on_push(unsigned instance, std::string_view key) = 0;
    virtual void on_push_for_all(unsigned instance) = 0;
    /// It cannot be asked for votes on a new lock any more, or tells of no change.
    virtual void on_unavailable(unsigned instance) = 0;
    /// It is up, and what was kept for it has been submitted; or its quarantine is over.
    virtual void on_available(unsigned instance) = 0;
    /// 64 random bits, for pauses.
    virtual std::uint64_t random_bits() = 0;
    /// It has nothing more to send or to hear, or cannot be asked any more.
    virtual void on_change() = 0;

protected:
    ~link_owner() = default;
};

struct link_options {
    holdfast::address address;
    std::chrono::milliseconds instance_timeout, connect_timeout, reconnect_delay;
    std::chrono::milliseconds max_ttl;
    restart_guard on_restart;
    bool watch_clocks;
    std::size_t max_kept_releases;
    std::string name;
};

struct link_counts {
    std::atomic<std::uint64_t> commands{0}, batches{0}, releases_dropped{0};
};

class link : public std::enable_shared_from_this<link> {
public:
    link(asio::any_io_executor, unsigned instance, link_options, link_owner&);
    ~link();

    void start();
    /// Closes the session at once. What is unanswered is answered as unknown or unsent.
    void stop();
    /// Lets go of everything without a word: the execution context is being destroyed.
    void abandon() noexcept;

    /// Whether it can be asked.
    bool available() const { return state_ == instance_state::up || state_ == instance_state::connecting; }
    /// Whether it can be asked for a lock that is new. What it holds it can extend and delete all the same.
    bool may_grant() const { return available() && !quarantined(); }
    /// Whether it has a session that was probed.
    bool connected() const { return probed_; }
    /// Why it cannot.
    errc reason() const { return reason_ == errc{} && quarantined() ? errc::quarantined : reason_; }
    std::string reason_message() const;

    /// Adds the encoder's command to the batch of this turn. Its answer comes later, never from within. Only
    /// a release may be submitted to an instance that is not available: it is kept, and answered as unknown
    /// only when it had been sent.
    void submit(encoder&, exchange_ptr const&, std::uint32_t round);

    /// Sends what was submitted, if the pipeline has room.
    void flush();

    std::string_view run_id() const { return run_id_; }
    /// Of the server, the same in every process that is connected to it.
    std::uint64_t identity() const { return identity_; }
    /// Nothing is under way that could still be answered.
    bool settled() const { return !available() || (open_->entries.empty() && (sent_.empty() || !probed_)); }

    instance_status status() const;
    link_counts const& counts() const { return counts_; }

private:
    struct session;

    enum class purpose : std::uint8_t {
        lock,
        set,     ///< the first part of a contend
        caching, ///< the second
        pttl,    ///< the first part of an inspect
        type,    ///< the second
        ping,
        time,
        hello,
        select,
        tracking,
        fsync,
        info,
        load
    };

    struct entry {
        exchange_ptr who{};
        std::uint32_t round = 0;
        purpose why = purpose::lock;
        protocol::command what{};
        bool answered = false; ///< told as unknown before the reply came
        bool whole_script = false;
        bool fenced = false; ///< a grant comes with a number
    };

    struct batch {
        boost::redis::request request;
        std::vector<entry> entries;
        std::size_t next = 0;                        ///< the entry whose reply comes next
        std::size_t seen = 0;                        ///< the same, when the watch last looked
        std::chrono::steady_clock::time_point since; ///< sent, or for the open batch: first submitted
    };
    using batch_ptr = std::shared_ptr<batch>;

    struct kept_release {
        exchange_ptr who;
        lease_clock::time_point since;
    };

    using clock = std::chrono::steady_clock;

    // session
    void connect();
    void probe();
    void refuse(errc why, std::string_view message);
    void on_session_end(errc why, std::string message);
    void end_session(errc why, std::string message);
    void retry_later();
    void came_up();
    void set_state(instance_state, errc why, std::string message);

    // guards
    bool quarantined() const { return !quarantine_reason_.empty() && quarantine_.active(lease_clock::now()); }
    void ask_time();
    void begin_quarantine(std::string why);
    void end_quarantine_if_over();

    // pipeline
    void add(entry);
    void send();
    void on_reply(batch&, int type, std::string_view value);
    void on_part(batch&, std::string_view value);
    void on_replied(batch&);
    void on_lock_reply(entry&, int type, std::string_view value);
    void on_probe_reply(entry const&, int type, std::string_view value);
    answer understood(entry const&, exchange const&, int type, std::string_view value);
    void on_contended(exchange&, entry const&, int type, std::string_view pttl);
    void on_inspected(exchange&, entry const&, int type, std::string_view content);
    void resend_whole(entry);
    void recycle(batch_ptr);
    batch_ptr fresh_batch();

    // overdue answers
    void watch(clock::time_point);
    void on_watch();
    clock::duration grace(clock::duration late) const;
    void become_suspect();
    void fail_sent(errc why, std::string_view message, bool connection_lost);
    void fail_open(errc why, std::string_view message);
    void fail(entry&, protocol::verdict, errc why, std::string_view message);

    // releases
    void keep(exchange_ptr);
    void drop_expired();
    lease_clock::time_point gone_by(kept_release const&) const;
    void send_kept(bool all);

    asio::any_io_executor executor_;
    link_options const options_;
    link_owner& owner_;
    unsigned const instance_;

    instance_state state_ = instance_state::connecting;
    errc reason_ = errc::unreachable;
    std::string reason_message_;
    std::string run_id_;
    std::uint64_t identity_ = 0;
    dialect dialect_ = dialect::scripts;
    bool stopped_ = false;

    std::shared_ptr<session> session_;
    bool probed_ = false;
    bool refused_ = false;  ///< the session is about to be ended for what the server said
    unsigned failures_ = 0; ///< in a row
    asio::steady_timer reconnect_timer_;

    batch_ptr open_;
    std::deque<batch_ptr> sent_;
    std::vector<batch_ptr> spare_;
    bool tracking_ = false; ///< pushes are to be had

    protocol::restart_guard restarts_;
    protocol::clock_guard clock_;
    protocol::quarantine quarantine_;
    std::string quarantine_reason_; ///< empty when there is none
    bool logs_each_write_ = false;  ///< appendfsync is always
    lease_clock::time_point time_asked_{};
    bool asking_time_ = false;
    std::optional<std::int64_t> seconds_; ///< the first part of what TIME tells

    // What the earlier parts of a command said, until its last one comes.
    answer set_;
    bool set_unknown_ = false; ///< the script that sets was not known
    std::string message_;      ///< of the answer that is being told
    bool caching_ = false;
    std::int64_t pttl_ = -2;
    std::string type_;

    asio::steady_timer watch_timer_;
    clock::time_point watch_at_ = clock::time_point::max();
    bool quiet_ = false;       ///< nothing was sent since the last look
    bool reads_first_ = false; ///< something may be overdue

    std::deque<kept_release> kept_;
    lease_clock::time_point session_ended_{};

    link_counts counts_;
    mutable std::mutex status_mutex_;
    // Under status_mutex_:
    instance_status status_;
    std::string quarantine_text_;
};

} // namespace holdfast::redis

#endif
