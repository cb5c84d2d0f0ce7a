#include "floor.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <initializer_list>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <random>
#include <stdexcept>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace holdfast::bench {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view delete_if_mine =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

constexpr std::size_t digits =
    7; // of the task's number in its key, so that all commands of a kind have one length
constexpr unsigned most_tasks = 9'999'999;
constexpr std::size_t token_size = 32;
constexpr auto handshake_patience = std::chrono::seconds{5};
constexpr auto drain_patience = std::chrono::seconds{10};

nanoseconds read_clock(clockid_t which) noexcept {
    timespec t{};
    ::clock_gettime(which, &t);
    return std::chrono::seconds{t.tv_sec} + nanoseconds{t.tv_nsec};
}

nanoseconds now() noexcept {
    return read_clock(CLOCK_MONOTONIC);
}

double in_seconds(nanoseconds d) noexcept {
    return std::chrono::duration<double>{d}.count();
}

[[noreturn]] void fail(std::uint16_t port, std::string const& problem) {
    throw std::runtime_error("127.0.0.1:" + std::to_string(port) + ": " + problem);
}

[[noreturn]] void fail(std::uint16_t port, char const* problem, int error) {
    throw std::system_error(error, std::system_category(),
                            "127.0.0.1:" + std::to_string(port) + ": " + problem);
}

class file_descriptor {
public:
    file_descriptor(int fd, char const* problem)
        : fd_(fd) {
        if (fd < 0) throw std::system_error(errno, std::system_category(), problem);
    }
    file_descriptor(file_descriptor&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)) {}
    file_descriptor& operator=(file_descriptor&&) = delete;
    ~file_descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }

private:
    int fd_;
};

/// Makes tokens. They are not secret, but differ for every run and every acquire.
class token_source {
public:
    explicit token_source(std::uint64_t seed)
        : state_(seed != 0 ? seed : from_system()) {
        constexpr std::string_view hex = "0123456789abcdef";
        for (std::size_t i = 0; i != pairs_.size(); ++i) pairs_[i] = {hex[i >> 4], hex[i & 15]};
    }

    void write(char* to) noexcept {
        for (int half = 0; half != 2; ++half) {
            auto bits = next();
            for (int i = 0; i != 8; ++i, bits >>= 8, to += 2)
                std::memcpy(to, pairs_[bits & 255].data(), 2);
        }
    }

private:
    static std::uint64_t from_system() {
        std::random_device device;
        return std::uniform_int_distribution<std::uint64_t>{}(device);
    }

    std::uint64_t next() noexcept { // splitmix64
        auto z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

    std::uint64_t state_;
    std::array<std::array<char, 2>, 256> pairs_{};
};

std::string encode(std::initializer_list<std::string_view> words) {
    std::string out = "*" + std::to_string(words.size()) + "\r\n";
    for (auto const word : words) {
        out += "$" + std::to_string(word.size()) + "\r\n";
        out.append(word).append("\r\n");
    }
    return out;
}

/// The bytes of a command. The number and the token of a task are written into them before they are
/// copied to the connections.
class command {
public:
    static constexpr std::string_view number_slot = "#######";
    static constexpr std::string_view token_slot = "????????????????????????????????";
    static_assert(number_slot.size() == digits && token_slot.size() == token_size);

    command() = default;
    explicit command(std::initializer_list<std::string_view> words)
        : text_(encode(words))
        , number_at_(text_.find(":" + std::string(number_slot) + "\r\n") + 1)
        , token_at_(text_.find("\r\n" + std::string(token_slot) + "\r\n") + 2) {}

    void fill(char const* number, char const* token) noexcept {
        std::memcpy(text_.data() + number_at_, number, digits);
        std::memcpy(text_.data() + token_at_, token, token_size);
    }

    [[nodiscard]] std::string_view text() const noexcept { return text_; }

private:
    std::string text_{};
    std::size_t number_at_ = 0;
    std::size_t token_at_ = 0;
};

/// The command that the next reply of a connection answers. The step of a task is even while it
/// acquires, odd while it releases, and grows with each command. A reply to an earlier step is
/// late.
struct in_flight {
    std::uint32_t task;
    std::uint32_t step;
};

/// A circular queue. It grows only while an instance falls further behind the others.
class in_flight_queue {
public:
    explicit in_flight_queue(std::size_t capacity)
        : slots_(std::bit_ceil(capacity)) {}

    [[nodiscard]] bool empty() const noexcept { return first_ == last_; }

    void push(in_flight command) {
        if (last_ - first_ == slots_.size()) grow();
        slots_[last_++ & (slots_.size() - 1)] = command;
    }

    in_flight pop() noexcept { return slots_[first_++ & (slots_.size() - 1)]; }

private:
    void grow() {
        std::vector<in_flight> larger(slots_.size() * 2);
        for (auto i = first_; i != last_; ++i)
            larger[i & (larger.size() - 1)] = slots_[i & (slots_.size() - 1)];
        slots_.swap(larger);
    }

    std::vector<in_flight> slots_;
    std::size_t first_ = 0; // these only count up; a slot is the remainder
    std::size_t last_ = 0;
};

/// Bytes to write. They are appended at the end and taken from the front.
class output_buffer {
public:
    explicit output_buffer(std::size_t capacity)
        : bytes_(capacity) {}

    void append(std::string_view text) {
        if (bytes_.size() - end_ < text.size()) make_room(text.size());
        std::memcpy(bytes_.data() + end_, text.data(), text.size());
        end_ += text.size();
    }

    [[nodiscard]] char const* data() const noexcept { return bytes_.data() + begin_; }
    [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }

    void consume(std::size_t n) noexcept {
        begin_ += n;
        if (begin_ == end_) begin_ = end_ = 0;
    }

private:
    void make_room(std::size_t n) {
        std::memmove(bytes_.data(), data(), size());
        end_ -= std::exchange(begin_, 0);
        if (bytes_.size() - end_ < n) bytes_.resize(bytes_.size() * 2 + n);
    }

    std::vector<char> bytes_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

file_descriptor connect_to(std::uint16_t port) {
    file_descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        fail(port, "connect", errno);
    int const on = 1;
    if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail(port, "TCP_NODELAY", errno);
    return fd;
}

/// Switches to RESP3 and loads the script, while the socket still blocks. Returns the script's
/// SHA-1.
std::string greet(int fd, std::uint16_t port) {
    timeval patience{};
    patience.tv_sec = handshake_patience.count();
    if (::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
        fail(port, "SO_RCVTIMEO", errno);
    auto const hello = encode({"HELLO", "3"}) + encode({"SCRIPT", "LOAD", delete_if_mine});
    if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
        fail(port, "handshake", errno);

    // The reply to HELLO needs no parsing: the SHA-1 comes last, and an error is a line of its own.
    constexpr std::string_view sha_header = "\r\n$40\r\n";
    constexpr std::size_t sha_size = 40;
    std::string got;
    for (;;) {
        std::array<char, 4096> part;
        auto const n = ::recv(fd, part.data(), part.size(), 0);
        if (n < 0) fail(port, "handshake", errno);
        if (n == 0) fail(port, "closed in the handshake");
        got.append(part.data(), static_cast<std::size_t>(n));
        auto const error = got.front() == '-' ? 0 : got.find("\r\n-");
        if (error != got.npos && got.ends_with("\r\n")) {
            auto const text = got.find('-', error);
            fail(port, "handshake: " + got.substr(text, got.find('\r', text) - text));
        }
        auto const at = got.rfind(sha_header);
        if (at != got.npos && got.size() == at + sha_header.size() + sha_size + 2)
            return got.substr(at + sha_header.size(), sha_size);
    }
}

/// A connection. Its buffers are large enough for an instance that misses some time slices.
struct connection {
    connection(std::uint16_t number, std::size_t tasks)
        : port(number)
        , fd(connect_to(number))
        , waiting(std::max<std::size_t>(tasks * 8, 65536))
        , out(std::max<std::size_t>(tasks * 512, 1U << 20))
        , in(65536) {}

    std::uint16_t port;
    file_descriptor fd;
    in_flight_queue waiting;
    output_buffer out;
    std::vector<char> in;
    std::size_t kept = 0;   // bytes of an incomplete reply at the front of `in`
    bool congested = false; // the socket is full, and epoll reports when it is not
};

/// The data that a reply changes, in one cache line.
struct alignas(64) task {
    nanoseconds since{}; // the start of this step
    std::uint32_t step = 1;
    std::uint8_t yes = 0;
    std::uint8_t no = 0;
    bool undoing = false; // the release follows a lost acquire
    std::array<char, digits> number{};
    std::array<char, token_size> token{};
};
static_assert(sizeof(task) == 64);

} // namespace

class floor_client::impl {
public:
    explicit impl(floor_options options)
        : options_(std::move(options))
        , tokens_(options_.seed)
        , epoll_(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")
        , watchdog_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")
        , tasks_(options_.tasks)
        , events_(options_.ports.size() + 1) {
        auto const n = options_.ports.size();
        if (n == 0 || n > most_instances)
            throw std::runtime_error("the floor takes 1 to 64 instances");
        if (options_.tasks == 0 || options_.tasks > most_tasks)
            throw std::runtime_error("the floor takes 1 to 10^7 - 1 tasks");
        quorum_ = static_cast<std::uint8_t>(n / 2 + 1);
        spare_ = static_cast<std::uint8_t>(n - quorum_);

        std::string sha;
        connections_.reserve(n);
        for (auto const port : options_.ports) {
            auto& c = connections_.emplace_back(port, tasks_.size());
            sha = greet(c.fd.get(), port); // all servers give the same SHA-1
            if (::fcntl(c.fd.get(), F_SETFL, O_NONBLOCK) != 0) fail(port, "O_NONBLOCK", errno);
            poll_for(c, EPOLL_CTL_ADD);
        }
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = n;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watchdog_.get(), &event) != 0)
            throw std::system_error(errno, std::system_category(), "epoll_ctl");

        auto const key = "bench:" + options_.prefix + ":" + std::string(command::number_slot);
        acquire_ = command(
            {"SET", key, command::token_slot, "NX", "PX", std::to_string(options_.ttl.count())});
        release_ = command({"EVALSHA", sha, "1", key, command::token_slot});
        for (unsigned i = 0; i != options_.tasks; ++i) {
            auto const number = numbered(i);
            std::copy(number.begin(), number.end(), tasks_[i].number.begin());
        }
    }

    floor_result run(nanoseconds how_long) {
        floor_result result;
        result_ = &result;
        set_watchdog(how_long + drain_patience);

        auto const cpu_began = read_clock(CLOCK_THREAD_CPUTIME_ID);
        auto const began = time_ = now();
        deadline_ = began + how_long;
        for (std::uint32_t i = 0; i != tasks_.size(); ++i) acquire(i);
        active_ = tasks_.size();
        flush();
        while (time_ < deadline_) turn();
        result.seconds = in_seconds(now() - began);
        result.cpu_seconds = in_seconds(read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu_began);

        result_ = nullptr;
        while (active_ != 0 || !drained()) turn();
        set_watchdog(nanoseconds{0});
        return result;
    }

    [[nodiscard]] std::string key(unsigned i) const {
        return "bench:" + options_.prefix + ":" + numbered(i);
    }

private:
    static constexpr std::size_t most_instances = 64;

    static std::string numbered(unsigned i) {
        auto text = std::to_string(i);
        return text.insert(0, digits - std::min(digits, text.size()), '0');
    }

    void poll_for(connection& c, int operation) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (c.congested) event.events |= EPOLLOUT;
        event.data.u64 = static_cast<std::uint64_t>(&c - connections_.data());
        if (::epoll_ctl(epoll_.get(), operation, c.fd.get(), &event) != 0)
            fail(c.port, "epoll_ctl", errno);
    }

    // A timer in the epoll set costs nothing for each turn, unlike a timeout of epoll_wait.
    void set_watchdog(nanoseconds after) {
        itimerspec when{};
        when.it_value.tv_sec = std::chrono::floor<std::chrono::seconds>(after).count();
        when.it_value.tv_nsec = (after % std::chrono::seconds{1}).count();
        if (::timerfd_settime(watchdog_.get(), 0, &when, nullptr) != 0)
            throw std::system_error(errno, std::system_category(), "timerfd_settime");
    }

    [[nodiscard]] bool drained() const noexcept {
        return std::all_of(connections_.begin(), connections_.end(),
                           [](auto& c) { return c.waiting.empty(); });
    }

    /// Reads the replies, advances the tasks, and writes their commands once to each instance.
    void turn() {
        int const n =
            ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), -1);
        if (n < 0 && errno != EINTR)
            throw std::system_error(errno, std::system_category(), "epoll_wait");
        for (int i = 0; i < n; ++i) {
            auto const& event = events_[static_cast<std::size_t>(i)];
            if (event.data.u64 == connections_.size()) overdue();
            auto& c = connections_[event.data.u64];
            if ((event.events & EPOLLOUT) != 0) {
                c.congested = false;
                poll_for(c, EPOLL_CTL_MOD);
            }
            if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) read(c);
        }
        flush();
    }

    [[noreturn]] void overdue() const {
        for (auto const& c : connections_)
            if (!c.waiting.empty()) fail(c.port, "has not replied long after the end of the run");
        throw std::logic_error("the floor waits for nothing");
    }

    void flush() {
        for (auto& c : connections_) {
            if (c.out.size() == 0 || c.congested) continue;
            auto const n = ::send(c.fd.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN && errno != EINTR) fail(c.port, "write", errno);
            if (n > 0) c.out.consume(static_cast<std::size_t>(n));
            if (c.out.size() == 0) continue;
            c.congested = true;
            poll_for(c, EPOLL_CTL_MOD);
        }
    }

    void read(connection& c) {
        auto const n = ::recv(c.fd.get(), c.in.data() + c.kept, c.in.size() - c.kept, 0);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) return;
            fail(c.port, "read", errno);
        }
        if (n == 0) fail(c.port, "closed the connection");
        char const* const end = c.in.data() + c.kept + static_cast<std::size_t>(n);
        char const* const rest = parse(c, c.in.data(), end);
        c.kept = static_cast<std::size_t>(end - rest);
        if (c.kept == c.in.size()) fail(c.port, "sent an endless reply");
        if (c.kept != 0) std::memmove(c.in.data(), rest, c.kept);
    }

    /// The commands have four possible replies: "+OK", the null "_", ":1" and ":0". Returns the
    /// first byte that was not parsed.
    char const* parse(connection& c, char const* p, char const* end) {
        while (p != end) {
            const std::size_t size = *p == '+' ? 5 : *p == ':' ? 4 : 3;
            if (static_cast<std::size_t>(end - p) < size) break;
            const std::string_view reply(p, size);
            bool const yes = reply == ":1\r\n" || reply == "+OK\r\n";
            if (!yes && reply != ":0\r\n" && reply != "_\r\n") {
                char const* const line_end = std::find(p, end, '\r');
                if (line_end == end) break;
                fail(c.port, "unexpected reply: " + std::string(p, line_end));
            }
            if (c.waiting.empty()) fail(c.port, "sent a reply to no command");
            auto const [index, step] = c.waiting.pop();
            if ((step % 2 == 0) != (*p == '+' || *p == '_'))
                fail(c.port, "gave the reply of another command");
            if (tasks_[index].step == step) answer(index, yes);
            p += size;
        }
        return p;
    }

    void answer(std::uint32_t index, bool yes) {
        auto& t = tasks_[index];
        ++(yes ? t.yes : t.no);
        if (t.step % 2 == 0) {
            if (t.yes == quorum_) {
                time_ = now();
                if (result_ != nullptr) result_->acquire.record(time_ - t.since);
                release(index, false);
            } else if (t.no > spare_) {
                time_ = now();
                if (result_ != nullptr) ++result_->lost;
                release(index, true);
            }
        } else if (t.undoing ? t.yes + t.no == quorum_ : t.yes == quorum_) {
            time_ = now();
            if (result_ != nullptr && !t.undoing) {
                ++result_->pairs;
                result_->release.record(time_ - t.since);
            }
            next(index);
        } else if (!t.undoing && t.no > spare_) { // the ttl was too short
            time_ = now();
            if (result_ != nullptr) ++result_->lost;
            next(index);
        }
    }

    void next(std::uint32_t index) {
        if (time_ < deadline_) {
            acquire(index);
        } else {
            tasks_[index].step += 2; // odd, and no command has this step: later replies are late
            --active_;
        }
    }

    void acquire(std::uint32_t index) {
        tokens_.write(tasks_[index].token.data());
        send(index, acquire_);
    }

    void release(std::uint32_t index, bool undoing) {
        tasks_[index].undoing = undoing;
        send(index, release_);
    }

    void send(std::uint32_t index, command& sent) {
        auto& t = tasks_[index];
        t.since = time_;
        ++t.step;
        t.yes = t.no = 0;
        sent.fill(t.number.data(), t.token.data());
        for (auto& c : connections_) {
            c.out.append(sent.text());
            c.waiting.push({index, t.step});
        }
    }

    floor_options options_;
    token_source tokens_;
    file_descriptor epoll_;
    file_descriptor watchdog_;
    std::vector<connection> connections_{};
    std::vector<task> tasks_;
    std::vector<epoll_event> events_;
    command acquire_{};
    command release_{};
    std::uint8_t quorum_ = 0;
    std::uint8_t spare_ = 0; // the number of instances that may refuse
    std::size_t active_ = 0;
    nanoseconds time_{}; // the end of the latest step, and the start of the next one
    nanoseconds deadline_{};
    floor_result* result_ = nullptr; // null outside the measured time
};

floor_client::floor_client(floor_options options)
    : impl_(std::make_unique<impl>(std::move(options))) {}

floor_client::~floor_client() = default;
floor_client::floor_client(floor_client&&) noexcept = default;
floor_client& floor_client::operator=(floor_client&&) noexcept = default;

floor_result floor_client::run(std::chrono::duration<double> how_long) {
    return impl_->run(std::chrono::duration_cast<nanoseconds>(how_long));
}

std::string floor_client::key(unsigned task) const {
    return impl_->key(task);
}

} // namespace holdfast::bench
