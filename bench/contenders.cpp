#include "contenders.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "latency.hpp"
#include "pings.hpp"
#include "process.hpp"
#include "series.hpp"
#include "workload.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock; // CLOCK_MONOTONIC, the same in every process
namespace json = boost::json;

constexpr auto start_patience = 30s; // until every client is up
constexpr auto drain_patience = 20s; // for waiters that are left at the end
constexpr auto end_patience = 20s;   // for the summary of a child after that
constexpr auto lead = 100ms;         // from the go signal to the start
constexpr unsigned yield_every = 16;

std::int64_t now_ns() {
    return std::chrono::nanoseconds(clock::now().time_since_epoch()).count();
}

clock::time_point at_ns(std::int64_t ns) {
    return clock::time_point(std::chrono::nanoseconds(ns));
}

// A turn of a coroutine, with times in ns.
struct section {
    std::int64_t asked;    // acquire was called
    std::int64_t acquired; // it completed
    std::int64_t left;     // release was called
    std::uint64_t fence;   // 0 without fences
};

// The summary that a child sends at the end, before its sections. The counts cover the time between
// start and end.
struct summary {
    std::uint64_t sections;
    std::uint64_t failed;
    std::uint64_t commands;
    std::uint64_t acquired;
    std::uint64_t handovers;
    std::uint64_t pushes;
    std::uint64_t wasted_wakeups;
    std::uint64_t split_votes;
    std::uint64_t rounds;
    std::uint64_t raises;
    std::uint64_t lost;
};

// The child

struct worker_settings {
    unsigned index = 0;
    std::vector<address> instances;
    unsigned coroutines = 1;
    std::chrono::microseconds hold{0};
    std::chrono::nanoseconds duration{0};
    std::chrono::milliseconds ttl{10'000};
    bool thread_safe = true;
    bool fencing = false;
    bool fair = false;
};

// A child talks to its parent over its standard input, a socket. It sends a byte when its client is
// up, and receives the start time. At the end, it sends its summary and its sections.
class worker {
public:
    explicit worker(worker_settings s)
        : settings_(std::move(s))
        , parent_(context_, ::dup(STDIN_FILENO))
        , client_(
              context_.get_executor(), settings_.instances,
              {.thread_safe = settings_.thread_safe, .instance_timeout = 5s, .connect_timeout = 5s})
        , key_(client_.make_lock(
              "bench:hotkey",
              {.ttl = settings_.ttl, .fencing = settings_.fencing, .fair = settings_.fair})) {
        auto const seconds = std::chrono::duration<double>(settings_.duration).count();
        sections_.reserve(static_cast<std::size_t>(std::min(seconds * 5e5, 2e7)) +
                          settings_.coroutines);
    }

    void run() {
        asio::co_spawn(context_, everything(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context_.run();
    }

private:
    asio::awaitable<void> everything() {
        co_await connected();
        co_await warm();
        char const ready = 'r';
        co_await asio::async_write(parent_, asio::buffer(&ready, 1), asio::deferred);
        co_await asio::async_read(parent_, asio::buffer(&start_ns_, sizeof start_ns_),
                                  asio::deferred);
        end_ns_ = start_ns_ + settings_.duration.count();
        co_await measure();
        co_await drain();
        summary_.sections = sections_.size();
        summary_.failed = failed_;
        co_await asio::async_write(parent_, asio::buffer(&summary_, sizeof summary_),
                                   asio::deferred);
        co_await asio::async_write(parent_, asio::buffer(sections_), asio::deferred);
    }

    asio::awaitable<void> measure() {
        asio::steady_timer timer(context_, at_ns(start_ns_));
        co_await timer.async_wait(asio::deferred);
        auto const before = client_.stats();
        for (unsigned i = 0; i < settings_.coroutines; ++i) {
            ++running_;
            asio::co_spawn(context_, work(i), [this](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
                --running_;
            });
        }
        timer.expires_at(at_ns(end_ns_));
        co_await timer.async_wait(asio::deferred);
        auto const after = client_.stats();
        summary_.commands = after.commands - before.commands;
        summary_.acquired = after.acquired - before.acquired;
        summary_.handovers = after.handovers - before.handovers;
        summary_.pushes = after.pushes - before.pushes;
        summary_.wasted_wakeups = after.wasted_wakeups - before.wasted_wakeups;
        summary_.split_votes = after.split_votes - before.split_votes;
        summary_.rounds = after.rounds - before.rounds;
        summary_.raises = after.raises - before.raises;
        summary_.lost = after.lost - before.lost;
    }

    // Coroutines that still wait get their turn. Otherwise a wait that is cut off would look short.
    asio::awaitable<void> drain() {
        asio::steady_timer timer(context_);
        auto const give_up = clock::now() + drain_patience;
        while (running_ > 0 && clock::now() < give_up) {
            timer.expires_after(1ms);
            co_await timer.async_wait(asio::deferred);
        }
        co_await client_.shutdown();
        while (running_ > 0) {
            timer.expires_after(1ms);
            co_await timer.async_wait(asio::deferred);
        }
    }

    asio::awaitable<void> connected() {
        asio::steady_timer timer(context_);
        auto const give_up = clock::now() + start_patience;
        for (;;) {
            if (all_up(client_)) co_return;
            if (clock::now() > give_up) throw std::runtime_error("the instances do not come up");
            timer.expires_after(5ms);
            co_await timer.async_wait(asio::deferred);
        }
    }

    // Acquires a key of its own, so that buffers grow and the servers load the scripts.
    asio::awaitable<void> warm() {
        auto const own = client_.make_lock("bench:hotkey:warm:" + std::to_string(settings_.index),
                                           {.fencing = settings_.fencing, .fair = settings_.fair});
        for (int i = 0; i < 20; ++i) {
            auto held = co_await own.acquire();
            co_await held.release();
        }
    }

    asio::awaitable<void> work(unsigned turn) {
        asio::steady_timer timer(context_);
        auto asked = now_ns();
        while (asked < end_ns_) {
            auto r = co_await key_.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) {
                ++failed_;
                asked = now_ns();
                continue;
            }
            auto const acquired = now_ns();
            if (settings_.hold > 0us) {
                timer.expires_after(settings_.hold);
                co_await timer.async_wait(asio::deferred);
            } else if (++turn % yield_every == 0) {
                // Without a suspension, sections of one thread cannot overlap, even if the lock is
                // broken. With it they can.
                co_await asio::post(context_, asio::deferred);
            }
            auto const left = now_ns();
            sections_.push_back({asked, acquired, left, held.fence()});
            auto const released = co_await held.release();
            if (!released.confirmed()) ++failed_;
            asked = now_ns();
        }
    }

    worker_settings settings_;
    asio::io_context context_{1};
    asio::posix::stream_descriptor parent_;
    holdfast::client client_;
    lock key_;
    std::vector<section> sections_;
    summary summary_{};
    std::int64_t start_ns_ = 0;
    std::int64_t end_ns_ = 0;
    unsigned running_ = 0;
    std::uint64_t failed_ = 0;
};

// The parent

// The parent's end of a worker.
class child {
public:
    child(unsigned index, std::vector<std::string> arguments)
        : index_(index) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            fail_with(errno, "socketpair");
        socket_ = test::net::unique_fd(ends[0]);
        test::net::unique_fd const theirs(ends[1]);
        // The child's output goes to the standard error, as the standard output is for the result
        // only.
        process_.emplace(std::move(arguments),
                         std::array<int, 3>{theirs.get(), STDERR_FILENO, STDERR_FILENO});
    }

    int descriptor() const { return socket_.get(); }
    bool is_ready() const { return ready_; }
    bool is_done() const { return done_; }
    summary const& figures() const { return summary_; }
    std::vector<section> const& sections() const { return sections_; }

    void go(std::int64_t start) {
        if (::send(socket_.get(), &start, sizeof start, MSG_NOSIGNAL) != sizeof start) died();
    }

    // Reads the received bytes. To be called when the descriptor is readable.
    void receive() {
        if (!ready_) {
            char byte = 0;
            if (read(&byte, 1) == 1) ready_ = true;
            return;
        }
        if (received_ < sizeof summary_) {
            received_ += read(reinterpret_cast<char*>(&summary_) + received_,
                              sizeof summary_ - received_); // NOLINT
            if (received_ == sizeof summary_) sections_.resize(summary_.sections);
        } else {
            auto const at = received_ - sizeof summary_;
            received_ += read(reinterpret_cast<char*>(sections_.data()) + at, // NOLINT
                              sections_.size() * sizeof(section) - at);
        }
        if (received_ < sizeof summary_ ||
            received_ < sizeof summary_ + sections_.size() * sizeof(section))
            return;
        done_ = true;
        auto const status = process_->wait(clock::now() + end_patience);
        if (!status || *status != 0) throw std::runtime_error(name() + " " + describe_end(status));
    }

    std::string name() const { return "hotkey-worker " + std::to_string(index_); }

private:
    std::size_t read(char* to, std::size_t size) {
        for (;;) {
            auto const got = ::recv(socket_.get(), to, size, MSG_DONTWAIT);
            if (got > 0) return static_cast<std::size_t>(got);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return 0;
            died();
        }
    }

    [[noreturn]] void died() {
        throw std::runtime_error(name() + " " + describe_end(process_->wait(clock::now() + 2s)));
    }

    unsigned index_;
    test::net::unique_fd socket_;
    std::optional<process> process_;
    bool ready_ = false;
    bool done_ = false;
    std::size_t received_ = 0;
    summary summary_{};
    std::vector<section> sections_;
};

template <class Done>
void receive_until(std::vector<child>& children, clock::time_point deadline, Done done) {
    for (;;) {
        std::vector<pollfd> waiting;
        std::vector<child*> polled;
        for (auto& c : children) {
            if (done(c)) continue;
            waiting.push_back({c.descriptor(), POLLIN, 0});
            polled.push_back(&c);
        }
        if (waiting.empty()) return;
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
        if (left <= 0ms) throw std::runtime_error(polled.front()->name() + " was not done in time");
        if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0 &&
            errno != EINTR)
            fail_with(errno, "poll");
        for (std::size_t i = 0; i < waiting.size(); ++i)
            if (waiting[i].revents != 0) polled[i]->receive();
    }
}

} // namespace

std::string ports_of(test::fleet const& servers) {
    std::string list;
    for (auto const& server : servers)
        list += (list.empty() ? "" : ",") + std::to_string(server.port());
    return list;
}

figures measure_contenders(test::fleet const& servers, contention const& s) {
    latency idle_pings;
    ping_idle(servers, idle_pings);
    std::vector<child> children;
    children.reserve(s.processes);
    auto const executable = std::filesystem::read_symlink("/proc/self/exe").string();
    auto const duration = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(s.seconds));
    for (unsigned i = 0; i < s.processes; ++i) {
        std::vector<std::string> arguments{executable,
                                           "hotkey-worker",
                                           std::to_string(i),
                                           ports_of(servers),
                                           std::to_string(s.coroutines),
                                           std::to_string(s.hold.count()),
                                           std::to_string(duration.count()),
                                           std::to_string(s.ttl.count()),
                                           s.single_threaded ? "0" : "1",
                                           s.fencing ? "1" : "0",
                                           s.fair ? "1" : "0",
                                           std::to_string(::getpid())};
        children.emplace_back(i, std::move(arguments));
    }
    receive_until(children, clock::now() + start_patience + 5s,
                  [](child const& c) { return c.is_ready(); });
    auto const start = clock::now() + lead;
    auto const end = start + duration;
    pings_meanwhile meanwhile(servers);
    for (auto& c : children) c.go(std::chrono::nanoseconds(start.time_since_epoch()).count());
    receive_until(children, end + drain_patience + end_patience,
                  [](child const& c) { return c.is_done(); });
    auto const& pings = meanwhile.stop();
    ping_idle(servers, idle_pings);

    struct visit {
        std::int64_t acquired;
        std::int64_t left;
        std::uint64_t fence;
        unsigned process;
    };
    std::vector<visit> visits;
    summary sum{};
    std::int64_t longest_wait = 0;
    auto const end_ns = std::chrono::nanoseconds(end.time_since_epoch()).count();
    std::uint64_t in_time = 0;
    std::uint64_t fewest = std::uint64_t(-1);
    for (unsigned i = 0; i < children.size(); ++i) {
        auto const& f = children[i].figures();
        sum.failed += f.failed;
        sum.commands += f.commands;
        sum.acquired += f.acquired;
        sum.handovers += f.handovers;
        sum.pushes += f.pushes;
        sum.wasted_wakeups += f.wasted_wakeups;
        sum.split_votes += f.split_votes;
        sum.rounds += f.rounds;
        sum.raises += f.raises;
        sum.lost += f.lost;
        std::uint64_t own = 0;
        visits.reserve(visits.size() + children[i].sections().size());
        for (auto const& visit : children[i].sections()) {
            visits.push_back({visit.acquired, visit.left, visit.fence, i});
            longest_wait = std::max(longest_wait, visit.acquired - visit.asked);
            if (visit.acquired < end_ns) ++own;
        }
        in_time += own;
        fewest = std::min(fewest, own);
    }
    std::sort(visits.begin(), visits.end(),
              [](visit const& a, visit const& b) { return a.acquired < b.acquired; });
    std::uint64_t violations = 0;
    std::uint64_t fence_violations = 0;
    std::uint64_t greatest_fence = 0;
    latency handovers;
    std::int64_t all_left = 0;
    for (std::size_t i = 0; i < visits.size(); ++i) {
        auto const& visit = visits[i];
        if (visit.acquired < all_left) ++violations;
        // Each lease has a greater fence than the one before.
        if (s.fencing && visit.fence <= greatest_fence) ++fence_violations;
        greatest_fence = std::max(greatest_fence, visit.fence);
        if (i > 0 && visit.process != visits[i - 1].process && visit.acquired < end_ns)
            handovers.record(std::chrono::nanoseconds(visit.acquired - visits[i - 1].left));
        all_left = std::max(all_left, visit.left);
    }

    auto const rate = static_cast<double>(in_time) / s.seconds;
    figures of{
        {"acquisitions_per_s", rate},
        {"sections_per_s", rate},
        {"max_wait_ms", static_cast<double>(longest_wait) / 1e6},
        {"failed", static_cast<double>(sum.failed)},
        {"violations", static_cast<double>(violations)},
        {"lost", static_cast<double>(sum.lost)},
        {"handovers", static_cast<double>(sum.handovers)},
        {"pushes", static_cast<double>(sum.pushes)},
        {"wasted_wakeups", static_cast<double>(sum.wasted_wakeups)},
        {"split_votes", static_cast<double>(sum.split_votes)},
        {"set_rounds", static_cast<double>(sum.rounds)},
        {"ping_us", pings.percentile(50)},
        {"idle_ping_us", idle_pings.percentile(50)},
    };
    if (sum.acquired > 0)
        of["commands_per_acquisition"] =
            static_cast<double>(sum.commands) / static_cast<double>(sum.acquired);
    if (s.fencing) {
        // One tenure serves several coroutines of a process, so it is won less often than leases
        // are granted.
        auto const tenures =
            static_cast<double>(sum.acquired - std::min(sum.handovers, sum.acquired));
        of["fence_violations"] = static_cast<double>(fence_violations);
        of["tenures"] = tenures;
        of["raises"] = static_cast<double>(sum.raises);
        if (tenures > 0) of["raises_percent"] = static_cast<double>(sum.raises) / tenures * 100;
    }
    if (s.processes > 1) {
        of["handovers"] = static_cast<double>(handovers.count());
        if (in_time > 0)
            of["min_share"] =
                static_cast<double>(fewest) / static_cast<double>(in_time) * s.processes;
    }
    if (handovers.count() > 0) {
        auto const p50 = handovers.percentile(50);
        auto const ideal = 1e6 / (static_cast<double>(s.hold.count()) + p50);
        of["handover_p50_us"] = p50;
        of["handover_p99_us"] = handovers.percentile(99);
        of["handover_pings"] = ratio(p50, pings.percentile(50));
        of["ideal_sections_per_s"] = ideal;
        of["share_of_ideal"] = rate / ideal;
    }
    return of;
}

json::object combined(std::vector<figures> const& rounds) {
    std::map<std::string, std::vector<double>> by_name;
    for (auto const& round : rounds)
        for (auto const& [name, value] : round) by_name[name].push_back(value);
    json::object result;
    for (auto& [name, values] : by_name) {
        if (name == "failed" || name == "violations" || name == "fence_violations") {
            double sum = 0;
            for (auto const value : values) sum += value;
            result[name] = sum;
        } else {
            result[name] =
                json_value(name == "max_wait_ms" ? *std::max_element(values.begin(), values.end())
                                                 : median(values));
        }
    }
    return result;
}

int hotkey_worker(int argc, char** argv) {
    try {
        if (argc != 12) throw std::invalid_argument("is started by a scenario");
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != std::stoi(argv[11])) return 1;
        worker_settings s;
        s.index = static_cast<unsigned>(std::stoul(argv[2]));
        std::string_view ports = argv[3];
        while (!ports.empty()) {
            auto const length = std::min(ports.find(','), ports.size());
            s.instances.emplace_back("127.0.0.1:" + std::string(ports.substr(0, length)));
            ports.remove_prefix(std::min(length + 1, ports.size()));
        }
        s.coroutines = static_cast<unsigned>(std::stoul(argv[4]));
        s.hold = std::chrono::microseconds(std::stoll(argv[5]));
        s.duration = std::chrono::nanoseconds(std::stoll(argv[6]));
        s.ttl = std::chrono::milliseconds(std::stoll(argv[7]));
        s.thread_safe = std::string_view(argv[8]) == "1";
        s.fencing = std::string_view(argv[9]) == "1";
        s.fair = std::string_view(argv[10]) == "1";
        worker(std::move(s)).run();
        return 0;
    } catch (std::exception const& e) {
        std::cerr << "hotkey-worker: " << e.what() << '\n';
        return 1;
    }
}

} // namespace holdfast::bench
