#include "support/server.hpp"

#include "support/certificates.hpp"
#include "support/resp.hpp"
#include "support/swept_folder.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

extern char** environ; // NOLINT

namespace holdfast::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

[[noreturn]] void fail_with(int error, std::string const& problem) {
    throw std::system_error{error, std::generic_category(), problem};
}

char const* environment(char const* name) {
    char const* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
}

bool is_executable(fs::path const& file) {
    std::error_code ignored;
    return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::optional<std::string> find_in_path(std::string_view program) {
    std::string_view path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "/usr/bin:/bin";
    while (!path.empty()) {
        const std::size_t end = std::min(path.find(':'), path.size());
        const fs::path candidate = fs::path{path.substr(0, end)} / program;
        if (is_executable(candidate)) return candidate.string();
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return std::nullopt;
}

// Forks in a thread of its own that lives as long as the process: PR_SET_PDEATHSIG fires at the end
// of the *thread* that forked, so a server started in a short-lived thread would die with that.
class spawner {
public:
    static spawner& instance() {
        static spawner shared;
        return shared;
    }

    // Throws std::system_error when the program cannot be run.
    pid_t spawn(std::vector<std::string> arguments, std::vector<std::string> variables,
                std::string log_file) {
        std::packaged_task<pid_t()> task{
            [&] { return fork_and_exec(arguments, variables, log_file); }};
        std::future<pid_t> result = task.get_future();
        {
            const std::lock_guard lock{mutex_};
            tasks_.push_back(std::move(task));
        }
        changed_.notify_one();
        return result.get();
    }

    spawner(spawner const&) = delete;
    spawner& operator=(spawner const&) = delete;

private:
    spawner()
        : thread_{[this] { serve(); }} {}

    ~spawner() {
        {
            const std::lock_guard lock{mutex_};
            stopping_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }

    void serve() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr); // signals are for the threads of the test
        for (;;) {
            std::packaged_task<pid_t()> task;
            {
                std::unique_lock lock{mutex_};
                changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
                if (tasks_.empty()) return;
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task();
        }
    }

    static pid_t fork_and_exec(std::vector<std::string> const& arguments,
                               std::vector<std::string> const& variables,
                               std::string const& log_file) {
        std::vector<char*> argv;
        for (std::string const& argument : arguments)
            argv.push_back(const_cast<char*>(argument.c_str()));
        argv.push_back(nullptr);
        std::vector<char*> envp = environment_with(variables);
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) fail_with(errno, "pipe2");
        const net::unique_fd from_child{ends[0]};
        net::unique_fd to_parent{ends[1]};

        const pid_t parent = ::getpid();
        const pid_t child = ::fork();
        if (child < 0) fail_with(errno, "fork");
        if (child == 0)
            become_server(argv.data(), envp.data(), log_file.c_str(), parent, to_parent.get());

        to_parent.reset(); // now the pipe ends with the child's exec
        int error = 0;
        ssize_t received = 0;
        do received = ::read(from_child.get(), &error, sizeof error);
        while (received < 0 && errno == EINTR);
        if (received > 0) {
            ::waitpid(child, nullptr, 0);
            fail_with(error, "cannot run " + arguments.front());
        }
        return child;
    }

    // The environment of this process with these variables ("NAME=value") in it.
    static std::vector<char*> environment_with(std::vector<std::string> const& variables) {
        std::vector<char*> envp;
        for (std::string const& variable : variables)
            envp.push_back(const_cast<char*>(variable.c_str()));
        for (char** variable = environ; *variable != nullptr; ++variable) {
            std::string_view const text{*variable};
            std::string_view const name = text.substr(0, std::min(text.find('=') + 1, text.size()));
            auto const replaces = [name](std::string const& other) {
                return other.starts_with(name);
            };
            if (std::none_of(variables.begin(), variables.end(), replaces))
                envp.push_back(*variable);
        }
        envp.push_back(nullptr);
        return envp;
    }

    // In the child of a process that may have many threads: nothing but async-signal-safe calls.
    [[noreturn]] static void become_server(char** argv, char** envp, char const* log_file,
                                           pid_t parent, int to_parent) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        ::setpgid(0, 0); // Ctrl-C ends the test, and that ends the servers
        // Sockets of the test (Asio's are not close-on-exec) must not stay open in the server:
        // their peers would not notice when the test closes them.
        constexpr unsigned int close_on_exec = 1U << 2U;
        if (::syscall(SYS_close_range, 3U, ~0U, close_on_exec) != 0)
            for (int fd = 3; fd < 4096; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
        int const input = ::open("/dev/null", O_RDONLY);
        int const log = ::open(log_file, O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(input, STDIN_FILENO);
        ::dup2(log, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
        for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execve(argv[0], argv, envp);
        int const error = errno;
        [[maybe_unused]] const ssize_t told = ::write(to_parent, &error, sizeof error);
        ::_exit(127);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::packaged_task<pid_t()>> tasks_;
    bool stopping_ = false;
    std::thread thread_; // last: it uses the others
};

std::string make_folder() {
    char const* base = environment("TMPDIR");
    // The path of a Unix socket has at most 107 bytes.
    if (base == nullptr || std::strlen(base) > 70) base = "/tmp";
    std::string folder = std::string{base} + "/holdfast-server-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail_with(errno, "mkdtemp " + folder);
    sweep_at_end(folder);
    return folder;
}

std::string describe_end(int status) {
    if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
    if (WIFSIGNALED(status)) return std::string{"was ended by "} + ::strsignal(WTERMSIG(status));
    return "changed state";
}

// The numbers in "Redis server v=8.4.0" and the like; 0.0 for another product.
std::pair<int, int> version_in(std::string const& text, std::string const& product) {
    auto const before = product + " server v=";
    auto const at = text.find(before);
    if (at == std::string::npos) return {};
    char* end = nullptr;
    auto const major = std::strtol(text.c_str() + at + before.size(), &end, 10);
    auto const minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
    return {static_cast<int>(major), static_cast<int>(minor)};
}

std::string version_of(std::string const& binary) {
    static std::mutex mutex;
    static std::map<std::string, std::string> known;
    std::lock_guard const lock{mutex};
    auto const found = known.find(binary);
    if (found != known.end()) return found->second;
    std::string text;
    if (FILE* const output = ::popen(('"' + binary + "\" --version").c_str(), "re")) {
        char buffer[256];
        while (std::fgets(buffer, sizeof buffer, output) != nullptr) text += buffer;
        ::pclose(output);
    }
    known.emplace(binary, text);
    return text;
}

std::chrono::microseconds since_epoch() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
}

// The time in an answer to TIME.
std::chrono::microseconds time_in(reply const& answer) {
    auto const& parts = answer.elements();
    return std::chrono::seconds{std::stoll(parts.at(0).string())} +
           std::chrono::microseconds{std::stoll(parts.at(1).string())};
}

} // namespace

std::vector<server_kind> available_servers() {
    std::vector<server_kind> kinds;
    if (char const* folder = environment("HOLDFAST_SERVERS_DIR")) {
        std::error_code ignored;
        for (fs::directory_entry const& entry : fs::directory_iterator{folder, ignored}) {
            const fs::path binary = fs::absolute(entry.path() / "server");
            if (is_executable(binary))
                kinds.push_back({entry.path().filename().string(), binary.string()});
        }
        std::sort(kinds.begin(), kinds.end(),
                  [](auto const& a, auto const& b) { return a.name < b.name; });
    }
    if (!kinds.empty()) return kinds;
    if (char const* binary = environment("HOLDFAST_REDIS_SERVER")) {
        if (std::strchr(binary, '/') != nullptr) return {{"system", fs::absolute(binary).string()}};
        if (auto const found = find_in_path(binary)) return {{"system", *found}};
    }
    for (char const* program : {"redis-server", "valkey-server"})
        if (auto const found = find_in_path(program)) return {{"system", *found}};
    return kinds;
}

std::optional<server_kind> find_server(std::string_view name) {
    for (server_kind& kind : available_servers())
        if (kind.name == name) return std::move(kind);
    return std::nullopt;
}

server_kind default_server() {
    if (char const* wanted = environment("HOLDFAST_SERVER_KIND")) {
        if (auto found = find_server(wanted)) return *found;
        throw std::runtime_error{std::string{"no server of the kind HOLDFAST_SERVER_KIND="} +
                                 wanted};
    }
    if (auto found = find_server("redis-7.0")) return *found;
    std::vector<server_kind> kinds = available_servers();
    if (kinds.empty())
        throw std::runtime_error{
            "no Redis or Valkey server: set HOLDFAST_SERVERS_DIR or HOLDFAST_REDIS_SERVER, "
            "or install redis-server"};
    return kinds.front();
}

bool tls_by_default() {
    static bool const chosen = environment("HOLDFAST_TEST_TLS") != nullptr;
    return chosen;
}

server::server(server_options options)
    : server{std::move(options), without_waiting{}} {
    wait_ready();
}

server::server(server_options options, without_waiting)
    : options_{std::move(options)}
    , folder_{make_folder()}
    , exceptions_at_start_{std::uncaught_exceptions()} {
    try {
        use_tls();
        for (std::string const& name : options_.extra_ports) extra_ports_[name];
        if (options_.shiftable_clock) clock_.emplace(folder_).advance(options_.first_shift);
        if (options_.config) std::ofstream{folder_ + "/server.conf"} << expanded(*options_.config);
        spawn();
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
        throw;
    }
}

// wait_ready() in the first constructor may throw: this runs then too, since the second has
// completed.
server::~server() {
    bool const healthy = pid_ < 0 || running();
    bool const suspect =
        died_by_itself_ || !healthy || std::uncaught_exceptions() > exceptions_at_start_;
    if (suspect && !reported_) {
        std::cerr << "--- " << options_.kind.name << " at " << address() << ' '
                  << (end_.empty() ? "is running" : end_) << "; the end of its log:\n"
                  << log_tail() << "---" << std::endl;
    }
    note_refusals();
    if (pid_ > 0) {
        send_signal_to_group(SIGKILL); // ends a frozen process as well
        wait_for(awaited::end, 30s);
    }
    if (environment("HOLDFAST_KEEP_FOLDERS") != nullptr) return;
    std::error_code error;
    for (int i = 0; i < 5; ++i) { // a child of the server that saves may still write for an instant
        fs::remove_all(folder_, error);
        if (!error) break;
    }
}

// A test about TLS brings its own certificates, and a configuration is Sentinel's.
void server::use_tls() {
    auto& ports = options_.extra_ports;
    auto const has_its_own = std::find(ports.begin(), ports.end(), "tls-port") != ports.end();
    options_.tls = options_.tls && !has_its_own && !options_.config;
    if (!options_.tls) return;
    ports.emplace_back("tls-port");
    static certificates const made = make_certificates("IP:127.0.0.1");
    std::ofstream{folder_ + "/ca.pem"} << made.authority;
    std::ofstream{folder_ + "/server.pem"} << made.certificate << made.key;
}

std::string server::shown() const {
    if (!options_.tls) return address();
    return "rediss://127.0.0.1:" + std::to_string(port("tls-port"));
}

std::string server::url() const {
    if (!options_.tls) return access::url(address());
    auto const plain = access::url("127.0.0.1:" + std::to_string(port("tls-port")));
    return "rediss" + plain.substr(plain.find(':')) + "?ca=" + folder_ + "/ca.pem";
}

std::string server::expanded(std::string text) const {
    auto const replace = [&text](std::string const& placeholder, std::string const& value) {
        for (std::size_t at = text.find(placeholder); at != std::string::npos;
             at = text.find(placeholder, at + value.size()))
            text.replace(at, placeholder.size(), value);
    };
    replace("{dir}", folder_);
    for (auto const& [name, port] : extra_ports_)
        replace("{" + name + "}", std::to_string(port.number()));
    return text;
}

void server::spawn() {
    std::vector<std::string> arguments{options_.kind.binary};
    if (options_.config) arguments.push_back(folder_ + "/server.conf");
    auto const add = [&](std::initializer_list<std::string> words) {
        arguments.insert(arguments.end(), words.begin(), words.end());
    };
    add({"--port", std::to_string(port()), "--bind", "127.0.0.1", "--unixsocket", unix_socket()});
    add({"--dir", folder_, "--daemonize", "no", "--logfile", "", "--save", "", "--appendonly",
         "no"});
    // jemalloc's threads wait by the wall clock: when it goes back, some versions wait no more, and
    // spin.
    if (clock_) add({"--jemalloc-bg-thread", "no"});
    for (auto const& [name, port] : extra_ports_) add({"--" + name, std::to_string(port.number())});
    if (options_.tls) {
        auto const pair = folder_ + "/server.pem";
        add({"--tls-ca-cert-file", folder_ + "/ca.pem", "--tls-cert-file", pair, "--tls-key-file",
             pair, "--tls-auth-clients", "no"});
    }
    // A configuration is Sentinel's.
    if (!options_.config) {
        add({"--user", std::string(access::user), "on", '>' + std::string(access::password)});
        for (std::string const& rule : rules()) add({rule});
    }
    for (std::string const& argument : options_.arguments) arguments.push_back(expanded(argument));

    std::vector<std::string> variables;
    if (clock_) variables = clock_->environment();

    ::unlink(unix_socket().c_str()); // of a run before this
    end_.clear();
    died_by_itself_ = false;
    frozen_ = false;
    started_ = std::chrono::steady_clock::now();
    pid_ = spawner::instance().spawn(std::move(arguments), std::move(variables), folder_ + "/log");
}

// Over the Unix socket in the folder of this object: the server that answers there is its child.
// Servers listen on it only after they could listen on their TCP ports.
std::optional<reply> server::ask(command_line const& words) const {
    const net::unique_fd socket = net::connect_to_path(unix_socket());
    if (!socket) return std::nullopt;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
        peer.pid != pid_)
        fail("runs as a child of " + options_.kind.binary + ", which must `exec` it");
    std::string question = resp::command(words);
    std::size_t replies = 1;
    auto const& arguments = options_.arguments;
    auto const option = std::find(arguments.begin(), arguments.end(), "--requirepass");
    if (option != arguments.end() && option + 1 != arguments.end()) {
        question = resp::command({"AUTH", option[1]}) + question;
        replies = 2;
    }
    if (::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(question.size()))
        return std::nullopt;
    std::string received;
    std::string_view rest;
    for (reply last;;) {
        while (std::optional<reply> next = resp::take_reply(rest)) {
            last = std::move(*next);
            --replies;
        }
        if (replies == 0) return last;
        pollfd ready{socket.get(), POLLIN, 0};
        if (::poll(&ready, 1, 100) <= 0) return std::nullopt;
        char buffer[4096];
        const ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (count <= 0) return std::nullopt;
        received.assign(std::string{rest}).append(buffer, static_cast<std::size_t>(count));
        rest = received;
    }
}

// A server that wants a password says so also while it still loads its data: it is ready only when
// it answers after AUTH. One with other users and no `requirepass` counts as ready when it says so.
bool server::answers() const {
    auto const said = ask({"PING"});
    if (!said) return false;
    return !said->is_error() || said->error().starts_with("NOAUTH") ||
           said->error().starts_with("NOPERM");
}

void server::wait_ready() {
    auto const elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - started_);
    bool alive = true;
    bool const ready = wait_until(
        [&] {
            alive = running();
            return !alive || answers();
        },
        std::max(0ms, options_.start_timeout - elapsed));
    reported_ = !alive || !ready;
    if (!alive) fail("did not start: it " + end_);
    if (!ready)
        fail("did not answer PING within " + std::to_string(options_.start_timeout.count()) +
             " ms");
    reported_ = clock_ && !clock_->used_by(pid_);
    if (reported_) fail("cannot have a shifted clock: is it linked statically?");
}

bool server::running() {
    if (pid_ < 0) return false;
    if (wait_for(awaited::end, 0ms)) {
        died_by_itself_ = true;
        return false;
    }
    return true;
}

void server::freeze() {
    if (frozen_) return;
    send_signal(SIGSTOP);
    if (!wait_for(awaited::stop, 30s)) fail("could not be frozen");
    frozen_ = true;
}

void server::thaw() {
    if (!frozen_ || pid_ < 0) return;
    send_signal(SIGCONT);
    if (!wait_for(awaited::continuation, 30s)) fail("could not be thawed");
    frozen_ = false;
}

std::string native_delete(server_kind const& kind) {
    auto const text = version_of(kind.binary);
    if (version_in(text, "Valkey") >= std::pair{9, 0}) return "delifeq";
    if (version_in(text, "Redis") >= std::pair{8, 4}) return "delex";
    return {};
}

access::rules documented_rules(server_kind const& kind, std::string_view prefix) {
    access::rules all = access::all(prefix);
    if (auto const command = native_delete(kind); !command.empty()) all.push_back('+' + command);
    return all;
}

access::rules server::rules(std::string_view prefix) const {
    access::rules all = documented_rules(options_.kind, prefix);
    for (std::string const& rule : options_.missing_rules) std::erase(all, rule);
    return all;
}

std::vector<std::string> server::refusals() const {
    auto const log = ask({"ACL", "LOG", "128"});
    return log ? access::refusals_in(*log) : std::vector<std::string>{};
}

// One that is frozen, or stuck in a script, cannot be asked.
void server::note_refusals() noexcept try {
    if (pid_ < 0 || frozen_ || options_.refuses || !running()) return;
    access::add_unexpected_refusals(options_.kind.name + " at " + address(), refusals());
} catch (...) { // the test has failed for a better reason
}

void server::kill() {
    if (pid_ < 0) return;
    note_refusals();
    send_signal_to_group(SIGKILL);
    if (!wait_for(awaited::end, 30s)) fail("could not be killed");
}

void server::stop() {
    if (pid_ < 0) return;
    thaw();
    note_refusals();
    send_signal(SIGTERM);
    if (wait_for(awaited::end, 10s)) return;
    kill();
    fail("did not stop on SIGTERM within 10 s");
}

void server::restart() {
    stop();
    spawn();
    wait_ready();
}

void server::shift_clock(std::chrono::milliseconds by) {
    if (!clock_) throw std::logic_error{"shift_clock() needs server_options::shiftable_clock"};
    if (by == 0ms) return;
    clock_->advance(by);
    auto const moved = std::chrono::steady_clock::now();
    bool const seen = wait_until([&] {
        if (!running()) return true; // it starts in its new time
        auto const asked = std::chrono::steady_clock::now();
        // Valkey 9 asks for the time once in a millisecond and reckons between. That one is over
        // then, also where it does not tell the time: it is frozen, or the user whom we come as has
        // no right to TIME.
        bool const reads_anew = asked > moved + 2ms;
        if (frozen_) return reads_anew;
        auto const before = since_epoch();
        auto const said = ask({"TIME"});
        auto const after = since_epoch();
        if (!said) return false;
        if (said->is_error()) return reads_anew;
        // The old time must not pass for the new one, however long the asking took.
        auto const tolerated = std::min<std::chrono::microseconds>(50ms, std::chrono::abs(by) / 4);
        auto const unshifted = time_in(*said) - clock_->shift();
        return after - before + tolerated < std::chrono::abs(by) &&
               unshifted >= before - tolerated && unshifted <= after + tolerated;
    });
    if (!seen) fail("does not show the time that it was moved to");
}

std::chrono::milliseconds server::clock_shift() const noexcept {
    return clock_ ? clock_->shift() : 0ms;
}

bool server::wait_for(awaited state, std::chrono::milliseconds timeout) {
    int const options = WNOHANG | (state == awaited::stop ? WUNTRACED : 0) |
                        (state == awaited::continuation ? WCONTINUED : 0);
    return wait_until(
        [&] {
            int status = 0;
            const pid_t changed = ::waitpid(pid_, &status, options);
            if (changed == 0 || (changed < 0 && errno == EINTR)) return false;
            if (changed < 0) end_ = "is gone: somebody else waited for it";
            const bool ended = changed < 0 || WIFEXITED(status) || WIFSIGNALED(status);
            if (!ended) return state == awaited::stop ? WIFSTOPPED(status) : WIFCONTINUED(status);
            if (changed > 0) end_ = describe_end(status);
            pid_ = -1;
            frozen_ = false;
            if (state != awaited::end) {
                died_by_itself_ = true;
                fail(end_);
            }
            return true;
        },
        timeout);
}

void server::send_signal(int signal) const {
    if (pid_ < 0) fail("does not run: it " + end_);
    if (::kill(pid_, signal) != 0) fail_with(errno, "kill");
}

// The child leads a group of its own: children of the server that save or rewrite go with it.
void server::send_signal_to_group(int signal) const noexcept {
    ::kill(-pid_, signal);
}

std::string server::log_tail(std::size_t lines) const {
    std::ifstream log{folder_ + "/log"};
    std::deque<std::string> tail;
    for (std::string line; std::getline(log, line);) {
        tail.push_back(line);
        if (tail.size() > lines) tail.pop_front();
    }
    std::string text;
    for (std::string const& line : tail) text += "    " + line + '\n';
    return text;
}

void server::fail(std::string const& problem) const {
    throw std::runtime_error{options_.kind.name + " at " + address() + ' ' + problem +
                             "\nthe end of its log:\n" + log_tail()};
}

} // namespace holdfast::test
