#include "redis/link.hpp"

#include "protocol/backoff.hpp"
#include "protocol/fence.hpp"
#include "protocol/rules.hpp"
#include "redis/token.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/hash2/fnv1a.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/ignore.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace holdfast::redis {

namespace {

using resp3 = boost::redis::resp3::type;
using boost::redis::any_adapter;
using boost::redis::resp3::node_view;

// One in the server, one on its way: more would only wait there.
constexpr std::size_t max_batches_in_flight = 2;
// A suspect gets this many timeouts to come back before its connection is given up.
constexpr int timeouts_until_reconnect = 4;
// A look that finds nothing sent since the last one asks for something.
constexpr std::chrono::milliseconds look_interval{1'250};
constexpr std::chrono::seconds clock_interval{1};
// Before an answer is called overdue, what has come meanwhile is read.
constexpr std::chrono::milliseconds reading_time{1};
constexpr std::chrono::milliseconds first_reconnect_delay{20};
// More than a batch's replies or an INFO need; a server that announces more is none.
constexpr std::size_t max_read_size = 16 * 1024 * 1024;
constexpr std::size_t read_chunk = 16 * 1024;

// In milliseconds, a hundred years or so: what does not fit our clock is no use to know.
constexpr std::int64_t longest_ttl = 3'000'000'000'000;

bool is_error(int type) {
    return type == static_cast<int>(resp3::simple_error) || type == static_cast<int>(resp3::blob_error);
}

bool is_null(int type) {
    return type == static_cast<int>(resp3::null);
}

std::int64_t to_number(std::string_view text) {
    std::int64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}

// Errors of Boost.Redis, timeouts aside, are complaints about what the server sent.
errc code_for(boost::system::error_code ec) {
    using boost::redis::error;
    static auto const& of_redis = make_error_code(error::invalid_data_type).category();
    auto const timeout = ec == error::connect_timeout || ec == error::resolve_timeout;
    return ec.category() == of_redis && !timeout ? errc::not_redis : errc::unreachable;
}

std::string message_for(boost::system::error_code ec) {
    return ec == asio::error::eof ? "the instance closed the connection" : ec.message();
}

/// What PTTL says; as for a key that has gone where it says nothing.
std::int64_t to_ttl(int type, std::string_view value) {
    return type == static_cast<int>(resp3::number) ? std::min(to_number(value), longest_ttl) : -2;
}

bool is_unknown_script(int type, std::string_view value) {
    return is_error(type) && value.starts_with("NOSCRIPT");
}

/// OK or null from SET, 1 or 0 from a script or a native delete; nothing for what is neither.
std::optional<bool> truth(int type, std::string_view value) {
    if (is_null(type)) return false;
    if (type == static_cast<int>(resp3::simple_string)) {
        if (value.size() == 2 && value[0] == 'O' && value[1] == 'K') return true;
    } else if (type == static_cast<int>(resp3::number) && value.size() == 1) {
        if (value[0] == '1') return true;
        if (value[0] == '0') return false;
    }
    return std::nullopt;
}

} // namespace

// A connection and what is under way on it. It outlives its link's interest in it until Boost.Redis is done.
struct link::session : std::enable_shared_from_this<session> {
    using connection = boost::redis::basic_connection<asio::any_io_executor>;

    session(asio::any_io_executor const& executor, link& l)
        : connection_(executor, boost::redis::logger{boost::redis::logger::level::disabled})
        , link_(&l) {}

    void run(link_options const& options) {
        boost::redis::config config;
        if (options.address.socket_path().empty()) {
            config.addr.host = options.address.host();
            config.addr.port = std::to_string(options.address.port());
        } else {
            config.unix_socket = options.address.socket_path();
        }
        // Our probe says HELLO, to see the answer; our own watch tells overdue replies from slow ones; and a
        // lost connection must be seen, not papered over.
        config.use_setup = true;
        config.setup.clear();
        config.health_check_interval = std::chrono::seconds::zero();
        config.reconnect_wait_interval = std::chrono::seconds::zero();
        config.resolve_timeout = options.connect_timeout;
        config.connect_timeout = options.connect_timeout;
        config.max_read_size = max_read_size;
        config.read_buffer_append_size = read_chunk;
        connection_.async_run(config, [self = shared_from_this()](boost::system::error_code ec) {
            self->connection_.cancel(boost::redis::operation::exec);
            if (self->link_ == nullptr) return;
            self->link_->on_session_end(code_for(ec), message_for(ec));
        });
        listen();
        receive_pushes();
    }

    // https://redis.io/docs/latest/develop/reference/client-side-caching/: a push of "invalidate" and an
    // array of keys, or null for all. Heard as it is parsed, so in its place among the replies.
    void listen() {
        any_adapter heard([this, invalidation = false](any_adapter::parse_event event, node_view const& node,
                                                       boost::system::error_code&) mutable {
            if (event == any_adapter::parse_event::init) invalidation = false;
            if (event != any_adapter::parse_event::node || link_ == nullptr) return;
            if (node.depth == 1 && !invalidation) {
                invalidation = node.value == "invalidate";
            } else if (node.depth == 1 && invalidation && is_null(static_cast<int>(node.data_type))) {
                link_->owner_.on_push_for_all(link_->instance_);
            } else if (node.depth == 2 && invalidation) {
                link_->owner_.on_push(link_->instance_, node.value);
            }
        });
        connection_.set_receive_response(heard);
    }

    // An unread push would block the reader, and with it every reply.
    void receive_pushes() {
        connection_.async_receive2([self = shared_from_this()](boost::system::error_code ec) {
            if (!ec && self->link_ != nullptr) self->receive_pushes();
        });
    }

    // Small batches must not wait for the acknowledgement of the one before.
    void set_no_delay() {
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
        auto& socket = connection_.next_layer().next_layer();
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
        boost::system::error_code ignored;
        if (socket.is_open()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    }

    void execute(batch_ptr owned) {
        auto& b = *owned;
        any_adapter::impl_t adapter = [this, &b](any_adapter::parse_event event, node_view const& node,
                                                 boost::system::error_code&) {
            if (link_ == nullptr) return;
            if (event == any_adapter::parse_event::done) {
                link_->on_replied(b);
            } else if (event == any_adapter::parse_event::node && node.depth == 0) {
                link_->on_reply(b, static_cast<int>(node.data_type), node.value);
            } else if (event == any_adapter::parse_event::node && node.depth == 1) {
                link_->on_part(b, node.value);
            }
        };
        connection_.async_exec(b.request, any_adapter(std::move(adapter)),
                               [self = shared_from_this(),
                                owned = std::move(owned)](boost::system::error_code, std::size_t) mutable {
                                   if (self->link_ == nullptr) return;
                                   if (owned->next == owned->entries.size()) {
                                       self->link_->recycle(std::move(owned));
                                   } else {
                                       // Lost with the connection, of which the link hears in a moment: it
                                       // still has to tell.
                                       self->stranded_.push_back(std::move(owned));
                                   }
                               });
    }

    void abandon() {
        link_ = nullptr;
        connection_.cancel(boost::redis::operation::all);
    }

    connection connection_;
    link* link_;
    std::vector<batch_ptr> stranded_;
};

link::link(asio::any_io_executor executor, unsigned instance, link_options options, link_owner& owner)
    : executor_(executor)
    , options_(std::move(options))
    , owner_(owner)
    , instance_(instance)
    , reconnect_timer_(executor)
    , open_(std::make_shared<batch>())
    , restarts_(options_.on_restart != restart_guard::off, options_.on_restart == restart_guard::strict)
    , clock_(options_.max_ttl)
    , watch_timer_(executor) {
    status_.address = options_.address.to_string();
}

link::~link() {
    abandon();
}

void link::start() {
    connect();
    watch(clock::now() + std::min<clock::duration>(options_.instance_timeout, look_interval));
}

void link::stop() {
    if (std::exchange(stopped_, true)) return;
    reconnect_timer_.cancel();
    watch_timer_.cancel();
    end_session(errc::shut_down, "the client was shut down");
    kept_.clear();
}

void link::abandon() noexcept {
    stopped_ = true;
    for (auto const& b : sent_) b->entries.clear();
    sent_.clear();
    open_->entries.clear();
    kept_.clear();
    if (auto const s = std::exchange(session_, nullptr)) {
        s->link_ = nullptr;
        s->stranded_.clear();
    }
}

//
// Session
//

void link::connect() {
    probed_ = false;
    refused_ = false;
    tracking_ = false;
    asking_time_ = false;
    session_ = std::make_shared<session>(executor_, *this);
    session_->run(options_);
    probe();
}

void link::probe() {
    auto b = fresh_batch();
    auto const& a = options_.address;
    auto const ask = [&](purpose why, auto const&... words) {
        b->request.push(words...);
        b->entries.push_back({.why = why});
    };
    if (a.password().empty()) {
        ask(purpose::hello, "HELLO", 3, "SETNAME", options_.name);
    } else {
        std::string_view const user = a.user().empty() ? "default" : std::string_view(a.user());
        ask(purpose::hello, "HELLO", 3, "AUTH", user, a.password(), "SETNAME", options_.name);
    }
    if (a.database() != 0) ask(purpose::select, "SELECT", a.database());
    // Only what is asked for is tracked, as the scripts read too; and not what we change ourselves.
    ask(purpose::tracking, "CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP");
    ask(purpose::load, "SCRIPT", "LOAD", release_script);
    ask(purpose::load, "SCRIPT", "LOAD", extend_script);
    ask(purpose::load, "SCRIPT", "LOAD", fenced_acquire_script);
    ask(purpose::load, "SCRIPT", "LOAD", raise_script);
    // Who may not ask is taken to be told no.
    logs_each_write_ = false;
    ask(purpose::fsync, "CONFIG", "GET", "appendfsync");
    if (options_.watch_clocks) {
        ask(purpose::time, "TIME");
        time_asked_ = lease_clock::now();
        asking_time_ = true;
    }
    ask(purpose::info, "INFO");
    // The connection may take its time, and after that the answer.
    b->since = clock::now() + 2 * options_.connect_timeout; // to resolve, and to connect
    sent_.push_back(b);
    session_->execute(std::move(b));
}

void link::on_session_end(errc why, std::string message) {
    end_session(why, std::move(message));
    retry_later();
}

void link::end_session(errc why, std::string message) {
    if (!session_) return;
    if (probed_) session_ended_ = lease_clock::now();
    auto const ended = std::exchange(session_, nullptr); // holds the batches until they have been told of
    ended->abandon();
    probed_ = false;
    set_state(instance_state::down, why, std::move(message));
    auto const text = reason_message_;
    fail_sent(why, text, true);
    fail_open(why, text);
}

void link::retry_later() {
    if (stopped_) return;
    drop_expired();
    auto const pause = protocol::full_jitter(first_reconnect_delay, options_.reconnect_delay, failures_,
                                             owner_.random_bits());
    ++failures_;
    reconnect_timer_.expires_after(pause);
    reconnect_timer_.async_wait([weak = weak_from_this()](boost::system::error_code ec) {
        auto const self = weak.lock();
        if (!ec && self && !self->stopped_ && !self->session_) self->connect();
    });
}

void link::came_up() {
    probed_ = true;
    failures_ = 0;
    session_->set_no_delay();
    set_state(instance_state::up, errc{}, {});
    send_kept(false);
    owner_.on_available(instance_);
    if (!open_->entries.empty()) owner_.want_turn();
}

void link::set_state(instance_state state, errc why, std::string message) {
    auto const first = state == instance_state::up && state_ != instance_state::suspect;
    state_ = state;
    reason_ = why;
    reason_message_ = presentable(message, options_.address.password());
    {
        std::lock_guard const lock(status_mutex_);
        status_.state = state;
        status_.reason = why == errc{} ? boost::system::error_code{} : make_error_code(why);
        status_.message = reason_message_;
        if (first) ++status_.connections;
    }
    owner_.on_change();
    if (state != instance_state::up) owner_.on_unavailable(instance_);
}

instance_status link::status() const {
    std::lock_guard const lock(status_mutex_);
    auto s = status_;
    if (s.state == instance_state::up && s.quarantined_until > lease_clock::now()) {
        s.state = instance_state::quarantined;
        s.reason = make_error_code(errc::quarantined);
        s.message = quarantine_text_;
    }
    return s;
}

std::string link::reason_message() const {
    return reason_ == errc{} && quarantined() ? quarantine_reason_ : reason_message_;
}

//
// Guards
//

// Its own question and not one with each batch: a second is short beside a lease.
void link::ask_time() {
    open_->request.push("TIME");
    add({.why = purpose::time});
    // Before it is sent, so that the interval in which the server read its clock is not taken too small.
    time_asked_ = lease_clock::now();
    asking_time_ = true;
}

void link::begin_quarantine(std::string why) {
    quarantine_.begin(lease_clock::now(), options_.max_ttl);
    quarantine_reason_ = std::move(why) + "; its votes do not count for max_ttl, " +
                         std::to_string(options_.max_ttl.count()) + " ms";
    {
        std::lock_guard const lock(status_mutex_);
        status_.quarantined_until = quarantine_.until();
        quarantine_text_ = quarantine_reason_;
    }
    if (probed_) owner_.on_unavailable(instance_);
    reads_first_ = false;
    if (!stopped_) watch(clock::now()); // looks at when it ends
}

void link::end_quarantine_if_over() {
    if (quarantine_reason_.empty() || quarantined()) return;
    quarantine_reason_.clear();
    {
        std::lock_guard const lock(status_mutex_);
        status_.quarantined_until = {};
    }
    if (probed_ && available()) owner_.on_available(instance_);
}

//
// Pipeline
//

link::batch_ptr link::fresh_batch() {
    if (spare_.empty()) return std::make_shared<batch>();
    auto b = std::move(spare_.back());
    spare_.pop_back();
    return b;
}

void link::recycle(batch_ptr b) {
    // What grew in a burst is not kept for ever.
    constexpr std::size_t keep_at_most = 4;
    constexpr std::size_t largest_kept = 4 * 1024;
    if (spare_.size() >= keep_at_most || b->entries.capacity() > largest_kept) return;
    b->request.clear();
    b->entries.clear();
    b->next = 0;
    b->seen = 0;
    spare_.push_back(std::move(b));
}

void link::add(entry e) {
    if (open_->entries.empty()) {
        open_->since = clock::now();
        auto const due = open_->since + options_.instance_timeout;
        if (state_ == instance_state::connecting && due < watch_at_) watch(due);
        owner_.want_turn();
    }
    open_->entries.push_back(std::move(e));
}

void link::submit(encoder& encoded, exchange_ptr const& who, std::uint32_t round) {
    auto const what = encoded.what();
    auto const fenced = encoded.fenced();
    if (!available()) {
        if (what == protocol::command::release) keep(who);
        return;
    }
    // Before it, so that the time is known before its answer counts.
    if (options_.watch_clocks && probed_ && !asking_time_ && open_->entries.empty() &&
        lease_clock::now() - time_asked_ >= clock_interval) {
        ask_time();
    }
    if (what == protocol::command::contend) {
        add({.who = who, .why = purpose::set, .what = what, .fenced = fenced});
        if (tracking_) add({.why = purpose::caching});
        add({.who = who, .round = round, .what = what, .fenced = fenced});
        return encode_contend(open_->request, who->about(what), tracking_);
    }
    if (what == protocol::command::inspect) {
        add({.why = purpose::pttl});
        add({.why = purpose::type});
    }
    add({.who = who, .round = round, .what = what, .fenced = fenced});
    open_->request.append(encoded.in(dialect_));
}

void link::flush() {
    if (!probed_ || state_ != instance_state::up || open_->entries.empty()) return;
    if (sent_.size() < max_batches_in_flight) send();
}

void link::send() {
    auto b = std::exchange(open_, fresh_batch());
    b->since = clock::now();
    quiet_ = false;
    counts_.commands.fetch_add(b->entries.size(), std::memory_order_relaxed);
    counts_.batches.fetch_add(1, std::memory_order_relaxed);
    sent_.push_back(b);
    auto const due = sent_.front()->since + options_.instance_timeout;
    if (due < watch_at_ && !reads_first_) watch(due);
    session_->execute(std::move(b));
}

void link::on_reply(batch& b, int type, std::string_view value) {
    if (b.next >= b.entries.size()) return;
    auto& e = b.entries[b.next];
    if (state_ == instance_state::suspect && probed_) {
        set_state(instance_state::up, errc{}, {});
        // All of them: what the instance is late with may be the very keys that they are about.
        send_kept(true);
        owner_.on_available(instance_);
    }
    switch (e.why) {
    case purpose::lock:
        on_lock_reply(e, type, value);
        break;
    case purpose::set:
        caching_ = false;
        set_unknown_ = is_unknown_script(type, value);
        if (auto const who = std::move(e.who); who && !set_unknown_) set_ = understood(e, *who, type, value);
        break;
    case purpose::caching:
        caching_ = !is_error(type);
        break;
    case purpose::pttl:
        pttl_ = to_ttl(type, value);
        break;
    case purpose::type:
        type_ = value;
        break;
    case purpose::ping:
        break;
    case purpose::tracking:
        tracking_ = !is_error(type);
        break;
    case purpose::fsync:
        break;
    case purpose::time:
        seconds_.reset();
        break;
    case purpose::hello:
    case purpose::select:
    case purpose::info:
    case purpose::load:
        on_probe_reply(e, type, value);
        break;
    }
}

// Of a reply that has parts.
void link::on_part(batch& b, std::string_view value) {
    if (b.next >= b.entries.size()) return;
    auto const why = b.entries[b.next].why;
    if (why == purpose::fsync) {
        logs_each_write_ = value == "always"; // the name of the setting comes first
    } else if (why == purpose::time && !seconds_) {
        seconds_ = to_number(value);
    } else if (why == purpose::time) {
        using namespace std::chrono;
        auto const rest = to_number(value);
        // What is no time is no news.
        if (*seconds_ < 0 || *seconds_ > longest_ttl / 1000 || rest < 0 || rest >= 1'000'000) return;
        auto const shown = seconds(*seconds_) + microseconds(rest);
        auto const jumped = clock_.told(time_asked_, lease_clock::now(), shown);
        if (jumped == protocol::duration::zero()) return;
        begin_quarantine("its clock has jumped ahead by " +
                         std::to_string(duration_cast<milliseconds>(jumped).count()) + " ms (watch_clocks)");
    }
}

void link::on_replied(batch& b) {
    if (b.next < b.entries.size() && b.entries[b.next].why == purpose::time) asking_time_ = false;
    if (++b.next < b.entries.size() || sent_.empty() || sent_.front().get() != &b) return;
    sent_.pop_front();
    if (!open_->entries.empty()) {
        owner_.want_turn();
    } else if (sent_.empty()) {
        owner_.on_change();
    }
}

void link::on_lock_reply(entry& e, int type, std::string_view value) {
    if (!e.who) return;
    auto const unknown = e.what == protocol::command::contend ? std::exchange(set_unknown_, false)
                                                              : is_unknown_script(type, value);
    if (unknown && !e.whole_script) return resend_whole(std::move(e));
    auto const who = std::move(e.who);
    if (e.answered) {
        // A release that came late may have ended what we had asked to be told of.
        auto const deleted = e.what == protocol::command::release && truth(type, value) == true;
        if (deleted) owner_.on_push(instance_, who->about(e.what).key);
        return;
    }
    switch (e.what) {
    case protocol::command::contend:
        return on_contended(*who, e, type, value);
    case protocol::command::inspect:
        return on_inspected(*who, e, type, value);
    case protocol::command::acquire:
    case protocol::command::raise:
    case protocol::command::extend:
    case protocol::command::release:
    case protocol::command::heal:
        return who->on_answer(instance_, e.what, e.round, understood(e, *who, type, value));
    }
}

/// What the reply to a command that changes a key means. Its message is kept until the next.
answer link::understood(entry const& e, exchange const& who, int type, std::string_view value) {
    using protocol::command;
    using protocol::verdict;
    auto const acquires = e.what == command::acquire || e.what == command::contend;
    auto const sets = acquires || e.what == command::heal;
    auto const number = e.fenced && sets && type == static_cast<int>(resp3::number) ? to_number(value) : 0;
    auto const numbered = number > 0 && protocol::is_fence_count(static_cast<std::uint64_t>(number));
    auto done = truth(type, value);
    if (e.fenced && sets && done != false) done = numbered ? std::optional(true) : std::nullopt;
    if (done) {
        // It may have forgotten whose the key was. Ours it is now, and so it is given back.
        if (*done && (acquires || e.what == command::raise) && quarantined()) {
            message_ = quarantine_reason_;
            return {.verdict = verdict::unknown, .why = errc::quarantined, .message = message_};
        }
        return {.verdict = *done ? verdict::yes : verdict::no, .number = static_cast<std::uint64_t>(number)};
    }
    if (!is_error(type)) {
        std::string_view const message = "an answer that fits no command of ours";
        refuse(errc::not_redis, message);
        return {.verdict = verdict::unknown, .why = errc::not_redis, .message = message};
    }
    auto const why = classify(value);
    // Somebody has put something else in our key's place.
    if (why == errc::wrong_type && !acquires && e.what != command::raise) return {.verdict = verdict::no};
    message_ = presentable(presentable(value, options_.address.password()), who.about(e.what).token);
    // It has become a replica since its probe: the next one will say when it is a primary again.
    if (why == errc::read_only) refuse(why, message_);
    // A script may have come as far as the key.
    return {
        .verdict = e.fenced && sets ? verdict::unknown : verdict::refused, .why = why, .message = message_};
}

void link::on_contended(exchange& who, entry const& e, int type, std::string_view pttl) {
    auto a = set_;
    if (auto const left = to_ttl(type, pttl); left >= -1) {
        a.ttl_known = true;
        if (left >= 0) a.ttl_left = std::chrono::milliseconds(left);
    }
    a.told = caching_ && !is_error(type);
    who.on_answer(instance_, e.what, e.round, a);
}

void link::on_inspected(exchange& who, entry const& e, int type, std::string_view content) {
    using protocol::verdict;
    // A lock is a string; "none" means that it has just gone.
    if (type_ == "string" || type_ == "none") {
        answer a{.verdict = verdict::yes, .ttl_known = type_ == "string" && pttl_ >= -1};
        if (pttl_ >= 0) a.ttl_left = std::chrono::milliseconds(pttl_);
        if (!is_error(type)) a.holder = label_of(content);
        return who.on_answer(instance_, e.what, e.round, a);
    }
    auto const what = presentable(presentable(type_, options_.address.password()), who.about(e.what).token);
    message_ = "the key holds a " + what + ", not a lock";
    who.on_answer(instance_, e.what, e.round,
                  {.verdict = verdict::refused, .why = errc::wrong_type, .message = message_});
}

void link::resend_whole(entry e) {
    using protocol::command;
    auto const who = e.who;
    // What sets the key must not come after the release that was to take it back.
    if (!who->still_wants(e.what)) {
        if (e.answered) return;
        return who->on_answer(instance_, e.what, e.round, {.verdict = protocol::verdict::unsent});
    }
    e.whole_script = true;
    if (e.what == command::contend) {
        add({.who = who, .why = purpose::set, .what = e.what, .whole_script = true, .fenced = e.fenced});
        if (tracking_) add({.why = purpose::caching});
        encode_contend(open_->request, who->about(e.what), tracking_, true);
    } else {
        encode(open_->request, e.what, dialect_, who->about(e.what), true);
    }
    add(std::move(e));
}

// Ends the session for what the server said, though not from within the parser's call.
void link::refuse(errc why, std::string_view message) {
    if (std::exchange(refused_, true)) return;
    asio::post(executor_, [s = session_, why, text = std::string(message)]() mutable {
        if (s->link_ != nullptr) s->link_->on_session_end(why, std::move(text));
    });
}

void link::on_probe_reply(entry const& e, int type, std::string_view value) {
    if (refused_) return;
    if (is_error(type)) {
        // Without HELLO there is no RESP3: Redis before 6, or something that only resembles it.
        auto const too_old = e.why == purpose::hello && value.starts_with("ERR unknown command");
        return refuse(too_old ? errc::not_redis : classify(value), value);
    }
    if (e.why != purpose::info) return;
    auto const info = parse_info(value);
    if (!info) return refuse(errc::not_redis, "INFO is not answered as by Redis or Valkey");
    if (info->replica) return refuse(errc::read_only, "the instance is a replica");
    if (!owner_.is_new_server(instance_, info->run_id)) {
        return refuse(errc::duplicate_instance, "another configured address leads to the same server");
    }
    run_id_ = info->run_id;
    boost::hash2::fnv1a_64 hash;
    hash.update(run_id_.data(), run_id_.size());
    identity_ = hash.result();
    dialect_ = info->speaks();
    {
        std::lock_guard const lock(status_mutex_);
        status_.server = info->product + ' ' + info->version;
    }
    if (restarts_.connected(identity_, info->logs_writes && logs_each_write_)) {
        begin_quarantine("up for " + std::to_string(info->uptime) +
                         " s, without each write on disk: it may have forgotten locks (on_restart)");
    }
    came_up();
}

//
// Overdue answers
//

void link::watch(clock::time_point when) {
    watch_at_ = when;
    watch_timer_.expires_at(when);
    watch_timer_.async_wait([weak = weak_from_this()](boost::system::error_code ec) {
        auto const self = weak.lock();
        if (!ec && self && !self->stopped_) self->on_watch();
    });
}

// For how long something that seems overdue is waited for after all. A look that comes late comes from a process
// that was stopped, or a thread that was busy: then the question itself may have left only now.
auto link::grace(clock::duration late) const -> clock::duration {
    if (late <= reading_time) return reading_time;
    return std::clamp<clock::duration>(late, options_.instance_timeout / 8 + reading_time,
                                       options_.instance_timeout + reading_time);
}

void link::on_watch() {
    auto const now = clock::now();
    auto const timeout = options_.instance_timeout;
    auto const has_read = std::exchange(reads_first_, false);
    auto next = now + look_interval;
    end_quarantine_if_over();
    if (quarantined()) {
        auto const left = quarantine_.until() - lease_clock::now();
        next = std::min(next, now + std::chrono::duration_cast<clock::duration>(left) + clock::duration(1));
    }
    if (!sent_.empty() && sent_.front()->next != sent_.front()->seen) {
        // A long batch is not overdue for as long as its replies keep coming.
        sent_.front()->seen = sent_.front()->next;
        sent_.front()->since = std::max(sent_.front()->since, now);
    }
    if (!sent_.empty()) {
        auto const overdue = now - sent_.front()->since;
        if (overdue >= timeout && !has_read) {
            reads_first_ = true;
            return watch(now + grace(now - watch_at_));
        }
        if (overdue >= timeout && !probed_) {
            end_session(errc::timed_out, "connected, but the probe was not answered in time");
            retry_later();
        } else if (overdue >= timeout * timeouts_until_reconnect) {
            end_session(errc::timed_out, "no answer for so long that the connection was given up");
            retry_later();
        } else if (overdue >= timeout) {
            if (state_ == instance_state::up) become_suspect();
            next = std::min(next, sent_.front()->since + timeout * timeouts_until_reconnect);
        } else {
            next = std::min(next, sent_.front()->since + timeout);
        }
    } else if (probed_ && quiet_ && options_.watch_clocks && !asking_time_) {
        ask_time(); // as good as a ping
    } else if (probed_ && quiet_) {
        open_->request.push("PING");
        add({.why = purpose::ping});
    }
    if (state_ == instance_state::connecting && !open_->entries.empty()) {
        if (now - open_->since >= timeout) {
            fail_open(errc::timed_out, "not connected yet");
            owner_.on_change();
        }
        // Also what was submitted just now, by those who were told.
        if (!open_->entries.empty()) next = std::min(next, open_->since + timeout);
    }
    quiet_ = true;
    watch(next);
}

void link::become_suspect() {
    set_state(instance_state::suspect, errc::timed_out, "an answer is overdue");
    fail_sent(errc::timed_out, "no answer in time", false);
    fail_open(errc::timed_out, "an earlier answer is overdue");
}

void link::fail_sent(errc why, std::string_view message, bool connection_lost) {
    // While the connection lasts the replies may still come, so the entries stay; the releases among them
    // have been sent and will be carried out in their order.
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        auto& b = *sent_[i];
        for (auto n = b.next; n < b.entries.size(); ++n) {
            auto& e = b.entries[n];
            if (!e.who) continue;
            if (e.why == purpose::lock) {
                auto const who = e.who;
                fail(e, protocol::verdict::unknown, why, message);
                if (connection_lost && e.what == protocol::command::release) keep(who);
            }
            if (connection_lost || e.what != protocol::command::release) e.who.reset();
        }
    }
    if (connection_lost) sent_.clear();
}

void link::fail_open(errc why, std::string_view message) {
    if (open_->entries.empty()) return;
    auto failed = std::exchange(open_, fresh_batch());
    for (auto& e : failed->entries) {
        if (e.why == purpose::time) asking_time_ = false;
        if (!e.who || e.why != purpose::lock) continue;
        auto const who = e.who;
        fail(e, protocol::verdict::unsent, why, message);
        if (e.what == protocol::command::release) keep(who);
    }
    recycle(std::move(failed));
}

void link::fail(entry& e, protocol::verdict v, errc why, std::string_view message) {
    if (std::exchange(e.answered, true)) return;
    auto const who = e.who;
    who->on_answer(instance_, e.what, e.round, {.verdict = v, .why = why, .message = message});
}

//
// Releases for an instance that cannot be reached
//

void link::keep(exchange_ptr who) {
    if (stopped_) return;
    if (kept_.size() >= options_.max_kept_releases) {
        kept_.pop_front();
        counts_.releases_dropped.fetch_add(1, std::memory_order_relaxed);
    }
    kept_.push_back({std::move(who), lease_clock::now()});
    std::lock_guard const lock(status_mutex_);
    status_.kept_releases = kept_.size();
}

void link::drop_expired() {
    auto const now = lease_clock::now();
    std::erase_if(kept_, [&](kept_release const& k) { return gone_by(k) <= now; });
    std::lock_guard const lock(status_mutex_);
    status_.kept_releases = kept_.size();
}

// When the instance no longer has the key by itself: what was sent to it has been carried out before the
// session ended, or never will be.
lease_clock::time_point link::gone_by(kept_release const& k) const {
    auto const ttl = k.who->about(protocol::command::release).ttl;
    return std::max(k.since, session_ended_) + ttl + protocol::redlock_rules::drift(ttl);
}

void link::send_kept(bool all) {
    auto const now = lease_clock::now();
    for (auto& k : std::exchange(kept_, {})) {
        if (!all && gone_by(k) <= now) continue;
        encode(open_->request, protocol::command::release, dialect_,
               k.who->about(protocol::command::release));
        entry e{.who = std::move(k.who), .what = protocol::command::release};
        // Its round was answered when it was kept.
        e.answered = true;
        add(std::move(e));
    }
    std::lock_guard const lock(status_mutex_);
    status_.kept_releases = 0;
}

} // namespace holdfast::redis
