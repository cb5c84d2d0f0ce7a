#include "command/report_text.hpp"

#include "command/table.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace holdfast::command {

namespace json = boost::json;

namespace {

std::string or_dash(std::string text) {
    return text.empty() ? "-" : text;
}

} // namespace

std::string time_left(key_report const& r) {
    if (r.ttl_left) return duration_text(*r.ttl_left);
    auto const never = std::ranges::any_of(r.instances, [&](key_answer const& i) {
        return i.digest == r.digest && i.ttl_known && !i.ttl_left;
    });
    return never ? "never expires" : "unknown";
}

std::string underscored(std::string_view words) {
    std::string text(words);
    for (char& c : text) {
        if (c == ' ') c = '_';
    }
    return text;
}

// JSON is UTF-8, and a key may hold any bytes.
json::object to_json(key_report const& r) {
    json::object all{{"key", printable(r.key)}, {"state", underscored(to_string(r.state))},
                     {"quorum", r.quorum},      {"holder", printable(r.holder)},
                     {"digest", r.digest},      {"ttl_left_ms", nullptr},
                     {"fence", r.fence},        {"since", nullptr}};
    if (r.ttl_left) all["ttl_left_ms"] = r.ttl_left->count();
    if (r.since) all["since"] = time_text(*r.since);
    json::array instances;
    for (auto const& i : r.instances) {
        json::object each{{"address", i.address},
                          {"found", underscored(to_string(i.found))},
                          {"holder", printable(i.holder)},
                          {"digest", i.digest},
                          {"ttl_left_ms", nullptr},
                          {"never_expires", i.ttl_known && !i.ttl_left},
                          {"fence", i.fence},
                          {"round_trip_us", i.round_trip.count() / 1'000},
                          {"message", printable(i.message)}};
        if (i.ttl_left) each["ttl_left_ms"] = i.ttl_left->count();
        instances.push_back(std::move(each));
    }
    all["instances"] = std::move(instances);
    return all;
}

void print(key_report const& r, std::ostream& out) {
    out << "lock      " << printable(r.key) << '\n' << "state     " << to_string(r.state) << '\n';
    if (r.state == key_state::held) {
        out << "holder    " << (r.holder.empty() ? "without a label" : printable(r.holder)) << '\n'
            << "token     " << or_dash(r.digest) << " (digest)\n"
            << "ttl left  " << time_left(r) << '\n';
        if (r.since) out << "since     " << time_text(*r.since) << '\n';
    }
    if (r.fence != 0) out << "fence     " << r.fence << " or greater\n";
    out << "quorum    " << r.quorum << " of " << r.instances.size() << "\n\n";
    table t({"INSTANCE", "FOUND", "HOLDER", "TOKEN", "TTL LEFT", "ROUND TRIP", "MESSAGE"});
    for (auto const& i : r.instances) {
        auto const left = i.ttl_left    ? duration_text(*i.ttl_left)
                          : i.ttl_known ? std::string("never expires")
                                        : std::string();
        t.add({i.address, to_string(i.found), or_dash(printable(i.holder)), or_dash(i.digest),
               or_dash(left), i.round_trip.count() > 0 ? duration_text(i.round_trip) : "-",
               printable(i.message)});
    }
    t.print(out);
}

void print(std::vector<key_report> const& all, std::ostream& out) {
    if (all.size() == 1) return print(all.front(), out);
    print_table(all, out);
}

void print_table(std::vector<key_report> const& all, std::ostream& out) {
    table t({"KEY", "STATE", "HOLDER", "TOKEN", "TTL LEFT"});
    for (auto const& r : all) {
        auto const held = r.state == key_state::held;
        t.add({printable(r.key), to_string(r.state), or_dash(printable(r.holder)),
               or_dash(r.digest), held ? time_left(r) : "-"});
    }
    t.print(out);
}

} // namespace holdfast::command
