// A holder that the tests of losses stop and continue.
//
//   sleeper --instances HOST:PORT,... --keys N --ttl MS --loop (busy|events) [--access read|write]
//
// The process acquires the keys sleeper:0 .. sleeper:N-1 and prints "held". Then it checks its
// leases continuously: in a handler that blocks the event loop, or in one handler each millisecond.
// When it notices that it was stopped, it prints one line:
//   held   leases that still seem held at that check
//   told   losses that it hears of
//   lost   releases that report a lost lease
//   wrong  checks at which a lease was held past its deadline
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using holdfast::lease_clock;

// Longer than a scheduler delays a process, and shorter than the ttl of 4 s, which a stop outlasts.
constexpr auto stopped_for = 2500ms;

struct settings {
    std::vector<holdfast::address> instances;
    std::size_t keys = 1;
    std::chrono::milliseconds ttl{1'000};
    bool busy = false;
    std::string access; ///< empty: exclusive
};

class sleeper {
public:
    explicit sleeper(settings s)
        : settings_(std::move(s))
        , locks_(context_.get_executor(), settings_.instances)
        , leases_(settings_.keys) {}

    void run() {
        asio::co_spawn(context_, everything(), [](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
        });
        context_.run();
    }

private:
    asio::awaitable<void> everything() {
        for (std::size_t i = 0; i < leases_.size(); ++i) {
            leases_[i] = co_await lock_on("sleeper:" + std::to_string(i)).acquire();
            leases_[i].wait_end([this](holdfast::error const&, holdfast::lease_end how) {
                told_ += is_loss(how) ? 1 : 0;
            });
        }
        asio::steady_timer moment(context_);
        last_ = lease_clock::now(); // the parent may stop this process as soon as it reads the line
        std::cout << "held" << std::endl;
        while (!was_stopped()) {
            if (settings_.busy) continue;
            moment.expires_after(1ms);
            co_await moment.async_wait(asio::deferred);
        }
        auto const at_first = held_;
        for (int i = 0; i < 5'000 && told_ < leases_.size(); ++i) {
            moment.expires_after(1ms);
            co_await moment.async_wait(asio::deferred);
        }
        std::size_t lost = 0;
        for (auto& lease : leases_) {
            auto const released = co_await lease.release();
            lost += released == holdfast::errc::lease_lost ? 1U : 0U;
        }
        std::cout << "held=" << at_first << " told=" << told_ << " lost=" << lost
                  << " wrong=" << wrong_ << std::endl;
        co_await locks_.shutdown();
    }

    holdfast::lock lock_on(std::string const& key) {
        holdfast::lock_options const options{.ttl = settings_.ttl};
        if (settings_.access.empty()) return locks_.make_lock(key, options);
        auto const both = locks_.make_read_write_lock(key, options);
        return settings_.access == "read" ? both.read() : both.write();
    }

    // Checks all leases. True if the process was stopped before.
    bool was_stopped() {
        auto const now = lease_clock::now();
        auto const gap = now - last_;
        last_ = now;
        held_ = 0;
        for (auto const& lease : leases_) {
            auto const deadline = lease.deadline();
            if (!lease.held()) continue;
            ++held_;
            if (deadline <= now) ++wrong_;
        }
        return gap > stopped_for;
    }

    settings settings_;
    asio::io_context context_{1};
    holdfast::client locks_;
    std::vector<holdfast::lease> leases_;
    std::size_t held_ = 0, told_ = 0, wrong_ = 0;
    lease_clock::time_point last_{};
};

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
        } else if (option == "--keys") {
            s.keys = std::stoul(value);
        } else if (option == "--ttl") {
            s.ttl = std::chrono::milliseconds(std::stoul(value));
        } else if (option == "--loop") {
            s.busy = value == "busy";
        } else if (option == "--access") {
            s.access = value;
        } else {
            throw std::invalid_argument("unknown option " + option);
        }
    }
    return s;
}

} // namespace

int main(int argc, char** argv) {
    try {
        sleeper(parse(argc, argv)).run();
        return 0;
    } catch (std::exception const& e) {
        std::cerr << "sleeper: " << e.what() << '\n';
        return 2;
    }
}
