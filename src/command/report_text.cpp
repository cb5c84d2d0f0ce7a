#include "command/report_text.hpp"

#include "command/table.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>

namespace holdfast::command {

namespace json = boost::json;

namespace {

std::string or_dash(std::string text) {
    return text.empty() ? "-" : text;
}

json::value ms_or_null(std::optional<std::chrono::milliseconds> left) {
    return left ? json::value(left->count()) : json::value(nullptr);
}

json::value json_of(std::optional<key_user> const& u) {
    if (!u) return nullptr;
    return json::object{{"holder", printable(u->holder)}, {"ttl_left_ms", ms_or_null(u->ttl_left)}};
}

json::array json_of(std::vector<key_user> const& users) {
    json::array all;
    for (auto const& u : users) {
        json::object each{{"holder", printable(u.holder)},
                          {"digest", u.digest},
                          {"ttl_left_ms", ms_or_null(u.ttl_left)}};
        if (u.slot) each["slot"] = *u.slot;
        all.push_back(std::move(each));
    }
    return all;
}

json::value json_of(std::optional<std::uint64_t> count) {
    return count ? json::value(*count) : json::value(nullptr);
}

std::string readers_text(std::optional<std::uint64_t> count) {
    if (!count) return "readers";
    return std::to_string(*count) + (*count == 1 ? " reader" : " readers");
}

std::string permits_text(std::optional<std::uint64_t> count) {
    if (!count) return "permits";
    return std::to_string(*count) + (*count == 1 ? " permit" : " permits");
}

std::string writer_text(key_user const& writer) {
    return writer.holder.empty() ? "a writer" : "a writer of " + printable(writer.holder);
}

/// With who waits there.
std::string message_of(key_answer const& i) {
    auto text = i.message;
    auto const add = [&](std::string const& words) { text += (text.empty() ? "" : "; ") + words; };
    if (i.writer) add(writer_text(*i.writer) + " waits");
    if (i.turn == readers_turn::open) add("the readers' turn");
    return text;
}

void print_readers(std::vector<key_user> const& readers, std::ostream& out) {
    table t({"READER", "TOKEN", "TTL LEFT"});
    for (auto const& r : readers) {
        t.add({or_dash(printable(r.holder)), r.digest,
               r.ttl_left ? duration_text(*r.ttl_left) : "unknown"});
    }
    t.print(out);
    out << '\n';
}

void print_permits(std::vector<key_user> const& permits, std::ostream& out) {
    table t({"SLOT", "HOLDER", "TOKEN", "TTL LEFT"});
    for (auto const& p : permits) {
        t.add({std::to_string(p.slot.value_or(0)), or_dash(printable(p.holder)), p.digest,
               p.ttl_left ? duration_text(*p.ttl_left) : "unknown"});
    }
    t.print(out);
    out << '\n';
}

} // namespace

std::string holder_of(key_report const& r) {
    if (r.counted()) return permits_text(r.permit_count);
    return r.shared() ? readers_text(r.reader_count) : r.holder;
}

std::string token_of(key_report const& r) {
    return r.shared() || r.counted() ? std::string() : r.digest;
}

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
    json::object all{{"key", printable(r.key)},
                     {"state", underscored(to_string(r.state))},
                     {"quorum", r.quorum},
                     {"holder", printable(r.holder)},
                     {"digest", r.digest},
                     {"ttl_left_ms", ms_or_null(r.ttl_left)},
                     {"fence", r.fence},
                     {"since", nullptr},
                     {"shared", r.shared()},
                     {"reader_count", json_of(r.reader_count)},
                     {"readers", json_of(r.readers)},
                     {"permit_count", json_of(r.permit_count)},
                     {"permits", json_of(r.permits)},
                     {"writer", json_of(r.writer)}};
    if (r.since) all["since"] = time_text(*r.since);
    json::array instances;
    for (auto const& i : r.instances) {
        json::object each{{"address", i.address},
                          {"found", underscored(to_string(i.found))},
                          {"holder", printable(i.holder)},
                          {"digest", i.digest},
                          {"ttl_left_ms", ms_or_null(i.ttl_left)},
                          {"never_expires", i.ttl_known && !i.ttl_left},
                          {"fence", i.fence},
                          {"round_trip_us", i.round_trip.count() / 1'000},
                          {"message", printable(i.message)},
                          {"reader_count", json_of(i.reader_count)},
                          {"readers", json_of(i.readers)},
                          {"permit_count", json_of(i.permit_count)},
                          {"permits", json_of(i.permits)},
                          {"writer", json_of(i.writer)},
                          {"turn", to_string(i.turn)},
                          {"turn_left_ms", ms_or_null(i.turn_left)}};
        instances.push_back(std::move(each));
    }
    all["instances"] = std::move(instances);
    return all;
}

void print(key_report const& r, std::ostream& out) {
    out << "lock      " << printable(r.key) << '\n' << "state     " << to_string(r.state) << '\n';
    if (r.shared() || r.counted()) {
        out << "holder    " << holder_of(r) << '\n' << "ttl left  " << time_left(r) << '\n';
    } else if (r.state == key_state::held) {
        out << "holder    " << (r.holder.empty() ? "without a label" : printable(r.holder)) << '\n'
            << "token     " << or_dash(r.digest) << " (digest)\n"
            << "ttl left  " << time_left(r) << '\n';
        if (r.since) out << "since     " << time_text(*r.since) << '\n';
    }
    if (r.fence != 0) out << "fence     " << r.fence << " or greater\n";
    if (r.writer) out << "waiting   " << writer_text(*r.writer) << '\n';
    out << "quorum    " << r.quorum << " of " << r.instances.size() << "\n\n";
    if (!r.readers.empty()) print_readers(r.readers, out);
    if (!r.permits.empty()) print_permits(r.permits, out);
    table t({"INSTANCE", "FOUND", "HOLDER", "TOKEN", "TTL LEFT", "ROUND TRIP", "MESSAGE"});
    for (auto const& i : r.instances) {
        auto const left = i.ttl_left    ? duration_text(*i.ttl_left)
                          : i.ttl_known ? std::string("never expires")
                                        : std::string();
        auto const shared = i.found == key_answer::kind::readers;
        auto const counted = i.found == key_answer::kind::permits;
        t.add({i.address, to_string(i.found),
               or_dash(shared    ? readers_text(i.reader_count)
                       : counted ? permits_text(i.permit_count)
                                 : printable(i.holder)),
               or_dash(shared || counted ? std::string() : i.digest), or_dash(left),
               i.round_trip.count() > 0 ? duration_text(i.round_trip) : "-",
               printable(message_of(i))});
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
        t.add({printable(r.key), to_string(r.state), or_dash(printable(holder_of(r))),
               or_dash(token_of(r)), held ? time_left(r) : "-"});
    }
    t.print(out);
}

} // namespace holdfast::command
