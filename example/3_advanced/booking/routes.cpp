#include "routes.hpp"

#include <holdfast/metrics.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace booking {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t longest_owner = 64;

response failure(unsigned status, std::string const& reason) {
    return {status, json::serialize(json::object{{"error", reason}})};
}

std::optional<int> positive(std::string_view text) {
    int value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value <= 0) return std::nullopt;
    return value;
}

/// The owner in the body. Nothing, with `problem` set, for another body.
std::optional<std::string> owner_in(std::string const& body, std::string& problem) {
    boost::system::error_code ec;
    auto const parsed = json::parse(body, ec);
    auto const* const object = ec ? nullptr : parsed.if_object();
    auto const* const owner = object == nullptr ? nullptr : object->if_contains("owner");
    auto const* const text = owner == nullptr ? nullptr : owner->if_string();
    if (text == nullptr) {
        problem = "the body is not {\"owner\":\"NAME\"}" + (ec ? ": " + ec.message() : "");
        return std::nullopt;
    }
    auto const printable = std::all_of(text->begin(), text->end(),
                                       [](char c) { return static_cast<unsigned char>(c) >= ' '; });
    if (text->empty() || text->size() > longest_owner || !printable) {
        problem = "the owner is not 1 to 64 bytes without control characters";
        return std::nullopt;
    }
    return std::string(*text);
}

struct seat_path {
    std::string number;
    std::string name; ///< of the action; empty: to look at the seat
};

/// The parts of /seats/{n}, /seats/{n}/hold and /seats/{n}/buy.
std::optional<seat_path> seat_path_in(std::string_view target) {
    constexpr std::string_view begin = "/seats/";
    if (!target.starts_with(begin)) return std::nullopt;
    target.remove_prefix(begin.size());
    auto const slash = target.find('/');
    if (slash == target.npos) return seat_path{std::string(target), {}};
    auto const name = target.substr(slash + 1);
    if (name != "hold" && name != "buy") return std::nullopt;
    return seat_path{std::string(target.substr(0, slash)), std::string(name)};
}

json::object row_of(seat const& s, std::int64_t now) {
    auto const held = !s.owner.empty() && s.held_until > now;
    json::object row;
    row["seat"] = s.id;
    row["state"] = s.sold ? "sold" : held ? "held" : "free";
    if (s.sold || held) row["owner"] = s.owner;
    return row;
}

unsigned status_of(outcome::kind result) {
    using enum outcome::kind;
    switch (result) {
    case done:
        return 200;
    case taken:
        return 409;
    case deadline:
        return 504;
    case lost:
    case unavailable:
        break;
    }
    return 503;
}

} // namespace

/// The answer, and the route for the metrics: a path that a client made up is none.
struct routes::routed {
    std::string route;
    response answer;
};

asio::awaitable<response> routes::answer(request const& asked) {
    auto const start = std::chrono::steady_clock::now();
    auto done = co_await route(asked);
    metrics_.count(done.route, done.answer.status, std::chrono::steady_clock::now() - start);
    co_return std::move(done.answer);
}

asio::awaitable<routes::routed> routes::route(request const& asked) {
    auto const path = seat_path_in(asked.target);
    auto const post = path && !path->name.empty();
    auto const get = (path && !post) || asked.target == "/seats" || asked.target == "/metrics" ||
                     asked.target == "/healthz";
    auto const name = post   ? "/seats/{n}/" + path->name
                      : path ? "/seats/{n}"
                      : get  ? asked.target
                             : "other";
    routed done{name, failure(404, "no such path: " + asked.target)};
    if (post && asked.method == "POST") {
        auto const wanted = path->name == "hold" ? action::hold : action::buy;
        done.answer = co_await change(asked, path->number, wanted);
    } else if (get && asked.method == "GET") {
        if (path)
            done.answer = co_await look(asked, path->number);
        else if (asked.target == "/seats")
            done.answer = co_await list();
        else if (asked.target == "/healthz")
            done.answer = health();
        else
            done.answer = {200, metrics_.text(locks_),
                           std::string(holdfast::metrics_page::content_type)};
    } else if (post || get) {
        done.answer = failure(405, asked.method + " is not for " + asked.target);
        done.answer.allow = post ? "POST" : "GET";
    }
    co_return done;
}

/// The number of a seat. Nothing, with `problem` set, for another text.
std::optional<int> routes::seat_of(std::string const& number, response& problem) const {
    auto const id = positive(number);
    if (!id) {
        problem = failure(400, "\"" + number + "\" is not the number of a seat");
    } else if (static_cast<unsigned>(*id) > seats_.count()) {
        problem = failure(404, "there is no seat " + number);
        return std::nullopt;
    }
    return id;
}

/// The time that the request may take. Nothing, with `problem` set, for another text.
std::optional<std::chrono::milliseconds> routes::limit_of(request const& asked,
                                                          response& problem) const {
    if (asked.timeout.empty()) return deadline_;
    auto const own = positive(asked.timeout);
    if (!own) {
        problem = failure(400, "X-Request-Timeout-Ms: \"" + asked.timeout +
                                   "\" is not a positive number");
        return std::nullopt;
    }
    return std::min(deadline_, std::chrono::milliseconds(*own));
}

asio::awaitable<response> routes::look(request const& asked, std::string const& number) {
    response problem;
    auto const id = seat_of(number, problem);
    auto const limit = id ? limit_of(asked, problem) : std::nullopt;
    if (!limit) co_return problem;
    auto const ended = co_await seats_.look(*id, *limit);
    if (ended.result != outcome::kind::done)
        co_return failure(status_of(ended.result), ended.reason);
    co_return response{200, json::serialize(row_of(ended.found, wall_clock()))};
}

asio::awaitable<response> routes::change(request const& asked, std::string const& number,
                                         action wanted) {
    response problem;
    auto const id = seat_of(number, problem);
    if (!id) co_return problem;
    std::string reason;
    auto const owner = owner_in(asked.body, reason);
    if (!owner) co_return failure(400, reason);
    auto const limit = limit_of(asked, problem);
    if (!limit) co_return problem;
    auto const name = *owner;
    auto const ended = co_await seats_.change(wanted, *id, name, *limit);
    if (ended.result != outcome::kind::done)
        co_return failure(status_of(ended.result), ended.reason);
    json::object body;
    body["seat"] = *id;
    body["owner"] = name;
    body["state"] = wanted == action::buy ? "sold" : "held";
    body["fence"] = ended.fence;
    co_return response{200, json::serialize(body)};
}

asio::awaitable<response> routes::list() {
    try {
        auto const all = co_await seats_.all();
        auto const now = wall_clock();
        json::array list;
        for (auto const& each : all) list.push_back(row_of(each, now));
        co_return response{200, json::serialize(list)};
    } catch (store_error const& e) {
        co_return failure(503, e.what());
    }
}

/// Whether this server can sell: a quorum of the instances has a vote.
response routes::health() const {
    auto const instances = locks_.instances();
    auto const up = std::count_if(instances.begin(), instances.end(), [](auto const& i) {
        return i.state == holdfast::instance_state::up;
    });
    auto const quorum = instances.size() / 2 + 1;
    json::object body;
    body["instances"] = instances.size();
    body["up"] = up;
    body["quorum"] = quorum;
    return {static_cast<std::size_t>(up) >= quorum ? 200U : 503U, json::serialize(body)};
}

} // namespace booking
