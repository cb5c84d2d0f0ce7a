#include "metrics.hpp"

#include <sstream>

namespace booking {

namespace {

/// A value of a label, in quotes.
std::string quoted(std::string const& value) {
    std::string text = "\"";
    for (char const c : value) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text + '"';
}

void family(std::ostream& out, std::string const& name, char const* type, char const* help) {
    out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
}

void single(std::ostream& out, std::string const& name, char const* type, char const* help,
            std::uint64_t value) {
    family(out, name, type, help);
    out << name << ' ' << value << '\n';
}

void write_client(std::ostream& out, holdfast::client const& locks) {
    auto const s = locks.stats();
    single(out, "holdfast_acquired_total", "counter", "Leases given out.", s.acquired);
    single(out, "holdfast_acquire_failed_total", "counter", "Acquires that failed.",
           s.acquire_failed);
    single(out, "holdfast_released_total", "counter", "Leases released.", s.released);
    single(out, "holdfast_lost_total", "counter", "Leases that ended without a release.", s.lost);
    single(out, "holdfast_renewals_failed_total", "counter", "Extensions that failed.",
           s.renewals_failed);
    single(out, "holdfast_handoffs_total", "counter", "Leases handed on in this process.",
           s.handoffs);
    single(out, "holdfast_held", "gauge", "Leases that have a holder.", s.held);
    single(out, "holdfast_waiters", "gauge", "Acquires that wait for a holder.", s.waiters);
    auto const instances = locks.instances();
    family(out, "holdfast_instance_up", "gauge", "Whether the instance has a vote.");
    for (auto const& i : instances)
        out << "holdfast_instance_up{instance=" << quoted(i.address) << "} "
            << (i.state == holdfast::instance_state::up ? 1 : 0) << '\n';
    family(out, "holdfast_instance_connections_total", "counter", "Connections that came up.");
    for (auto const& i : instances)
        out << "holdfast_instance_connections_total{instance=" << quoted(i.address) << "} "
            << i.connections << '\n';
}

} // namespace

void metrics::count(std::string const& route, unsigned status, std::chrono::nanoseconds took) {
    auto const seconds = std::chrono::duration<double>(took).count();
    std::lock_guard const lock(mutex_);
    ++requests_[{route, status}];
    auto& h = durations_[route];
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (seconds <= bounds[i]) ++h.buckets[i];
    }
    ++h.count;
    h.sum += seconds;
}

std::string metrics::text(holdfast::client const& locks) const {
    std::ostringstream out;
    {
        std::lock_guard const lock(mutex_);
        family(out, "booking_requests_total", "counter", "Requests by route and status.");
        for (auto const& [key, value] : requests_)
            out << "booking_requests_total{route=" << quoted(key.first) << ",status=\""
                << key.second << "\"} " << value << '\n';
        family(out, "booking_request_duration_seconds", "histogram", "Time to the answer.");
        for (auto const& [route, h] : durations_) {
            auto const of = "booking_request_duration_seconds_bucket{route=" + quoted(route);
            for (std::size_t i = 0; i < bounds.size(); ++i)
                out << of << ",le=\"" << bounds[i] << "\"} " << h.buckets[i] << '\n';
            out << of << ",le=\"+Inf\"} " << h.count << '\n';
            out << "booking_request_duration_seconds_sum{route=" << quoted(route) << "} " << h.sum
                << '\n';
            out << "booking_request_duration_seconds_count{route=" << quoted(route) << "} "
                << h.count << '\n';
        }
    }
    write_client(out, locks);
    return out.str();
}

} // namespace booking
