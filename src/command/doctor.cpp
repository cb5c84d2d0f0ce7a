#include "command/doctor.hpp"

#include <holdfast/client.hpp>

#include "command/diagnosis.hpp"
#include "command/exit_code.hpp"
#include "command/table.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
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
    trial tried;
};

asio::awaitable<void> try_lock(client& locks, doctor_settings const& s, trial& t) {
    t.made = true;
    auto const ttl = std::chrono::milliseconds(s.ttl_ms);
    auto const lock = locks.make_lock(s.key, {.ttl = ttl, .fencing = true});
    try {
        lease held = co_await lock.try_acquire_for(std::chrono::milliseconds(s.timeout_ms));
        co_await held.extend();
        auto const released = co_await held.release();
        if (!released) t.failure = released.what();
    } catch (system_error const& e) {
        t.failure = e.what();
    }
}

asio::awaitable<void> examine(client& locks, doctor_settings const& s, examination& found) {
    for (int i = 0; i < questions; ++i) co_await locks.inspect(s.key);
    if (s.writes) co_await try_lock(locks, s, found.tried);
    found.instances = locks.instances();
    locks.close();
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
}

} // namespace

int doctor(doctor_settings const& s) {
    asio::io_context context(1);
    client locks(context.get_executor(), s.addresses(), s.options());
    examination found;
    std::exception_ptr failed;
    asio::co_spawn(context, examine(locks, s, found), [&](std::exception_ptr e) {
        failed = e;
        locks.close();
    });
    context.run();
    if (failed) std::rethrow_exception(failed);
    auto const all = diagnose(found.instances, found.tried, std::chrono::milliseconds(s.ttl_ms));
    if (s.json) {
        std::cout << json::serialize(to_json(found, all)) << '\n';
    } else {
        print(found, all);
    }
    if (all.empty()) return success;
    auto const worst = worst_of(all);
    return worst == severity::fault ? faults : worst == severity::warning ? warnings : success;
}

} // namespace holdfast::command
