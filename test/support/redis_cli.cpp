#include "support/redis_cli.hpp"

#include "support/server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>

namespace holdfast::test {

using std::chrono::steady_clock;

redis_cli::redis_cli(std::uint16_t port, std::string password, milliseconds timeout)
    : port_{port}
    , password_{std::move(password)}
    , timeout_{timeout} {}

redis_cli::redis_cli(server const& on, std::string password, milliseconds timeout)
    : redis_cli{on.port(), std::move(password), timeout} {}

void redis_cli::disconnect() {
    socket_.reset();
    received_.clear();
}

void redis_cli::fail(std::string const& problem) {
    disconnect();
    throw cli_error{"127.0.0.1:" + std::to_string(port_) + ": " + problem};
}

// Peeks at the next byte. The end of the stream shows that the server was killed.
bool redis_cli::closed_by_server() const {
    char next = 0;
    const ssize_t peeked = ::recv(socket_.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return peeked == 0 || (peeked < 0 && errno != EAGAIN && errno != EINTR);
}

void redis_cli::connect(time_point deadline) {
    if (socket_ && closed_by_server()) disconnect();
    if (socket_) return;
    socket_ = net::connect_to_port(port_);
    if (!socket_) fail(std::string{"cannot connect: "} + std::strerror(errno));
    wait_for(POLLOUT, deadline);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) fail(std::string{"cannot connect: "} + std::strerror(error));
    if (password_.empty()) return;
    write_all(resp::command({"AUTH", password_}), deadline);
    const reply answer = read_reply(deadline);
    if (!answer.is_ok()) fail("AUTH was refused");
}

void redis_cli::wait_for(short events, time_point deadline) {
    for (;;) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        pollfd ready{socket_.get(), events, 0};
        int const count =
            ::poll(&ready, 1, static_cast<int>(std::max<milliseconds::rep>(0, left.count())));
        if (count > 0) return;
        if (count < 0 && errno != EINTR) fail(std::string{"poll: "} + std::strerror(errno));
        if (count == 0 && left <= milliseconds{0}) give_up();
    }
}

void redis_cli::give_up() {
    disconnect(); // a late reply must not count as the reply to the next command
    throw cli_timeout{"127.0.0.1:" + std::to_string(port_) + ": no answer within " +
                      std::to_string(timeout_.count()) + " ms"};
}

void redis_cli::write_all(std::string_view bytes, time_point deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0)
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        else if (errno == EAGAIN)
            wait_for(POLLOUT, deadline);
        else if (errno != EINTR)
            fail(std::string{"send: "} + std::strerror(errno));
    }
}

reply redis_cli::read_reply(time_point deadline) {
    for (;;) {
        std::string_view rest = received_;
        try {
            if (std::optional<reply> complete = resp::take_reply(rest)) {
                received_.erase(0, received_.size() - rest.size());
                return std::move(*complete);
            }
        } catch (resp::malformed const& error) {
            fail(error.what());
        }
        // A server that never stops sending is given up too.
        if (steady_clock::now() >= deadline) give_up();
        char buffer[16 * 1024];
        const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
        if (count > 0)
            received_.append(buffer, static_cast<std::size_t>(count));
        else if (count == 0)
            fail("the server closed the connection");
        else if (errno == EAGAIN)
            wait_for(POLLIN, deadline);
        else if (errno != EINTR)
            fail(std::string{"recv: "} + std::strerror(errno));
    }
}

reply redis_cli::command(command_line const& words) {
    return commands({words}).front();
}

std::vector<reply> redis_cli::commands(std::vector<command_line> const& lines) {
    const time_point deadline = steady_clock::now() + timeout_;
    connect(deadline);
    std::string bytes;
    for (auto const& words : lines) bytes += resp::command(words);
    write_all(bytes, deadline);
    std::vector<reply> answers;
    answers.reserve(lines.size());
    while (answers.size() < lines.size()) {
        reply answer = read_reply(deadline);
        (answer.push ? pushes_ : answers).push_back(std::move(answer));
    }
    return answers;
}

bool redis_cli::is_older_than(milliseconds max_ttl) {
    using std::chrono::seconds;
    return seconds(std::stoll(info("uptime_in_seconds"))) >=
           std::chrono::ceil<seconds>(max_ttl) + seconds(2);
}

void redis_cli::send(command_line const& words) {
    send_bytes(resp::command(words));
}

void redis_cli::send_bytes(std::string_view bytes) {
    const time_point deadline = steady_clock::now() + timeout_;
    connect(deadline);
    write_all(bytes, deadline);
}

reply redis_cli::receive() {
    if (!pushes_.empty()) {
        reply first = std::move(pushes_.front());
        pushes_.erase(pushes_.begin());
        return first;
    }
    if (!socket_) fail("receive() before send()");
    return read_reply(steady_clock::now() + timeout_);
}

bool redis_cli::has_input(milliseconds timeout) {
    if (!received_.empty()) return true;
    if (!socket_) fail("has_input() before send()");
    pollfd ready{socket_.get(), POLLIN, 0};
    return ::poll(&ready, 1, static_cast<int>(timeout.count())) > 0;
}

reply redis_cli::checked(command_line const& words) {
    reply answer = command(words);
    if (answer.is_error())
        throw cli_error{"127.0.0.1:" + std::to_string(port_) + ": " + words.front() + ": " +
                        answer.error()};
    return answer;
}

bool redis_cli::exists(std::string const& key) {
    return checked({"EXISTS", key}).integer() == 1;
}

std::optional<std::string> redis_cli::get(std::string const& key) {
    const reply answer = checked({"GET", key});
    if (answer.is_nil()) return std::nullopt;
    return answer.string();
}

redis_cli::milliseconds redis_cli::pttl(std::string const& key) {
    return milliseconds{checked({"PTTL", key}).integer()};
}

std::int64_t redis_cli::dbsize() {
    return checked({"DBSIZE"}).integer();
}

std::vector<std::string> redis_cli::keys(std::string const& pattern) {
    std::vector<std::string> all;
    const reply answer = checked({"KEYS", pattern});
    for (reply const& key : answer.elements()) all.push_back(key.string());
    std::sort(all.begin(), all.end());
    return all;
}

void redis_cli::flush() {
    checked({"FLUSHALL"});
}

void redis_cli::set(std::string const& key, std::string const& value) {
    checked({"SET", key, value});
}

void redis_cli::set(std::string const& key, std::string const& value, milliseconds ttl) {
    checked({"SET", key, value, "PX", std::to_string(ttl.count())});
}

bool redis_cli::set_if_absent(std::string const& key, std::string const& value, milliseconds ttl) {
    return checked({"SET", key, value, "NX", "PX", std::to_string(ttl.count())}).is_ok();
}

bool redis_cli::del(std::string const& key) {
    return checked({"DEL", key}).integer() == 1;
}

bool redis_cli::del_if_equal(std::string const& key, std::string const& value) {
    constexpr char const* script = "if redis.call('get',KEYS[1]) == ARGV[1] then return "
                                   "redis.call('del',KEYS[1]) else return 0 end";
    return checked({"EVAL", script, "1", key, value}).integer() == 1;
}

std::string redis_cli::info(std::string_view field) {
    const reply answer = checked({"INFO", "everything"});
    std::istringstream lines{answer.string()};
    for (std::string line; std::getline(lines, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.size() > field.size() && line[field.size()] == ':' &&
            line.compare(0, field.size(), field) == 0)
            return line.substr(field.size() + 1);
    }
    return {};
}

void redis_cli::config(std::string const& option, std::string const& value) {
    checked({"CONFIG", "SET", option, value});
}

} // namespace holdfast::test
