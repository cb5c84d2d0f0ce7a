// A process that contends for a key with others. The tests contention, wakeups and fence_order run
// it.
//
//   contender --instances HOST:PORT,... [--key KEY] [--ttl MS] [--instance-timeout MS]
//     [--fencing on|off] [--access exclusive|read|write | --permits N]
//     [--witness HOST:PORT --coroutines N (--sections N | --seconds N)]
//
// The process prints "ready" when every instance is up, and continues when it reads a line. The
// witness is a server that is no instance. With a witness, each coroutine runs --sections sections
// under the lock, or as many as fit in --seconds. Then the process prints a line with the results.
// Its exit status is 0 if nothing failed. Without a witness the process acquires the key, prints
// "held" and keeps the key until its input ends.
#include <holdfast/client.hpp>

#include "support/redis_cli.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using clock_type = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct settings {
    std::vector<holdfast::address> instances;
    std::optional<std::uint16_t> witness;
    std::string key = "hot";
    std::chrono::milliseconds ttl{10'000};
    std::chrono::milliseconds instance_timeout{20'000};
    unsigned coroutines = 1;
    unsigned sections = 0; ///< for each coroutine
    unsigned seconds = 0;
    bool fencing = false;
    holdfast::lock_access access = holdfast::lock_access::exclusive;
    unsigned permits = 0; ///< of a semaphore
};

struct results {
    std::uint64_t sections = 0;
    std::uint64_t timely = 0; ///< sections that began before the time was up
    std::uint64_t failed = 0;
    std::uint64_t lost = 0;
    std::uint64_t disordered = 0; ///< sections whose fence is not greater than the one before
    std::uint64_t violations = 0; ///< overlaps in this process; the witness shows the others
    std::string first_failure;
};

class contender {
public:
    explicit contender(settings s)
        : settings_(std::move(s))
        , locks_(context_.get_executor(), settings_.instances, options())
        , lock_(make_lock())
        , input_(context_, ::dup(STDIN_FILENO))
        , changed_(context_, clock_type::time_point::max()) {
        if (settings_.witness) witness_.emplace(*settings_.witness);
    }

    bool run() {
        asio::co_spawn(context_, everything(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context_.run();
        return results_.failed == 0 && results_.lost == 0 && results_.violations == 0 &&
               results_.disordered == 0;
    }

private:
    holdfast::client_options options() const {
        return {.instance_timeout = settings_.instance_timeout,
                .connect_timeout = settings_.instance_timeout,
                .max_reconnect_delay = 50ms};
    }

    holdfast::lock make_lock() {
        holdfast::lock_options const o{.ttl = settings_.ttl, .fencing = settings_.fencing};
        if (settings_.permits != 0)
            return locks_.make_semaphore(settings_.key, settings_.permits, o);
        if (settings_.access == holdfast::lock_access::exclusive)
            return locks_.make_lock(settings_.key, o);
        auto const both = locks_.make_read_write_lock(settings_.key, o);
        return settings_.access == holdfast::lock_access::read ? both.read() : both.write();
    }

    asio::awaitable<void> everything() {
        asio::steady_timer moment(context_);
        while (!all_up()) {
            moment.expires_after(2ms);
            co_await moment.async_wait(asio::deferred);
        }
        std::cout << "ready" << std::endl;
        std::string line;
        co_await asio::async_read_until(input_, asio::dynamic_buffer(line), '\n', asio::deferred);
        if (settings_.witness) {
            co_await contend();
        } else {
            co_await hold();
        }
        co_await locks_.shutdown();
    }

    bool all_up() const {
        auto const all = locks_.instances();
        return std::all_of(all.begin(), all.end(),
                           [](auto const& i) { return i.state == holdfast::instance_state::up; });
    }

    asio::awaitable<void> hold() {
        auto lease = co_await lock_.acquire();
        std::cout << "held" << std::endl;
        std::string rest;
        auto const until_end = asio::as_tuple(asio::deferred);
        co_await asio::async_read_until(input_, asio::dynamic_buffer(rest), '\n', until_end);
        if (!(co_await lease.release()).confirmed()) failed("the release failed");
    }

    asio::awaitable<void> contend() {
        end_ = clock_type::now() + std::chrono::seconds(settings_.seconds);
        for (unsigned i = 0; i < settings_.coroutines; ++i) {
            ++working_;
            asio::co_spawn(context_, worker(), [this](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
                if (--working_ == 0) changed_.cancel();
            });
        }
        auto const quietly = asio::as_tuple(asio::deferred);
        while (working_ > 0) co_await changed_.async_wait(quietly);
        auto const s = locks_.stats();
        std::cout << "sections=" << results_.sections << " timely=" << results_.timely
                  << " failed=" << results_.failed << " lost=" << results_.lost
                  << " violations=" << results_.violations << " disordered=" << results_.disordered
                  << " acquired=" << s.acquired << " handovers=" << s.handovers
                  << " commands=" << s.commands << " waiters=" << s.waiters
                  << " why: " << results_.first_failure << std::endl;
    }

    asio::awaitable<void> worker() {
        for (unsigned n = 0;
             settings_.sections > 0 ? n < settings_.sections : clock_type::now() < end_; ++n) {
            auto acquired = co_await lock_.acquire(asio::as_tuple);
            auto& [e, lease] = acquired;
            if (e) {
                failed(e.what());
                continue;
            }
            co_await section(lease);
            auto const released = co_await lease.release();
            if (!released.confirmed()) failed("release: " + released.code().message());
        }
    }

    // The update is not atomic on purpose. If there is a second holder, the final count is too
    // small.
    asio::awaitable<void> section(holdfast::lease& lease) {
        if (inside_++ != 0) ++results_.violations;
        if (settings_.sections > 0 || clock_type::now() < end_) ++results_.timely;
        auto const before = std::stoll(witness_->get("counter").value_or("0"));
        co_await asio::post(asio::deferred);
        if (lease.held()) {
            if (settings_.fencing) check_fence(lease.fence());
            witness_->set("counter", std::to_string(before + 1));
            ++results_.sections;
        } else {
            ++results_.lost;
        }
        --inside_;
    }

    // The witness stores the fence of the latest section of all processes.
    void check_fence(std::uint64_t fence) {
        if (fence <= std::stoull(witness_->get("fence").value_or("0"))) ++results_.disordered;
        witness_->set("fence", std::to_string(fence));
    }

    void failed(std::string reason) {
        if (results_.failed++ == 0) results_.first_failure = std::move(reason);
    }

    settings settings_;
    asio::io_context context_{1};
    holdfast::client locks_;
    holdfast::lock lock_;
    asio::posix::stream_descriptor input_;
    asio::steady_timer changed_;
    std::optional<holdfast::test::redis_cli> witness_;
    clock_type::time_point end_;
    results results_;
    unsigned working_ = 0;
    unsigned inside_ = 0;
};

holdfast::lock_access access_of(std::string const& option, std::string const& text) {
    using holdfast::lock_access;
    if (text == "exclusive") return lock_access::exclusive;
    if (text == "read") return lock_access::read;
    if (text == "write") return lock_access::write;
    throw std::invalid_argument(option + ": \"" + text + "\" is not exclusive, read or write");
}

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
            s.witness = holdfast::address(value).port();
        } else if (option == "--key") {
            s.key = value;
        } else if (option == "--ttl") {
            s.ttl = std::chrono::milliseconds(positive(option, value));
        } else if (option == "--instance-timeout") {
            s.instance_timeout = std::chrono::milliseconds(positive(option, value));
        } else if (option == "--fencing") {
            if (value != "on" && value != "off")
                throw std::invalid_argument(option + ": \"" + value + "\" is neither on nor off");
            s.fencing = value == "on";
        } else if (option == "--access") {
            s.access = access_of(option, value);
        } else if (option == "--permits") {
            s.permits = positive(option, value);
        } else if (option == "--coroutines") {
            s.coroutines = positive(option, value);
        } else if (option == "--sections") {
            s.sections = positive(option, value);
        } else if (option == "--seconds") {
            s.seconds = positive(option, value);
        } else {
            throw std::invalid_argument("unknown option " + option);
        }
    }
    if (s.instances.empty()) throw std::invalid_argument("--instances HOST:PORT,... is missing");
    if (s.witness && (s.sections > 0) == (s.seconds > 0))
        throw std::invalid_argument("either --sections or --seconds is needed");
    return s;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return contender(parse(argc, argv)).run() ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "contender: " << e.what() << '\n';
        return 2;
    }
}
