#include "support/fake_server.hpp"

#include "support/io_thread.hpp"
#include "support/net.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <list>
#include <mutex>
#include <ostream>

namespace holdfast::test {

namespace {

bool equal_ignoring_case(std::string_view left, std::string_view right) {
    return std::equal(
        left.begin(), left.end(), right.begin(), right.end(),
        [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
}

using namespace std::string_view_literals;

// A prefix of a script's answer. The byte after it selects how the connection ends after the other
// bytes.
constexpr std::string_view then = "\0then "sv;
enum class ending : char {
    silent,
    close,
    reset,
    flood
};

std::string ended_by(ending how, std::string_view bytes) {
    return std::string(then) + static_cast<char>(how) + std::string(bytes);
}

constexpr std::string_view garbage_bytes = "\x16\x03\x01\x00\xff\xfe no\r\n\r\n\x00\x00 RESP\r\n"sv;
constexpr std::string_view http_bytes =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
    "Content-Length: 11\r\nConnection: close\r\n\r\nBad Request";

} // namespace

std::ostream& operator<<(std::ostream& out, behaviour value) {
    switch (value) {
    case behaviour::garbage:
        return out << "garbage";
    case behaviour::http:
        return out << "http";
    case behaviour::closes:
        return out << "closes";
    case behaviour::closes_mid_reply:
        return out << "closes_mid_reply";
    case behaviour::silent:
        return out << "silent";
    case behaviour::huge_bulk:
        return out << "huge_bulk";
    case behaviour::refused:
        return out << "refused";
    }
    return out << "unknown behaviour";
}

bool is_command(command_line const& words, std::string_view name) {
    return !words.empty() && equal_ignoring_case(words[0], name);
}

bool is_command(command_line const& words, std::string_view name, std::string_view second) {
    return words.size() > 1 && is_command(words, name) && equal_ignoring_case(words[1], second);
}

const std::string fake_server::no_answer{"\0no answer", 10};
const std::string fake_server::hang_up{"\0hang up", 8};

std::string fake_server::then_silent(std::string_view bytes) {
    return ended_by(ending::silent, bytes);
}
std::string fake_server::then_close(std::string_view bytes) {
    return ended_by(ending::close, bytes);
}
std::string fake_server::then_reset(std::string_view bytes) {
    return ended_by(ending::reset, bytes);
}
std::string fake_server::then_flood(std::string_view bytes, std::string_view filler) {
    // The encoded filler comes first.
    return ended_by(ending::flood, resp::bulk(filler) + std::string(bytes));
}

class fake_server::engine {
public:
    engine(behaviour how, script answers)
        : how_{how}
        , script_{std::move(answers)} {
        if (!script_ && how_ == behaviour::refused) return;
        listener_ = net::listen_on(port_);
        thread_.start([this](std::vector<pollfd>& polled) { return prepare(polled); },
                      [this](pollfd const* polled) { handle(polled); });
    }

    ~engine() { stop(); }
    void stop() { thread_.stop(); }
    engine(engine const&) = delete;
    engine& operator=(engine const&) = delete;

    [[nodiscard]] net::reserved_port const& port() const noexcept { return port_; }

    // A script may also call these functions, during a loop over `connections_`.
    void push(std::string const& bytes) {
        thread_.run([&] {
            for (connection& conn : connections_) {
                if (conn.silenced) continue;
                conn.out += bytes;
                write(conn);
            }
            if (!handling_) remove_closed();
        });
    }

    void cut() {
        thread_.run([&] {
            for (connection& conn : connections_) conn.broken = true;
            if (!handling_) remove_closed();
        });
    }

    [[nodiscard]] std::vector<command_line> commands() const {
        const std::lock_guard lock{mutex_};
        return commands_;
    }

    std::atomic<std::size_t> accepted = 0;
    std::atomic<std::size_t> connected = 0;
    std::atomic<std::size_t> received = 0;
    std::atomic<std::size_t> most_sent = 0;

private:
    struct connection {
        net::unique_fd socket;
        std::string in = {};
        std::string out = {};
        std::string filler = {}; // if not empty, it refills `out`
        std::size_t sent = 0;
        bool greeted = false;   // the fixed answer of the behaviour was sent
        bool silenced = false;  // the connection gets no more answers
        bool closing = false;   // close when `out` is written
        bool resetting = false; // close with a reset
        bool broken = false;

        bool flooding() const { return !filler.empty() && sent < flood_size; }
    };

    int prepare(std::vector<pollfd>& polled) {
        polled.push_back({listener_.get(), POLLIN, 0});
        for (connection const& conn : connections_) {
            int const events = POLLIN | (conn.out.empty() && !conn.flooding() ? 0 : POLLOUT);
            polled.push_back({conn.socket.get(), static_cast<short>(events), 0});
        }
        return -1;
    }

    void handle(pollfd const* polled) {
        bool const incoming = (polled++)->revents != 0;
        handling_ = true;
        for (connection& conn : connections_)
            if ((polled++)->revents != 0) serve(conn);
        handling_ = false;
        if (incoming) accept_all();
        remove_closed();
    }

    void accept_all() {
        while (net::unique_fd socket = net::accept_from(listener_)) {
            ++accepted;
            if (!script_ && how_ == behaviour::closes) continue;
            connections_.push_back({std::move(socket)});
        }
    }

    void serve(connection& conn) {
        const std::size_t before = conn.in.size();
        if (!read_some(conn.socket, conn.in)) conn.broken = true;
        received += conn.in.size() - before;
        // A client that has closed still gets the effect of its complete commands.
        if (script_)
            answer_commands(conn);
        else if (!conn.in.empty())
            misbehave(conn);
        while (conn.flooding() && conn.out.size() < 64 * 1024) conn.out += conn.filler;
        if (!conn.broken) write(conn);
    }

    void write(connection& conn) {
        const std::size_t before = conn.out.size();
        if (!write_some(conn.socket, conn.out)) conn.broken = true;
        conn.sent += before - conn.out.size();
        most_sent = std::max(most_sent.load(), conn.sent);
    }

    void misbehave(connection& conn) {
        conn.in.clear();
        if (std::exchange(conn.greeted, true)) return;
        switch (how_) {
        case behaviour::garbage:
            conn.out = garbage_bytes;
            break;
        case behaviour::http:
            conn.out = http_bytes;
            conn.closing = true;
            break;
        case behaviour::closes_mid_reply:
            conn.out = "%7\r\n$6\r\nserver\r\n$5\r\nre"; // the begin of the answer to HELLO 3
            conn.closing = true;
            break;
        case behaviour::huge_bulk:
            conn.out = "$9999999999\r\n";
            conn.filler.assign(64 * 1024, 'x');
            break;
        case behaviour::silent:
        case behaviour::closes:
        case behaviour::refused:
            break;
        }
    }

    void answer_commands(connection& conn) {
        std::string_view rest = conn.in;
        try {
            while (!conn.closing && !conn.silenced) {
                const std::optional<command_line> words = resp::take_command(rest);
                if (!words) break;
                {
                    const std::lock_guard lock{mutex_};
                    commands_.push_back(*words);
                }
                answer(conn, *words);
            }
        } catch (resp::malformed const& error) {
            conn.out += resp::error(std::string{"ERR Protocol error: "} + error.what());
            conn.closing = true;
        }
        conn.in.erase(0, conn.in.size() - rest.size());
    }

    void answer(connection& conn, command_line const& words) {
        std::string bytes;
        try {
            bytes = script_(words);
        } catch (std::exception const& error) {
            bytes = resp::error(std::string{"ERR the script of the fake server threw: "} +
                                error.what());
        }
        if (bytes == hang_up)
            conn.closing = true;
        else if (bytes.starts_with(then))
            end(conn, std::string_view{bytes}.substr(then.size()));
        else if (bytes != no_answer)
            conn.out += bytes;
    }

    void end(connection& conn, std::string_view how) {
        std::string_view bytes = how.substr(1);
        switch (static_cast<ending>(how.front())) {
        case ending::silent:
            conn.silenced = true;
            break;
        case ending::reset:
            conn.resetting = true;
            [[fallthrough]];
        case ending::close:
            conn.closing = true;
            break;
        case ending::flood:
            conn.silenced = true;
            conn.filler = resp::take_reply(bytes).value().string();
            break;
        }
        conn.out += bytes;
    }

    void remove_closed() {
        connections_.remove_if([](connection& conn) {
            bool const over = conn.closing && conn.out.empty();
            if (over && conn.resetting) net::close_with_reset(conn.socket);
            return conn.broken || over;
        });
        connected = connections_.size();
    }

    const behaviour how_;
    const script script_;
    const net::reserved_port port_;
    net::unique_fd listener_;
    std::list<connection> connections_; // used by the thread only, like the next member
    bool handling_ = false;
    mutable std::mutex mutex_;
    std::vector<command_line> commands_;
    io_thread thread_;
};

fake_server::fake_server(behaviour how)
    : engine_{std::make_unique<engine>(how, script{})} {}

fake_server::fake_server(script answers)
    : engine_{std::make_unique<engine>(behaviour::silent, std::move(answers))} {}

fake_server::~fake_server() = default;

std::uint16_t fake_server::port() const noexcept {
    return engine_->port().number();
}
std::string fake_server::address() const {
    return engine_->port().address();
}
std::size_t fake_server::accepted() const noexcept {
    return engine_->accepted;
}
std::size_t fake_server::connected() const noexcept {
    return engine_->connected;
}
std::size_t fake_server::received() const noexcept {
    return engine_->received;
}
std::size_t fake_server::most_sent() const noexcept {
    return engine_->most_sent;
}
std::vector<command_line> fake_server::commands() const {
    return engine_->commands();
}
void fake_server::push(std::string const& bytes) {
    engine_->push(bytes);
}
void fake_server::cut() {
    engine_->cut();
}
void fake_server::stop() {
    engine_->stop();
}

std::size_t fake_server::count(std::string_view name) const {
    const std::vector<command_line> all = commands();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(),
                      [&](command_line const& words) { return is_command(words, name); }));
}

} // namespace holdfast::test
