#include "routes.hpp"

#include <holdfast/metrics.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
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
    std::string name; ///< of the action
};

/// The parts of /seats/{n}/hold and /seats/{n}/buy.
std::optional<seat_path> seat_path_in(std::string_view target) {
    constexpr std::string_view begin = "/seats/";
    if (!target.starts_with(begin)) return std::nullopt;
    target.remove_prefix(begin.size());
    auto const slash = target.find('/');
    if (slash == target.npos) return std::nullopt;
    auto const name = target.substr(slash + 1);
    if (name != "hold" && name != "buy") return std::nullopt;
    return seat_path{std::string(target.substr(0, slash)), std::string(name)};
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
    auto const post = seat_path_in(asked.target);
    auto const get =
        asked.target == "/seats" || asked.target == "/metrics" || asked.target == "/healthz";
    auto const name = post ? "/seats/{n}/" + post->name : get ? asked.target : "other";
    routed done{name, failure(404, "no such path: " + asked.target)};
    if (post && asked.method == "POST") {
        auto const wanted = post->name == "hold" ? action::hold : action::buy;
        done.answer = co_await change(asked, post->number, wanted);
    } else if (get && asked.method == "GET") {
        if (asked.target == "/seats")
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

asio::awaitable<response> routes::change(request const& asked, std::string const& number,
                                         action wanted) {
    auto const id = positive(number);
    if (!id) co_return failure(400, "\"" + number + "\" is not the number of a seat");
    if (static_cast<unsigned>(*id) > seats_.count())
        co_return failure(404, "there is no seat " + number);
    std::string problem;
    auto owner = owner_in(asked.body, problem);
    if (!owner) co_return failure(400, problem);
    auto limit = deadline_;
    if (!asked.timeout.empty()) {
        auto const own = positive(asked.timeout);
        if (!own)
            co_return failure(400, "X-Request-Timeout-Ms: \"" + asked.timeout +
                                       "\" is not a positive number");
        limit = std::min(limit, std::chrono::milliseconds(*own));
    }
    auto const name = *owner;
    auto const ended = co_await seats_.change(wanted, *id, name, limit);
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
        for (auto const& each : all) {
            auto const held = !each.owner.empty() && each.held_until > now;
            json::object row;
            row["seat"] = each.id;
            row["state"] = each.sold ? "sold" : held ? "held" : "free";
            if (each.sold || held) row["owner"] = each.owner;
            list.push_back(std::move(row));
        }
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
