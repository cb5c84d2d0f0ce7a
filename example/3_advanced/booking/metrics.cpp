#include "metrics.hpp"

#include <holdfast/metrics.hpp>

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
    holdfast::metrics_page client;
    client.add(locks);
    return out.str() + client.text();
}

} // namespace booking
