// Thousands of coroutines acquire a few hundred locks. The program checks that no lock ever has two
// holders.
//
//   stress --instances HOST:PORT,... --witness HOST:PORT [options]
//     --coroutines N   (2000)
//     --keys N         (500)
//     --seconds N      (10)
//     --ttl MS         (3000)
//     --wait MS        (10000)    how long a coroutine waits for a lock
//     --faults COMMAND            a shell command that starts after a fifth of the time. Its output
//                                 is shown. It may freeze or kill instances, as long as a quorum
//                                 stays.
//     --fences on|off  (off)      locks with fences
//     --journal FILE              writes when each lease began and ended, and what the faults said;
//                                 tools/timeline draws it
//
// The witness is a Redis that is no instance of the locks. Under the lock, a coroutine reads a
// counter of the key on the witness, and writes it back increased by one, in two steps. If two
// coroutines overlap there, that is a violation. It shows at once if both are in this process.
// Otherwise it shows at the end: the counter is less than the total that the witness itself has
// added up.
//
// Several of these programs may run at once with the same instances and witness. With --keys 1, all
// their coroutines contend for one key. "Handed on" counts the leases that came from a holder of
// the same process, without a command to the servers. "Woken" counts the releases by other
// processes that led to a try of this one.
//
// The exit status is 0 only if there was no violation, and each failure has a reason.
#include <holdfast/client.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/redis/connection.hpp>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace redis = boost::redis;
using clock_type = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct settings {
    std::vector<holdfast::address> instances;
    std::string witness;
    std::string faults;
    std::string journal;
    bool fences = false;
    unsigned coroutines = 2000;
    unsigned keys = 500;
    unsigned seconds = 10;
    std::chrono::milliseconds ttl{3000};
    std::chrono::milliseconds wait{10'000};
};

// The results of the coroutines.
struct results {
    std::vector<clock_type::duration> second; ///< latencies since the last live line
    std::vector<clock_type::duration> all;
    std::map<std::string, unsigned> failures; ///< failed acquires, by error
    std::vector<unsigned> inside; ///< holders in the section of each key, in this process
    unsigned violations = 0;
    unsigned lost = 0; ///< leases that ended within the section; their holders wrote nothing
    unsigned release_failed = 0; ///< releases that no quorum confirmed
    unsigned witness_failed = 0;
    unsigned fault_command_failed = 0;
};

double milliseconds(clock_type::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
}

clock_type::duration percentile(std::vector<clock_type::duration>& of, double share) {
    if (of.empty()) return {};
    auto const at =
        of.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(of.size() - 1));
    std::nth_element(of.begin(), at, of.end());
    return *at;
}

using lease_time = holdfast::lease_clock::time_point;

/// Who held what, and when: a text file for tools/timeline, of about 25 bytes a lease. All times
/// are in microseconds. Its lines are
/// - `begin TIME PREFIX`, with the time since boot, from which the other lines count, and the
/// prefix
///   of the keys;
/// - `held START LENGTH KEY COROUTINE [FENCE]` for a lease that its holder released;
/// - `lost START LENGTH KEY COROUTINE [FENCE]` for a lease that ended before;
/// - `fault TIME TEXT`, and at the end `end TIME`, without which the journal is incomplete.
///
/// A lease stands there from the time at which its holder had it until just before the holder
/// released it. At most 64 KiB wait in memory.
class journal {
public:
    /// With an empty name, nothing is written.
    explicit journal(std::string const& name)
        : name_(name)
        , begin_(std::chrono::floor<std::chrono::microseconds>(holdfast::lease_clock::now())) {
        if (name_.empty()) return;
        file_.open(name_, std::ios::binary);
        if (!file_) throw std::runtime_error("cannot write the journal \"" + name_ + '"');
        text_.resize(64 * 1024);
        line("begin", microseconds(begin_.time_since_epoch()), "stress:");
    }

    /// A lease is about to be released. `lost`: its holder has heard of its end.
    void ends(lease_time start, unsigned key, unsigned coroutine, holdfast::lease const& lease,
              bool lost) {
        if (name_.empty()) return;
        auto const now = holdfast::lease_clock::now();
        auto const deadline = lease.deadline();
        auto const event = lost || now >= deadline ? "lost" : "held";
        auto const length = microseconds(std::max(start, std::min(now, deadline)) - start);
        if (lease.fence() == 0)
            line(event, microseconds(start - begin_), length, key, coroutine);
        else
            line(event, microseconds(start - begin_), length, key, coroutine, lease.fence());
    }

    void fault(std::string const& text) { line("fault", now(), text.substr(0, longest)); }

    void end() {
        if (name_.empty()) return;
        line("end", now());
        write();
        file_.close();
        // The picture is missing then, but the locks are as good as they were.
        if (!file_) std::cerr << "stress: the journal \"" << name_ << "\" could not be written\n";
    }

private:
    static constexpr std::size_t longest = 200; ///< of a text; numbers take less

    static std::int64_t microseconds(lease_time::duration d) {
        return std::chrono::floor<std::chrono::microseconds>(d).count();
    }
    std::int64_t now() const { return microseconds(holdfast::lease_clock::now() - begin_); }

    template <class... Fields>
    void line(std::string_view event, Fields const&... fields) {
        if (name_.empty()) return;
        append(event);
        ((text_[used_++] = ' ', append(fields)), ...);
        text_[used_++] = '\n';
        if (used_ + 2 * longest > text_.size()) write();
    }
    void append(std::string_view field) { used_ += field.copy(text_.data() + used_, field.size()); }
    template <std::integral Number>
    void append(Number field) {
        char* const end = text_.data() + text_.size();
        used_ = static_cast<std::size_t>(std::to_chars(text_.data() + used_, end, field).ptr -
                                         text_.data());
    }
    void write() {
        file_.write(text_.data(), static_cast<std::streamsize>(used_));
        used_ = 0;
    }

    std::string name_;
    lease_time begin_;
    std::ofstream file_;
    std::string text_; ///< what is not yet in the file: its first `used_` characters
    std::size_t used_ = 0;
};

/// Limits the time, so that a witness that is gone does not block the program.
auto asked() {
    return asio::cancel_after(5s, asio::as_tuple(asio::deferred));
}

class stress {
public:
    explicit stress(settings s)
        : settings_(std::move(s))
        , locks_(context_.get_executor(), settings_.instances)
        , witness_(context_, redis::logger{redis::logger::level::disabled})
        , journal_(settings_.journal)
        , end_(clock_type::now() + std::chrono::seconds(settings_.seconds)) {
        results_.inside.resize(settings_.keys);
        for (unsigned k = 0; k < settings_.keys; ++k) {
            keys_.push_back(locks_.make_lock("stress:" + std::to_string(k),
                                             {.ttl = settings_.ttl,
                                              .fencing = settings_.fences,
                                              .on_outage = holdfast::outage_policy::fail}));
        }
    }

    bool run() {
        asio::co_spawn(context_, everything(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context_.run();
        journal_.end();
        return report();
    }

private:
    asio::awaitable<void> everything() {
        redis::config config;
        auto const colon = settings_.witness.rfind(':');
        config.addr = {settings_.witness.substr(0, colon), settings_.witness.substr(colon + 1)};
        witness_.async_run(config, asio::detached);
        auto const before = co_await shortfalls();
        for (unsigned i = 0; i < settings_.coroutines; ++i) {
            ++working_;
            asio::co_spawn(context_, worker(i), [this](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
                --working_;
            });
        }
        if (!settings_.faults.empty()) {
            ++working_;
            asio::co_spawn(context_, faults(), [this](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
                --working_;
            });
        }
        asio::steady_timer second(context_);
        for (auto next = clock_type::now() + 1s; working_ > 0; next += 1s) {
            second.expires_at(next);
            co_await second.async_wait(asio::deferred);
            live_line();
        }
        auto const after = co_await shortfalls();
        for (unsigned k = 0; k < settings_.keys; ++k) {
            if (after[k] != before[k]) ++results_.violations;
        }
        last_state_ = locks_.instances();
        stats_ = locks_.stats();
        co_await locks_.shutdown();
        witness_.cancel();
    }

    asio::awaitable<void> worker(unsigned number) {
        std::minstd_rand random(number + 1);
        while (clock_type::now() < end_) {
            unsigned const key = static_cast<unsigned>(random()) % settings_.keys;
            auto const asked = holdfast::lease_clock::now();
            auto acquired = co_await keys_[key].try_acquire_for(settings_.wait, asio::as_tuple);
            auto& [failure, lease] = acquired;
            if (failure) {
                ++results_.failures[failure.code().message()];
                last_failure_ = failure.what();
                continue;
            }
            auto const start = holdfast::lease_clock::now();
            results_.second.push_back(start - asked);
            bool const lost = co_await section(key, lease);
            // Before the release, because the next holder may have the lock before this one hears
            // of it.
            journal_.ends(start, key, number, lease, lost);
            auto const released = co_await lease.release();
            if (released == holdfast::errc::no_quorum) ++results_.release_failed;
        }
    }

    // The critical section. It is not atomic on purpose. Returns whether the lease was lost in it.
    asio::awaitable<bool> section(unsigned key, holdfast::lease& lease) {
        bool lost = false;
        ++held_;
        if (results_.inside[key]++ != 0) ++results_.violations;
        redis::request get;
        get.push("GET", counter_of(key));
        redis::response<std::optional<long>> value;
        auto read = co_await witness_.async_exec(get, value, asked());
        if (std::get<0>(read) || !std::get<0>(value).has_value()) {
            ++results_.witness_failed;
        } else if (!lease.held()) {
            lost = true;
            ++results_.lost;
        } else {
            redis::request set;
            set.push("MULTI");
            set.push("SET", counter_of(key), std::get<0>(value).value().value_or(0) + 1);
            set.push("INCR", total_of(key));
            set.push("EXEC");
            auto written = co_await witness_.async_exec(set, redis::ignore, asked());
            if (std::get<0>(written)) ++results_.witness_failed;
        }
        --results_.inside[key];
        --held_;
        co_return lost;
    }

    asio::awaitable<void> faults() {
        asio::steady_timer timer(context_, std::chrono::milliseconds(settings_.seconds * 200));
        co_await timer.async_wait(asio::deferred);
        auto* const pipe = ::popen(settings_.faults.c_str(), "r");
        if (pipe == nullptr) throw std::runtime_error("cannot start: " + settings_.faults);
        asio::posix::stream_descriptor output(context_, ::dup(::fileno(pipe)));
        asio::streambuf text;
        for (;;) {
            auto got =
                co_await asio::async_read_until(output, text, '\n', asio::as_tuple(asio::deferred));
            if (std::get<0>(got)) break;
            std::string line;
            std::istream(&text) >> std::ws;
            std::istream lines(&text);
            std::getline(lines, line);
            journal_.fault(line);
            std::cout << "   -- " << line << std::endl;
        }
        if (::pclose(pipe) != 0) ++results_.fault_command_failed;
    }

    void live_line() {
        auto& second = results_.second;
        if (lines_++ % 20 == 0)
            std::cout << "   s  acquired/s  handed on   woken    p50 ms    p99 ms   held  "
                         "violations  instances\n";
        auto const now = locks_.stats();
        std::printf("%4u  %10zu  %9llu  %6llu  %8.2f  %8.2f  %5u  %10u ", lines_, second.size(),
                    static_cast<unsigned long long>(now.handovers - stats_.handovers),
                    static_cast<unsigned long long>(now.pushes - stats_.pushes),
                    milliseconds(percentile(second, .5)), milliseconds(percentile(second, .99)),
                    held_, results_.violations);
        stats_ = now;
        for (auto const& i : locks_.instances()) std::printf(" %s", to_string(i.state));
        std::printf("\n");
        std::fflush(stdout);
        results_.all.insert(results_.all.end(), second.begin(), second.end());
        second.clear();
    }

    // The difference between the total and the counter of each key.
    asio::awaitable<std::vector<long>> shortfalls() {
        redis::request get;
        std::vector<std::string> names;
        for (unsigned k = 0; k < settings_.keys; ++k) names.push_back(counter_of(k));
        for (unsigned k = 0; k < settings_.keys; ++k) names.push_back(total_of(k));
        get.push_range("MGET", names);
        redis::response<std::vector<std::optional<long>>> values;
        auto read = co_await witness_.async_exec(get, values, asked());
        if (std::get<0>(read))
            throw std::runtime_error("the witness does not answer: " + settings_.witness);
        auto const& numbers = std::get<0>(values).value();
        std::vector<long> behind;
        for (unsigned k = 0; k < settings_.keys; ++k) {
            behind.push_back(numbers[settings_.keys + k].value_or(0) - numbers[k].value_or(0));
        }
        co_return behind;
    }

    static std::string counter_of(unsigned key) { return "stress:counter:" + std::to_string(key); }
    static std::string total_of(unsigned key) { return "stress:total:" + std::to_string(key); }

    bool report() {
        auto& all = results_.all;
        std::printf("\nacquired             %zu, p50 %.2f ms, p99 %.2f ms\n", all.size(),
                    milliseconds(percentile(all, .5)), milliseconds(percentile(all, .99)));
        std::printf("handed on            %llu of them by a holder of this process\n",
                    static_cast<unsigned long long>(stats_.handovers));
        std::printf("commands per lock    %.2f\n", stats_.commands_per_acquisition());
        std::printf("violations           %u\n", results_.violations);
        std::printf("lost leases          %u\n", results_.lost);
        std::printf("unconfirmed releases %u\n", results_.release_failed);
        std::printf("witness failures     %u\n", results_.witness_failed);
        unsigned failed = 0;
        for (auto const& [error_text, times] : results_.failures) {
            std::printf("failed               %u: %s\n", times, error_text.c_str());
            failed += times;
        }
        if (failed > 0) std::printf("the last of them     %s\n", last_failure_.c_str());
        for (auto const& i : last_state_) {
            std::printf("instance             %s %s, %s, connected %llu times\n", i.address.c_str(),
                        i.server.c_str(), to_string(i.state),
                        static_cast<unsigned long long>(i.connections));
        }
        auto const held = results_.violations == 0 && failed == 0 && results_.lost == 0 &&
                          results_.release_failed == 0 && results_.witness_failed == 0 &&
                          results_.fault_command_failed == 0 && !all.empty();
        std::printf("%s\n", held ? "all held" : "NOT all held");
        return held;
    }

    settings settings_;
    asio::io_context context_{1};
    holdfast::client locks_;
    redis::connection witness_;
    journal journal_;
    clock_type::time_point end_;
    std::vector<holdfast::lock> keys_;
    results results_;
    std::string last_failure_;
    std::vector<holdfast::instance_status> last_state_;
    holdfast::client_stats stats_;
    unsigned working_ = 0;
    unsigned held_ = 0;
    unsigned lines_ = 0;
};

unsigned positive(std::string const& option, std::string const& text) {
    std::istringstream in(text);
    int n = 0;
    if (!(in >> n) || !in.eof() || n <= 0)
        throw std::invalid_argument(option + ": \"" + text + "\" is not a positive number");
    return static_cast<unsigned>(n);
}

settings parse(int argc, char** argv) {
    settings s;
    for (int i = 1; i < argc; i += 2) {
        std::string const option = argv[i];
        if (i + 1 == argc) throw std::invalid_argument(option + " needs a value");
        std::string const value = argv[i + 1];
        if (option == "--instances") {
            std::istringstream list(value);
            for (std::string address; std::getline(list, address, ',');)
                s.instances.emplace_back(address);
        } else if (option == "--witness") {
            s.witness = value;
        } else if (option == "--faults") {
            s.faults = value;
        } else if (option == "--journal") {
            s.journal = value;
        } else if (option == "--fences") {
            if (value != "on" && value != "off")
                throw std::invalid_argument(option + ": \"" + value + "\" is neither on nor off");
            s.fences = value == "on";
        } else if (option == "--coroutines") {
            s.coroutines = positive(option, value);
        } else if (option == "--keys") {
            s.keys = positive(option, value);
        } else if (option == "--seconds") {
            s.seconds = positive(option, value);
        } else if (option == "--ttl") {
            s.ttl = std::chrono::milliseconds(positive(option, value));
        } else if (option == "--wait") {
            s.wait = std::chrono::milliseconds(positive(option, value));
        } else {
            throw std::invalid_argument("unknown option " + option);
        }
    }
    if (s.instances.empty()) throw std::invalid_argument("--instances HOST:PORT,... is missing");
    if (s.witness.find(':') == s.witness.npos)
        throw std::invalid_argument("--witness HOST:PORT is missing");
    return s;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return stress(parse(argc, argv)).run() ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "stress: " << e.what() << '\n';
        return 2;
    }
}
