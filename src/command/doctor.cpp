#include "command/doctor.hpp"

#include <holdfast/client.hpp>

#include "command/diagnosis.hpp"
#include "command/exit_code.hpp"
#include "command/output.hpp"
#include "command/table.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::command {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

/// Each asks every instance once, so that round trips and clocks are known.
constexpr int questions = 5;

struct examination {
    std::vector<instance_status> instances;
    std::vector<failed_trial> failed;
};

/// Empty if the lock was acquired, extended and released.
asio::awaitable<std::string> try_lock(client& locks, doctor_settings const& s) {
    auto const ttl = std::chrono::milliseconds(s.ttl_ms);
    auto const lock = locks.make_lock(s.key, {.ttl = ttl, .fencing = true});
    try {
        lease held = co_await lock.try_acquire_for(std::chrono::milliseconds(s.timeout_ms));
        co_await held.extend();
        auto const released = co_await held.release();
        co_return released.confirmed() ? std::string() : released.what();
    } catch (system_error const& e) {
        // Held by another doctor, for example: so it works.
        auto const held = e.code() == errc::contended || e.code() == errc::wait_timeout;
        co_return held ? std::string() : e.what();
    }
}

bool connects(instance_status const& s) {
    return s.state == instance_state::connecting || std::ranges::any_of(s.nodes, connects);
}

/// An inspection waits for the node of a Cluster that has the key, and for no other one.
asio::awaitable<void> wait_for_nodes(client& locks, doctor_settings const& s) {
    // One attempt: the DNS lookup, and the connection.
    auto const end = std::chrono::steady_clock::now() + 2 * std::chrono::milliseconds(s.timeout_ms);
    asio::steady_timer pause(locks.get_executor());
    while (std::ranges::any_of(locks.instances(), connects) &&
           std::chrono::steady_clock::now() < end) {
        pause.expires_after(std::chrono::milliseconds(10));
        co_await pause.async_wait(asio::deferred);
    }
}

asio::awaitable<void> examine(client& locks, doctor_settings const& s, examination& found) {
    for (int i = 0; i < questions; ++i) co_await locks.inspect(s.key);
    co_await wait_for_nodes(locks, s);
    if (s.writes) {
        auto failure = co_await try_lock(locks, s);
        if (!failure.empty()) found.failed.push_back({{}, std::move(failure)});
    }
    found.instances = locks.instances();
    locks.close();
}

// The others outvote an instance that refuses to write, so each one is tried alone.
asio::awaitable<void> examine_alone(client& locks, doctor_settings const& s, examination& found) {
    auto failure = co_await try_lock(locks, s);
    auto const alone = locks.instances().front();
    if (!failure.empty()) found.failed.push_back({alone.address, std::move(failure)});
    locks.close();
}

/// Runs `examination(client)` to its end.
template <class Examination>
void with_client(std::vector<address> const& instances, doctor_settings const& s,
                 Examination examination) {
    asio::io_context context(1);
    client locks(context.get_executor(), instances, s.options());
    std::exception_ptr failed;
    asio::co_spawn(context, examination(locks), [&](std::exception_ptr e) {
        failed = e;
        locks.close();
    });
    context.run();
    if (failed) std::rethrow_exception(failed);
}

severity worst_of(std::vector<finding> const& all) {
    auto worst = severity::note;
    for (auto const& f : all) worst = std::max(worst, f.level);
    return worst;
}

json::object to_json(examination const& e, std::vector<finding> const& all) {
    json::array findings, instances;
    for (auto const& f : all) {
        findings.push_back(json::object{{"severity", to_string(f.level)},
                                        {"instance", f.about},
                                        {"text", printable(f.text)},
                                        {"advice", f.advice}});
    }
    for (auto const& s : e.instances) {
        auto const count = s.round_trips.count();
        json::object each{{"address", s.address},
                          {"state", to_string(s.state)},
                          {"server", s.server},
                          {"primary", s.primary},
                          {"tls", s.tls},
                          {"durable", nullptr},
                          {"clock_offset_us", nullptr},
                          {"round_trip_us", nullptr}};
        if (s.durable) each["durable"] = *s.durable;
        if (s.clock_offset) each["clock_offset_us"] = s.clock_offset->count();
        if (count != 0) {
            each["round_trip_us"] =
                (s.round_trips.sum / static_cast<std::int64_t>(count)).count() / 1'000;
        }
        instances.push_back(std::move(each));
    }
    return {{"worst", all.empty() ? "none" : to_string(worst_of(all))},
            {"findings", std::move(findings)},
            {"instances", std::move(instances)}};
}

void print(examination const& e, std::vector<finding> const& all) {
    table t({"INSTANCE", "STATE", "SERVER", "DURABLE", "CLOCK", "ROUND TRIP"});
    for (auto const& s : e.instances) {
        auto const count = s.round_trips.count();
        auto const round_trip =
            count == 0 ? std::string("-")
                       : duration_text(s.round_trips.sum / static_cast<std::int64_t>(count));
        t.add({s.address, to_string(s.state), s.server.empty() ? "-" : s.server,
               !s.durable   ? "-"
               : *s.durable ? "yes"
                            : "no",
               s.clock_offset ? duration_text(*s.clock_offset) : "-", round_trip});
    }
    t.print(std::cout);
    std::cout << '\n';
    for (auto const& f : all) {
        std::cout << to_string(f.level) << ": " << (f.about.empty() ? "" : f.about + ' ')
                  << printable(f.text) << '\n';
        if (!f.advice.empty()) std::cout << "    " << f.advice << '\n';
    }
    if (all.empty()) std::cout << "Nothing is wrong.\n";
    auto const names_page = [](finding const& f) { return f.advice.find("doc/") != f.advice.npos; };
    if (std::ranges::any_of(all, names_page))
        std::cout << "\nThe pages of doc/ are installed as share/doc/holdfast.\n";
}

} // namespace

int doctor(doctor_settings const& s) {
    examination found;
    auto const addresses = s.addresses();
    with_client(addresses, s, [&](client& locks) { return examine(locks, s, found); });
    for (std::size_t i = 0; s.writes && addresses.size() > 1 && i < addresses.size(); ++i) {
        if (found.instances[i].state != instance_state::up) continue; // reported already
        with_client({addresses[i]}, s,
                    [&](client& locks) { return examine_alone(locks, s, found); });
    }
    auto const all = diagnose(found.instances, found.failed, std::chrono::milliseconds(s.ttl_ms));
    if (s.json) {
        std::cout << json::serialize(to_json(found, all)) << '\n';
    } else {
        print(found, all);
    }
    auto const failed = flush_output();
    if (failed != 0 && failed != EPIPE) return faults;
    if (all.empty()) return success;
    auto const worst = worst_of(all);
    return worst == severity::fault ? faults : worst == severity::warning ? warnings : success;
}

} // namespace holdfast::command
