#include "support/proxy.hpp"

#include "support/io_thread.hpp"
#include "support/net.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <list>

namespace holdfast::test {

using std::chrono::steady_clock;

namespace {

// Their confirmations are pushes (RESP3) or one reply per channel (RESP2): not one reply per
// command.
bool answered_by_pushes(command_line const& words) {
    std::string name = words.front();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    constexpr std::array family{"SUBSCRIBE",   "PSUBSCRIBE",   "SSUBSCRIBE",
                                "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"};
    return std::find(family.begin(), family.end(), name) != family.end();
}

} // namespace

class proxy::engine {
public:
    explicit engine(std::uint16_t server_port)
        : server_port_{server_port}
        , listener_{net::listen_on(port_)} {
        thread_.start([this](std::vector<pollfd>& polled) { return prepare(polled); },
                      [this](pollfd const* polled) { handle(polled); });
    }

    ~engine() { thread_.stop(); }
    engine(engine const&) = delete;
    engine& operator=(engine const&) = delete;

    [[nodiscard]] net::reserved_port const& port() const noexcept { return port_; }

    // Runs a change and its consequences in the thread. The interceptor may ask for changes as
    // well.
    template <class Change>
    void change(Change apply) {
        thread_.run([&] {
            apply(*this);
            settle();
        });
    }

    void cut(cut_kind kind) {
        for (connection& conn : connections_) conn.cut = kind;
    }

    void stop_listening() { listener_.reset(); }
    void listen() {
        if (!listener_) listener_ = net::listen_on(port_);
    }

    // Settings: the thread's.
    bool holding_requests = false;
    bool holding_replies = false;
    milliseconds delay{0};
    bool swallowing_pushes = false;
    std::optional<milliseconds> idle_limit;
    std::optional<std::size_t> replies_until_cut;
    interceptor intercepting;

    std::atomic<std::size_t> accepted = 0;
    std::atomic<std::size_t> connected = 0;
    std::atomic<std::size_t> commands_forwarded = 0;
    std::atomic<std::size_t> replies_forwarded = 0;
    std::atomic<std::size_t> pushes_forwarded = 0;
    std::atomic<std::size_t> commands_held = 0;
    std::atomic<std::size_t> replies_held = 0;

private:
    enum class origin {
        reply,
        push,
        interceptor,
        unknown // bytes that are not RESP
    };
    struct request {
        command_line words; // empty: bytes that are not RESP
        std::string bytes;
    };
    struct answer {
        origin from;
        std::string bytes;
        steady_clock::time_point due;
    };
    struct connection {
        net::unique_fd client;
        net::unique_fd server;
        std::string from_client = {}; // the incomplete rest
        std::deque<request> requests = {};
        std::string to_server = {};
        // The answers that are outstanding, in order: an answer of the interceptor, or nothing
        // for the server's next reply.
        std::deque<std::optional<std::string>> unanswered = {};
        std::string from_server = {}; // the incomplete rest
        std::deque<answer> answers = {};
        std::string to_client = {};
        bool client_gone = false;
        bool server_gone = false;
        std::optional<cut_kind> cut = {};
        bool closing = false; // when `to_client` is written
        steady_clock::time_point used = steady_clock::now();
    };

    int prepare(std::vector<pollfd>& polled) {
        auto const now = steady_clock::now();
        milliseconds timeout{-1};
        polled.push_back({listener_.get(), POLLIN, 0});
        for (connection const& conn : connections_) {
            auto const events = [](std::string const& out) {
                return static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT);
            };
            polled.push_back(
                {conn.client_gone ? -1 : conn.client.get(), events(conn.to_client), 0});
            polled.push_back(
                {conn.server_gone ? -1 : conn.server.get(), events(conn.to_server), 0});
            auto const wake_at = [&](steady_clock::time_point when) {
                auto const left =
                    std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(when - now));
                timeout = timeout.count() < 0 ? left : std::min(timeout, left);
            };
            if (idle_limit) wake_at(conn.used + *idle_limit);
            if (!holding_replies && !conn.answers.empty()) wake_at(conn.answers.front().due);
        }
        return static_cast<int>(timeout.count());
    }

    void handle(pollfd const* polled) {
        bool const incoming = (polled++)->revents != 0;
        for (connection& conn : connections_) {
            short const client = (polled++)->revents;
            short const server = (polled++)->revents;
            if (client != 0 && !read_some(conn.client, conn.from_client)) conn.client_gone = true;
            if (server != 0 && !read_some(conn.server, conn.from_server)) conn.server_gone = true;
            auto const now = steady_clock::now();
            if (client != 0 || server != 0) conn.used = now;
            if (idle_limit && now - conn.used >= *idle_limit) conn.cut = cut_kind::end;
        }
        if (incoming) accept_all();
        settle();
    }

    void accept_all() {
        while (net::unique_fd client = net::accept_from(listener_)) {
            ++accepted;
            net::unique_fd server = net::connect_to_port(server_port_);
            if (server)
                connections_.push_back({std::move(client), std::move(server)});
            else
                net::close_with_reset(client);
        }
    }

    // Does everything that can happen now.
    void settle() {
        settle_again_ = true;
        if (settling_) return; // the interceptor has changed something
        settling_ = true;
        while (std::exchange(settle_again_, false)) {
            for (connection& conn : connections_) {
                take_requests(conn);
                pass_on_requests(conn);
                take_answers(conn);
                pass_on_answers(conn);
            }
            if (replies_until_cut == std::size_t{0}) {
                replies_until_cut.reset();
                for (connection& conn : connections_) conn.closing = true;
            }
            for (connection& conn : connections_) write_out(conn);
            connections_.remove_if(finished);
        }
        settling_ = false;
        update_counts();
    }

    static void write_out(connection& conn) {
        if (conn.cut == cut_kind::reset) {
            net::close_with_reset(conn.client);
            net::close_with_reset(conn.server);
        }
        if (conn.cut) return;
        if (!conn.server_gone && !write_some(conn.server, conn.to_server)) conn.server_gone = true;
        if (!conn.client_gone && !write_some(conn.client, conn.to_client)) conn.client_gone = true;
        if (conn.server_gone) conn.to_server.clear();
        if (conn.client_gone) conn.to_client.clear();
    }

    void update_counts() {
        std::size_t commands = 0;
        std::size_t replies = 0;
        for (connection const& conn : connections_) {
            commands += conn.requests.size();
            replies += static_cast<std::size_t>(
                std::count_if(conn.answers.begin(), conn.answers.end(),
                              [](answer const& a) { return a.from == origin::reply; }));
        }
        commands_held = commands;
        replies_held = replies;
        connected = connections_.size();
    }

    static bool finished(connection const& conn) {
        if (conn.cut) return true;
        if (conn.closing) return conn.to_client.empty();
        // Bytes that one side sent before it closed still reach the other.
        if (conn.client_gone &&
            (conn.server_gone || (conn.requests.empty() && conn.to_server.empty())))
            return true;
        return conn.server_gone && conn.answers.empty() && conn.to_client.empty();
    }

    static void take_requests(connection& conn) {
        std::string_view rest = conn.from_client;
        try {
            for (;;) {
                const std::string_view before = rest;
                std::optional<command_line> words = resp::take_command(rest);
                if (!words) break;
                conn.requests.push_back({std::move(*words), std::string{before.substr(
                                                                0, before.size() - rest.size())}});
            }
        } catch (resp::malformed const&) {
            conn.requests.push_back({{}, std::string{rest}});
            rest = {};
        }
        conn.from_client.erase(0, conn.from_client.size() - rest.size());
    }

    void pass_on_requests(connection& conn) {
        while (!holding_requests && !conn.requests.empty()) {
            const request next = std::move(conn.requests.front());
            conn.requests.pop_front();
            if (!next.words.empty()) {
                std::optional<std::string> intercepted;
                if (intercepting)
                    intercepted = interceptor{intercepting}(next.words); // it may replace itself
                if (intercepted) {
                    conn.unanswered.push_back(std::move(intercepted));
                    pay_intercepted(conn);
                    continue;
                }
                if (!answered_by_pushes(next.words)) conn.unanswered.push_back(std::nullopt);
                ++commands_forwarded;
            }
            conn.to_server += next.bytes;
        }
    }

    void take_answers(connection& conn) {
        std::string_view rest = conn.from_server;
        try {
            for (;;) {
                const std::string_view before = rest;
                const std::optional<reply> incoming = resp::take_reply(rest);
                if (!incoming) break;
                add_answer(conn, incoming->push ? origin::push : origin::reply,
                           std::string{before.substr(0, before.size() - rest.size())});
                if (!incoming->push && !conn.unanswered.empty()) conn.unanswered.pop_front();
                pay_intercepted(conn);
            }
        } catch (resp::malformed const&) {
            add_answer(conn, origin::unknown, std::string{rest});
            rest = {};
        }
        conn.from_server.erase(0, conn.from_server.size() - rest.size());
        if (conn.server_gone && !conn.from_server.empty()) // half a reply is all that will come
            add_answer(conn, origin::unknown, std::exchange(conn.from_server, {}));
    }

    void pay_intercepted(connection& conn) {
        for (; !conn.unanswered.empty() && conn.unanswered.front(); conn.unanswered.pop_front())
            add_answer(conn, origin::interceptor, std::move(*conn.unanswered.front()));
    }

    void add_answer(connection& conn, origin from, std::string bytes) const {
        conn.answers.push_back({from, std::move(bytes), steady_clock::now() + delay});
    }

    void pass_on_answers(connection& conn) {
        auto const now = steady_clock::now();
        while (!holding_replies && !conn.answers.empty() && conn.answers.front().due <= now) {
            answer const& next = conn.answers.front();
            if (next.from == origin::reply) {
                if (replies_until_cut && *replies_until_cut == 0) return;
                if (replies_until_cut) --*replies_until_cut;
                ++replies_forwarded;
            } else if (next.from == origin::push && swallowing_pushes) {
                conn.answers.pop_front();
                continue;
            } else if (next.from == origin::push) {
                ++pushes_forwarded;
            }
            conn.to_client += next.bytes;
            conn.answers.pop_front();
        }
    }

    const std::uint16_t server_port_;
    const net::reserved_port port_;
    net::unique_fd listener_;
    std::list<connection> connections_;
    bool settling_ = false;
    bool settle_again_ = false;
    io_thread thread_;
};

proxy::proxy(std::uint16_t server_port)
    : engine_{std::make_unique<engine>(server_port)} {}
proxy::proxy(server const& to)
    : proxy{to.port()} {}
proxy::~proxy() = default;

std::uint16_t proxy::port() const noexcept {
    return engine_->port().number();
}
std::string proxy::address() const {
    return engine_->port().address();
}

void proxy::hold_requests() {
    engine_->change([](engine& e) { e.holding_requests = true; });
}

void proxy::hold_replies() {
    engine_->change([](engine& e) { e.holding_replies = true; });
}

void proxy::resume() {
    engine_->change([](engine& e) { e.holding_requests = e.holding_replies = false; });
}

void proxy::cut(cut_kind kind) {
    engine_->change([kind](engine& e) { e.cut(kind); });
}

void proxy::cut_after_replies(std::size_t count) {
    engine_->change([count](engine& e) { e.replies_until_cut = count; });
}

void proxy::down() {
    engine_->change([](engine& e) {
        e.stop_listening();
        e.cut(cut_kind::end);
    });
}

void proxy::up() {
    engine_->change([](engine& e) { e.listen(); });
}

void proxy::delay_replies(milliseconds delay) {
    engine_->change([delay](engine& e) { e.delay = delay; });
}

void proxy::swallow_pushes(bool swallows) {
    engine_->change([swallows](engine& e) { e.swallowing_pushes = swallows; });
}

void proxy::close_idle(milliseconds after) {
    engine_->change([after](engine& e) { e.idle_limit = after; });
}

void proxy::intercept(interceptor answers) {
    engine_->change([&answers](engine& e) { e.intercepting = std::move(answers); });
}

std::size_t proxy::accepted() const noexcept {
    return engine_->accepted;
}
std::size_t proxy::connected() const noexcept {
    return engine_->connected;
}
std::size_t proxy::commands_forwarded() const noexcept {
    return engine_->commands_forwarded;
}
std::size_t proxy::replies_forwarded() const noexcept {
    return engine_->replies_forwarded;
}
std::size_t proxy::pushes_forwarded() const noexcept {
    return engine_->pushes_forwarded;
}
std::size_t proxy::commands_held() const noexcept {
    return engine_->commands_held;
}
std::size_t proxy::replies_held() const noexcept {
    return engine_->replies_held;
}

bool proxy::wait_for_commands(std::size_t forwarded, milliseconds timeout) const {
    return wait_until([&] { return commands_forwarded() >= forwarded; }, timeout);
}

bool proxy::wait_for_held_commands(std::size_t count, milliseconds timeout) const {
    return wait_until([&] { return commands_held() >= count; }, timeout);
}

bool proxy::wait_for_held_replies(std::size_t count, milliseconds timeout) const {
    return wait_until([&] { return replies_held() >= count; }, timeout);
}

} // namespace holdfast::test
