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
        thread_.start([this](std::vector<pollfd>& watched) { return prepare(watched); },
                      [this](pollfd const* watched) { handle(watched); });
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
        for (connection& one : connections_) one.cut = kind;
    }

    void stop_listening() { listener_.reset(); }
    void listen() {
        if (!listener_) listener_ = net::listen_on(port_);
    }

    // Settings: the thread's.
    bool holding_requests = false;
    bool holding_replies = false;
    milliseconds delay{0};
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
        // The answers that the client is owed, in order: an answer of the interceptor, or nothing
        // for the server's next reply.
        std::deque<std::optional<std::string>> owed = {};
        std::string from_server = {}; // the incomplete rest
        std::deque<answer> answers = {};
        std::string to_client = {};
        bool client_gone = false;
        bool server_gone = false;
        std::optional<cut_kind> cut = {};
        bool closing = false; // when `to_client` is written
    };

    int prepare(std::vector<pollfd>& watched) {
        auto const now = steady_clock::now();
        milliseconds timeout{-1};
        watched.push_back({listener_.get(), POLLIN, 0});
        for (connection const& one : connections_) {
            auto const events = [](std::string const& out) {
                return static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT);
            };
            watched.push_back({one.client_gone ? -1 : one.client.get(), events(one.to_client), 0});
            watched.push_back({one.server_gone ? -1 : one.server.get(), events(one.to_server), 0});
            if (holding_replies || one.answers.empty()) continue;
            auto const left = std::max(
                milliseconds{0}, std::chrono::ceil<milliseconds>(one.answers.front().due - now));
            timeout = timeout.count() < 0 ? left : std::min(timeout, left);
        }
        return static_cast<int>(timeout.count());
    }

    void handle(pollfd const* watched) {
        bool const incoming = (watched++)->revents != 0;
        for (connection& one : connections_) {
            short const client = (watched++)->revents;
            short const server = (watched++)->revents;
            if (client != 0 && !read_some(one.client, one.from_client)) one.client_gone = true;
            if (server != 0 && !read_some(one.server, one.from_server)) one.server_gone = true;
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
            for (connection& one : connections_) {
                take_requests(one);
                pass_on_requests(one);
                take_answers(one);
                pass_on_answers(one);
            }
            if (replies_until_cut == std::size_t{0}) {
                replies_until_cut.reset();
                for (connection& one : connections_) one.closing = true;
            }
            for (connection& one : connections_) write_out(one);
            connections_.remove_if(finished);
        }
        settling_ = false;
        update_counts();
    }

    static void write_out(connection& one) {
        if (one.cut == cut_kind::reset) {
            net::close_with_reset(one.client);
            net::close_with_reset(one.server);
        }
        if (one.cut) return;
        if (!one.server_gone && !write_some(one.server, one.to_server)) one.server_gone = true;
        if (!one.client_gone && !write_some(one.client, one.to_client)) one.client_gone = true;
        if (one.server_gone) one.to_server.clear();
        if (one.client_gone) one.to_client.clear();
    }

    void update_counts() {
        std::size_t commands = 0;
        std::size_t replies = 0;
        for (connection const& one : connections_) {
            commands += one.requests.size();
            replies += static_cast<std::size_t>(
                std::count_if(one.answers.begin(), one.answers.end(),
                              [](answer const& a) { return a.from == origin::reply; }));
        }
        commands_held = commands;
        replies_held = replies;
        connected = connections_.size();
    }

    static bool finished(connection const& one) {
        if (one.cut) return true;
        if (one.closing) return one.to_client.empty();
        // Bytes that one side sent before it closed still reach the other.
        if (one.client_gone && (one.server_gone || (one.requests.empty() && one.to_server.empty())))
            return true;
        return one.server_gone && one.answers.empty() && one.to_client.empty();
    }

    static void take_requests(connection& one) {
        std::string_view rest = one.from_client;
        try {
            for (;;) {
                const std::string_view before = rest;
                std::optional<command_line> words = resp::take_command(rest);
                if (!words) break;
                one.requests.push_back({std::move(*words), std::string{before.substr(
                                                               0, before.size() - rest.size())}});
            }
        } catch (resp::malformed const&) {
            one.requests.push_back({{}, std::string{rest}});
            rest = {};
        }
        one.from_client.erase(0, one.from_client.size() - rest.size());
    }

    void pass_on_requests(connection& one) {
        while (!holding_requests && !one.requests.empty()) {
            const request next = std::move(one.requests.front());
            one.requests.pop_front();
            if (!next.words.empty()) {
                std::optional<std::string> intercepted;
                if (intercepting)
                    intercepted = interceptor{intercepting}(next.words); // it may replace itself
                if (intercepted) {
                    one.owed.push_back(std::move(intercepted));
                    pay_intercepted(one);
                    continue;
                }
                if (!answered_by_pushes(next.words)) one.owed.push_back(std::nullopt);
                ++commands_forwarded;
            }
            one.to_server += next.bytes;
        }
    }

    void take_answers(connection& one) {
        std::string_view rest = one.from_server;
        try {
            for (;;) {
                const std::string_view before = rest;
                const std::optional<reply> what = resp::take_reply(rest);
                if (!what) break;
                add_answer(one, what->push ? origin::push : origin::reply,
                           std::string{before.substr(0, before.size() - rest.size())});
                if (!what->push && !one.owed.empty()) one.owed.pop_front();
                pay_intercepted(one);
            }
        } catch (resp::malformed const&) {
            add_answer(one, origin::unknown, std::string{rest});
            rest = {};
        }
        one.from_server.erase(0, one.from_server.size() - rest.size());
        if (one.server_gone && !one.from_server.empty()) // half a reply is all that will come
            add_answer(one, origin::unknown, std::exchange(one.from_server, {}));
    }

    void pay_intercepted(connection& one) {
        for (; !one.owed.empty() && one.owed.front(); one.owed.pop_front())
            add_answer(one, origin::interceptor, std::move(*one.owed.front()));
    }

    void add_answer(connection& one, origin from, std::string bytes) const {
        one.answers.push_back({from, std::move(bytes), steady_clock::now() + delay});
    }

    void pass_on_answers(connection& one) {
        auto const now = steady_clock::now();
        while (!holding_replies && !one.answers.empty() && one.answers.front().due <= now) {
            answer const& next = one.answers.front();
            if (next.from == origin::reply) {
                if (replies_until_cut && *replies_until_cut == 0) return;
                if (replies_until_cut) --*replies_until_cut;
                ++replies_forwarded;
            } else if (next.from == origin::push) {
                ++pushes_forwarded;
            }
            one.to_client += next.bytes;
            one.answers.pop_front();
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
