// Fuzzes an instance connection with bytes from a server, between arbitrary commands. The
// connection answers each command once and throws no exception. It answers yes only if the server
// did.
//
// The input is a list of steps, each a letter with parameters: see conversation::step. Time passes
// in steps alone: timers go by steady_clock (cmake/holdfast_compile_options.cmake).
#include "redis/server/server_link.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"

#include "fuzz/check.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

std::chrono::steady_clock::time_point steady_time{};

} // namespace

// Instead of that of the standard library.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    return steady_time;
}

namespace {

using namespace holdfast;
using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::test::check;
using protocol::command;
using protocol::verdict;

// Four of exclusive locks, two of readers, two of writers, two of semaphores.
constexpr std::size_t all_keys = 10;
constexpr std::size_t max_submissions = 2'000; // enough for several batches

//
// The server's end of the connections
//

struct wire {
    asio::io_context& context;
    bool open = false; // a stream exists and is not closed
    std::string coming;
    bool ends = false;
    std::size_t room = std::string::npos; // bytes that the client can still write
    std::shared_ptr<stream_user> reader, writer;
    asio::mutable_buffer buffer;

    void send(std::string_view bytes) {
        if (!open) return;
        coming += bytes;
        deliver();
    }
    void end() {
        if (!open) return;
        ends = true;
        deliver();
    }
    void make_room(std::size_t size) {
        room = size;
        if (room == 0) return;
        if (auto user = std::exchange(writer, nullptr)) {
            asio::post(context, [user = std::move(user)] { user->on_writable({}); });
        }
    }
    void deliver() {
        if (!reader || (coming.empty() && !ends)) return;
        auto const size = std::min(coming.size(), buffer.size());
        std::memcpy(buffer.data(), coming.data(), size);
        coming.erase(0, size);
        auto const ec = size == 0 ? error_code(asio::error::eof) : error_code();
        asio::post(context,
                   [user = std::exchange(reader, nullptr), ec, size] { user->on_read(ec, size); });
    }
    void close() {
        open = ends = false;
        coming.clear();
        room = std::string::npos;
        if (auto user = std::exchange(reader, nullptr)) {
            asio::post(context, [user = std::move(user)] {
                user->on_read(asio::error::operation_aborted, 0);
            });
        }
        if (auto user = std::exchange(writer, nullptr)) {
            asio::post(context, [user = std::move(user)] {
                user->on_writable(asio::error::operation_aborted);
            });
        }
    }
};

class memory_stream final : public stream {
public:
    explicit memory_stream(wire& w)
        : wire_(w) {}
    ~memory_stream() override { close(); }

    void connect(std::shared_ptr<stream_user> user) override {
        check(!wire_.open);
        wire_.open = open_ = true;
        asio::post(wire_.context, [user = std::move(user)] { user->on_connected({}); });
    }
    void read(std::shared_ptr<stream_user> user, asio::mutable_buffer buffer) override {
        check(!wire_.reader && buffer.size() != 0);
        if (!open_) {
            asio::post(wire_.context, [user = std::move(user)] {
                user->on_read(asio::error::operation_aborted, 0);
            });
            return;
        }
        wire_.reader = std::move(user);
        wire_.buffer = buffer;
        wire_.deliver();
    }
    std::size_t write(std::string_view bytes, error_code& ec) noexcept override {
        if (!open_) {
            ec = asio::error::bad_descriptor;
            return 0;
        }
        auto const size = std::min(bytes.size(), wire_.room);
        if (wire_.room != std::string::npos) wire_.room -= size;
        return size;
    }
    void wait_writable(std::shared_ptr<stream_user> user) override {
        check(!wire_.writer);
        wire_.writer = std::move(user);
        if (wire_.room != 0) wire_.make_room(wire_.room);
    }
    void close() noexcept override {
        if (std::exchange(open_, false)) wire_.close();
    }

private:
    wire& wire_;
    bool open_ = false;
};

//
// The client's end
//

struct submission {
    protocol::command sent;
    bool pending = false; // a release that waits for a connection gets no answer
    unsigned answers = 0;
};

class conversation;

class question final : public reply_handler {
public:
    void ask(conversation& c, std::size_t key) {
        conversation_ = &c;
        key_ = "key" + std::to_string(key);
        kind_ = key < 4 ? &exclusive_key : key < 6 ? &read_key : key < 8 ? &write_key : &permit_key;
    }
    bool wanted = true;
    bool fenced = false;
    unsigned recycled = 0;

    std::string_view key() const { return key_; }

private:
    lock_kind const& kind() const noexcept override { return *kind_; }
    command_args arguments(command) const noexcept override {
        return {.key = key_,
                .token = "0123456789abcdef0123456789abcdef",
                .ttl = 10s,
                .fence_ttl = fenced ? 60s : 0s,
                .number = 7,
                .intent = "fuzz:me",
                .waits = true,
                .readers_turn = 3ms,
                .permits = 10,
                .start = 3};
    }
    bool still_wants(command) const noexcept override { return wanted; }
    void on_answer(unsigned instance, command, std::uint32_t round, answer const&) override;
    void recycle() noexcept override { ++recycled; }

    conversation* conversation_ = nullptr;
    std::string key_;
    lock_kind const* kind_ = nullptr;
};

class conversation final : public instance_owner {
public:
    explicit conversation(std::string_view input)
        : input_(input) {
        steady_time = {}; // an input must do the same each time
        auto const options = byte();
        for (std::size_t i = 0; i < all_keys; ++i) {
            questions_[i].ask(*this, i);
            questions_[i].fenced = (i & 1U) != 0;
        }
        connection_ = std::make_shared<server_link>(
            context_.get_executor(), 0U,
            connection_options{.address = address("127.0.0.1:1"),
                               .instance_timeout = 1ms,
                               .connect_timeout = 10s,
                               .max_reconnect_delay = 20ms,
                               .max_ttl = 60s,
                               .on_restart = static_cast<restart_policy>(options % 3),
                               .detect_clock_jumps = (options & 4U) != 0,
                               .max_pending_releases = 3,
                               .name = "fuzz",
                               .replicas = (options & 8U) != 0    ? all_replicas
                                           : (options & 16U) != 0 ? 1U
                                                                  : 0U},
            static_cast<instance_owner&>(*this),
            [this](asio::any_io_executor const&, address const&, location::endpoint const&) {
                return std::make_unique<memory_stream>(wire_);
            });
    }

    void run() {
        redis::in_turn(*this, [&] { connection_->start(); });
        poll();
        while (!input_.empty()) step();
        // status() may be called at any time.
        (void)connection_->status();
        check(connection_->settled() || connection_->available());
        if (abandons_) {
            abandoned_ = true;
            connection_->abandon();
        } else {
            redis::in_turn(*this, [&] { connection_->stop(); });
            for (auto const& s : submissions_) check(s.answers == (s.pending ? 0U : 1U));
        }
        over_ = true;
        poll();
        connection_.reset();
        poll();
        for (std::size_t i = 0; i < all_keys; ++i) {
            check(!asked_[i] || questions_[i].recycled > 0);
        }
        check(yes_ <= possible_yes_);
    }

    void on_answer(question const&, command sent, std::uint32_t round, answer const& a) {
        check(!over_ && !abandoned_ && !submitting_);
        check(in_turn_);
        auto& s = submissions_.at(round);
        check(s.sent == sent);
        check(++s.answers == 1 && !s.pending);
        switch (a.verdict) {
        case verdict::yes:
            check(connection_->connected());
            // The reply to a question may be anything but an error.
            if (!protocol::only_reads(sent)) ++yes_;
            break;
        case verdict::no:
        case verdict::other:
        case verdict::rival:
            check(connection_->connected());
            break;
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
            break;
        }
        check(a.message.size() < 70'000);
        touch(a.message);
        touch(a.holder);
    }

private:
    //
    // Steps
    //

    // R m n bytes   the server sends 256 m + n bytes
    // F c n         the server sends n KB of the character c
    // P v           the server answers a probe with version v
    // C c k         the client submits the command c on the key k
    // B c k n       the client submits 4 n of them at once
    // X k           the key k is no longer wanted, or wanted again
    // L n           the client can write n more bytes
    // T n           n ms pass, or n - 239 seconds if n is 240 or more
    // E             the server closes
    // D             at the end, the client abandons the connection without a stop
    void step() {
        switch (byte()) {
        case 'R': {
            std::size_t const size = byte() * 256U + byte();
            count_possible_yes(input_.substr(0, size));
            wire_.send(input_.substr(0, size));
            input_.remove_prefix(std::min(size, input_.size()));
            break;
        }
        case 'F': {
            auto const c = static_cast<char>(byte());
            wire_.send(std::string(byte() * 1024U, c));
            break;
        }
        case 'P': {
            auto const replies = probe_replies(byte());
            // Before the connection is up, these replies answer no lock command.
            if (connection_->connected()) count_possible_yes(replies);
            wire_.send(replies);
            break;
        }
        case 'C': {
            auto const number = byte();
            submit(number, byte(), 1);
            break;
        }
        case 'B': {
            auto const number = byte();
            auto const key = byte();
            submit(number, key, byte() * 4U);
            break;
        }
        case 'X': {
            auto& q = questions_[byte() % all_keys];
            q.wanted = !q.wanted;
            break;
        }
        case 'L':
            wire_.make_room(byte());
            break;
        case 'T':
            pass(byte());
            break;
        case 'E':
            wire_.end();
            break;
        case 'D':
            abandons_ = true;
            break;
        default:
            break;
        }
        poll();
    }

    // The replies `+OK` and numbers can mean yes.
    void count_possible_yes(std::string_view bytes) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (bytes.substr(i).starts_with("+OK")) ++possible_yes_;
            if (bytes[i] == ':' && (i == 0 || bytes[i - 1] == '\n')) ++possible_yes_;
            // The reply may have begun in earlier bytes.
            if (i == 0 && bytes[i] != '+') ++possible_yes_;
        }
    }

    void submit(unsigned number, unsigned key, std::size_t times) {
        redis::in_turn(*this, [&] {
            for (; times > 0 && submissions_.size() < max_submissions; --times) {
                // All but the last, scan, which is no lock's.
                auto const c = static_cast<command>(number % (protocol::commands - 1));
                auto const i = key++ % all_keys;
                auto& q = questions_[i];
                auto const pending = !connection_->available();
                if (pending && c != command::release) return;
                reply_handler_ptr const owner(&q);
                asked_[i] = true;
                auto const round = static_cast<std::uint32_t>(submissions_.size());
                submissions_.push_back({.sent = c, .pending = pending});
                submitting_ = true;
                encoder_.start(c, static_cast<reply_handler&>(q));
                check(connection_->submit(encoder_, owner, round));
                submitting_ = false;
            }
        });
    }

    void poll() {
        context_.restart();
        context_.poll();
    }

    void pass(unsigned n) {
        auto const time = n < 240 ? std::chrono::milliseconds(n) : std::chrono::seconds(n - 239);
        now_ += time;
        steady_time += time;
    }

    unsigned byte() {
        if (input_.empty()) return 0;
        auto const b = static_cast<unsigned char>(input_.front());
        input_.remove_prefix(1);
        return b;
    }

    static std::string bulk(std::string_view text) {
        return '$' + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
    }
    std::string probe_replies(unsigned version) const {
        constexpr std::array versions{"redis_version:7.0.15", "redis_version:8.4.0",
                                      "redis_version:7.2.4\r\nvalkey_version:8.1.0",
                                      "redis_version:7.2.4\r\nvalkey_version:9.0.0"};
        auto const time = "*2\r\n" + bulk("1700000000") + bulk("0");
        return "%1\r\n" + bulk("proto") + ":3\r\n+OK\r\n" + bulk("a") + bulk("b") + bulk("c") +
               bulk("d") + "-NOSCRIPT x\r\n%1\r\n" + bulk("appendfsync") + bulk("always") +
               "%1\r\n" + bulk("tracking-table-max-keys") + bulk("1000") + bulk("") +
               ((version & 0x80U) != 0 ? time : "") +
               bulk("# Server\r\n" + std::string(versions[version % versions.size()]) +
                    "\r\nrun_id:0123456789abcdef0123456789abcdef0123456" +
                    std::to_string(version / 4 % 8) +
                    "\r\naof_enabled:1\r\nuptime_in_seconds:17\r\nrole:master\r\n");
    }

    void touch(std::string_view text) {
        for (auto const c : text) touched_ = touched_ ^ static_cast<unsigned char>(c);
    }

    //
    // The owner
    //

    void in_turn(turn_work& work) override {
        if (in_turn_) return work.run();
        in_turn_ = true;
        now_ += 1us;
        work.run();
        check(over_ || connection_->flush());
        in_turn_ = false;
    }
    lease_clock::time_point time() const noexcept override { return now_; }
    bool is_new_server(unsigned, std::string_view run_id) override {
        touch(run_id);
        return true;
    }
    void on_push(unsigned, std::string_view key) override {
        check(!over_);
        touch(key);
    }
    void on_push_for_all(unsigned) override { check(!over_); }
    void on_unavailable(unsigned) override {}
    void on_available(unsigned) override { check(!over_); }
    std::uint64_t random_bits() override { return 0; }
    void on_change() override {}
    void on_idle() override {}

    std::string_view input_;
    asio::io_context context_{1};
    wire wire_{context_, false, {}, false, std::string::npos, {}, {}, {}};
    std::array<question, all_keys> questions_;
    std::array<bool, all_keys> asked_{};
    std::vector<submission> submissions_;
    encoder encoder_;
    lease_clock::time_point now_ = lease_clock::time_point() + 1h;
    bool in_turn_ = false, submitting_ = false, abandons_ = false, abandoned_ = false,
         over_ = false;
    std::size_t yes_ = 0, possible_yes_ = 0;
    unsigned volatile touched_ = 0; // forces reads of passed texts, for sanitizers
    std::shared_ptr<server_link> connection_;
};

void question::on_answer(unsigned instance, command sent, std::uint32_t round, answer const& a) {
    check(instance == 0);
    conversation_->on_answer(*this, sent, round, a);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string input(size, '\0');
    if (size != 0) std::memcpy(input.data(), data, size);
    conversation c(input);
    c.run();
    return 0;
}
