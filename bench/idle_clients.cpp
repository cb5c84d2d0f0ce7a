#include "idle_clients.hpp"

#include <holdfast/client.hpp>

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "workload.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto patience = 60s;

/// Each client has a socket for each instance.
void raise_limit_of_files() {
    ::rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
}

class scenario {
public:
    explicit scenario(idle_clients_settings const& s)
        : settings_(s)
        , servers_(s.instances)
        , result_{{"instances", s.instances}, {"clients", s.clients}} {}

    json::object run() {
        raise_limit_of_files();
        asio::co_spawn(context_, everything(), [this](std::exception_ptr const& e) {
            context_.stop();
            if (e) std::rethrow_exception(e);
        });
        context_.run();
        return std::move(result_);
    }

private:
    asio::awaitable<void> everything() {
        auto const empty = memory();
        auto const all = servers_.addresses();
        for (unsigned i = 0; i < settings_.clients; ++i) {
            clients_.push_back(std::make_unique<holdfast::client>(
                context_.get_executor(), std::vector<address>(all.begin(), all.end()),
                client_options{.instance_timeout = 5s, .connect_timeout = 20s}));
        }
        for (auto& each : clients_) co_await warm(*each);
        co_await pass(2s); // for the questions that follow a connection
        result_["server_bytes_per_client"] = (memory() - empty) / settings_.clients;
        co_await measure();
        for (auto& each : clients_) co_await each->shutdown();
    }

    asio::awaitable<void> warm(holdfast::client& c) {
        for (auto const give_up = clock::now() + patience; !all_up(c); co_await pass(5ms))
            if (clock::now() > give_up)
                throw std::runtime_error("a client has no connection to all instances");
        lock const key = c.make_lock("bench:idle");
        lease held = co_await key.acquire();
        co_await held.release();
    }

    asio::awaitable<void> measure() {
        auto const commands = [this] {
            std::uint64_t sum = 0;
            for (auto const& each : clients_) sum += each->stats().commands;
            return static_cast<double>(sum);
        };
        auto const sent = commands(), cpu = thread_cpu_seconds();
        auto const servers_cpu = servers_cpu_seconds(servers_);
        auto const start = clock::now();
        co_await pass(std::chrono::duration<double>(settings_.seconds));
        auto const client_seconds =
            std::chrono::duration<double>(clock::now() - start).count() * settings_.clients;
        auto const of_one = servers_cpu_seconds(servers_) - servers_cpu;
        result_["commands_per_client_and_s"] = (commands() - sent) / client_seconds;
        result_["cpu_us_per_client_and_s"] = (thread_cpu_seconds() - cpu) / client_seconds * 1e6;
        result_["server_cpu_us_per_client_and_s"] =
            of_one / settings_.instances / client_seconds * 1e6;
    }

    /// Of the first server, in bytes.
    double memory() { return std::stod(test::redis_cli(*servers_.begin()).info("used_memory")); }

    idle_clients_settings settings_;
    test::fleet servers_;
    asio::io_context context_{1};
    std::vector<std::unique_ptr<holdfast::client>> clients_;
    json::object result_;
};

} // namespace

json::object idle_clients_scenario(idle_clients_settings const& s) {
    return scenario(s).run();
}

} // namespace holdfast::bench
