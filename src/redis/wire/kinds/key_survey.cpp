#include "redis/wire/kinds/key_survey.hpp"

#include <holdfast/key_report.hpp>

#include "redis/wire/key_companions.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"
#include "redis/wire/kinds/permit_key.hpp"
#include "redis/wire/kinds/read_write_key.hpp"
#include "redis/wire/kinds/read_write_scripts.hpp"
#include "redis/wire/probe.hpp"
#include "redis/wire/server_info.hpp"
#include "redis/wire/token.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

/// Members of a sorted set with their scores, as ZRANGE gives them.
struct score_list {
    bool answered = false;
    std::string problem;
    std::vector<std::pair<std::string, std::chrono::milliseconds>> members;
};

/// What was read of a survey so far, beside the key itself.
struct survey_progress {
    key_companions found;
    bool is_sorted_set = false; ///< the key, as that of a semaphore is
    score_list slots, deadlines;
    time_reply time;
    std::optional<std::chrono::milliseconds> now; ///< of the server
    std::optional<std::uint64_t> counted;         ///< by ZCARD
    bool lists = false;                           ///< ZRANGE was answered
    std::uint64_t seen = 0;                       ///< by ZRANGE, also the dead
    std::string member;                           ///< its score follows
};

namespace {

using protocol::verdict;
using std::chrono::milliseconds;

constexpr auto most_readers = key_answer::max_readers;

/// What follows each reply.
enum reply : unsigned {
    permit_count, // the last, as it has no parts
    slots,
    deadlines,
    turn_ttl,
    turn,
    intent_ttl,
    intent,
    readers,
    reader_count,
    server_time,
    counter,
    value,
    type,
    ttl,
};
static_assert(ttl + 1 == replies_to_survey);

bool is_string(element const& e) {
    return e.type == reply_type::blob_string || e.type == reply_type::simple_string;
}

/// A whole number as a server writes a score: `1764201234567`, or `1.76e+12`.
milliseconds score_of(std::string_view text) {
    auto const mark = text.find('e');
    auto digits = std::string(text.substr(0, mark));
    std::int64_t zeros = 0;
    if (mark != text.npos) {
        auto power = text.substr(mark + 1);
        if (power.starts_with('+')) power.remove_prefix(1);
        zeros = number_of(power);
    }
    if (auto const point = digits.find('.'); point != digits.npos) {
        zeros -= static_cast<std::int64_t>(digits.size() - point - 1);
        digits.erase(point, 1);
    }
    constexpr std::size_t enough = 20;
    while (zeros-- > 0 && digits.size() < enough) digits += '0';
    for (++zeros; zeros < 0 && !digits.empty(); ++zeros) digits.pop_back();
    return milliseconds(milliseconds_of(digits));
}

/// Without the time of the server: empty. A token is alive until the ms that its score names.
std::optional<milliseconds> left_until(survey_progress const& s, milliseconds score) {
    return s.now ? std::optional(score - *s.now - milliseconds(1)) : std::nullopt;
}

void end_reader(survey_progress& s, element const& score) {
    auto token = std::exchange(s.member, {});
    auto& all = s.found.readers;
    ++s.seen;
    if (all.size() == most_readers) return;
    auto const left = left_until(s, score_of(score.value));
    if (!left || left->count() >= 0) all.push_back({.token = std::move(token), .left = left});
}

/// The reply to ZRANGE: [[member, score], ...] by RESP3, [member, score, ...] by RESP2. Calls
/// `on_score(element)` after `s.member` is known.
template <class OnScore>
void read_scores(partial_answer& p, survey_progress& s, element const& e, bool& answered,
                 std::string& problem, OnScore on_score) {
    if (is_error(e.type)) {
        problem = "ZRANGE: " + std::string(e.value);
    } else if (e.depth == 0) {
        p.parts = 0;
        answered = e.type == reply_type::array;
    } else if (e.type == reply_type::array) {
        return;
    } else if (p.parts++ % 2 == 0) {
        s.member = e.value;
    } else {
        on_score(e);
    }
}

void read_list(partial_answer& p, survey_progress& s, element const& e, score_list& to) {
    read_scores(p, s, e, to.answered, to.problem, [&](element const& score) {
        if (to.members.size() < most_readers)
            to.members.emplace_back(std::exchange(s.member, {}), score_of(score.value));
    });
}

// The count has those that are dead, too. If one of the readers that last longest is dead, all
// others are.
void count_readers(survey_progress& s) {
    auto& found = s.found;
    auto const shown = found.readers.size();
    found.has_set = s.counted.value_or(s.seen) > 0;
    if (found.has_set) {
        auto const all = s.lists && shown < most_readers ? shown : s.counted.value_or(shown);
        found.reader_count = std::max<std::uint64_t>(all, shown);
    } else if (found.problem.empty()) {
        found.problem = "the set of its readers is missing: no reader comes before the key expires";
    }
    std::ranges::reverse(found.readers);
}

/// A note, or the value of one: no longer than a token.
std::string text_of(element const& e) {
    return is_string(e) ? std::string(e.value.substr(0, token::max_size)) : std::string();
}

std::optional<milliseconds> left_of(element const& e) {
    auto const left = e.type == reply_type::number ? milliseconds_of(e.value) : -1;
    return left >= 0 ? std::optional(milliseconds(left)) : std::nullopt;
}

void read_companion(partial_answer& p, unsigned left, element const& e) {
    auto& s = *p.survey;
    auto& found = s.found;
    switch (left) {
    case server_time:
        if (is_error(e.type)) return;
        s.time.take_part(e);
        if (auto const shown = s.time.take_reply())
            s.now = std::chrono::floor<milliseconds>(*shown);
        return;
    case readers:
        return read_scores(p, s, e, s.lists, found.problem,
                           [&](element const& score) { end_reader(s, score); });
    case deadlines:
        return read_list(p, s, e, s.deadlines);
case slots:
        return read_list(p, s, e, s.slots);
    default:
        break;
    }
    if (e.depth > 0) return;
    switch (left) {
    case permit_count:
        if (e.type == reply_type::number)
            found.permit_count =
                static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(e.value)));
        return;
    case reader_count:
        if (e.type == reply_type::number)
            s.counted = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(e.value)));
        return;
    case intent:
        found.intent = text_of(e);
        return;
    case intent_ttl:
        found.intent_left = left_of(e);
        return;
    case turn:
        found.turn = text_of(e);
        return;
    default:
        found.turn_left = left_of(e);
    }
}

// Commands may be refused: any of PTTL, TYPE and a value shows that there is a key. That there is
// none, only PTTL and TYPE show: a value may be empty.
void read_state(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    auto const refused = is_error(e.type);
    switch (left) {
    case ttl:
        p.survey = std::make_shared<survey_progress>();
        if (refused) {
            read_lack(p, c, e, "PTTL", degradation::no_expiry_times);
            p.message = presentable(e.value, c);
            p.answer.cause = classify(e.value);
        }
        p.tracked = !refused; // it showed whether there is a key
        p.answer.verdict = refused ? verdict::refused : verdict::yes;
        return read_ttl(p, e);
    case type:
        if (refused) return read_lack(p, c, e, "TYPE", degradation::no_type_check);
        p.tracked = true;
        p.answer.verdict = verdict::yes;
        p.answer.present = e.value != "none";
        if (!p.answer.present) {
            p.answer.ttl_known = false;
            p.answer.ttl_left.reset();
        } else if (e.value != "string") {
            p.survey->is_sorted_set = e.value == "zset";
            p.message = "the key holds a " + presentable(e.value, c) + ", not a lock";
            p.answer.verdict = verdict::refused;
            p.answer.cause = errc::wrong_type;
        }
        return;
    default:
        break;
    }
    p.text.clear();
    if (p.answer.cause == errc::wrong_type) return;
    if (refused) return read_lack(p, c, e, "GETRANGE", degradation::no_holder_names);
    p.text = e.value;
    p.answer.value = p.text;
    p.answer.verdict = verdict::yes;
}

/// The counter's reply is the last that says something about the key.
void conclude_key(partial_answer& p, element const& e) {
    auto& a = p.answer;
    if (!p.tracked && p.text.empty()) a.verdict = verdict::refused;
    if (a.verdict == verdict::yes) {
        a.cause = {};
        a.present = a.present || a.ttl_known || !p.text.empty();
        if (!a.present) a.value.reset();
        auto const number = is_error(e.type) ? 0 : number_of(e.value);
        if (number > 0) a.number = static_cast<std::uint64_t>(number);
    } else {
        a.message = p.message;
    }
}

// The commands are refused to many a user of plain locks. Only with readers that matters.
void conclude_companions(partial_answer& p, sent_command const& c) {
    auto& found = p.survey->found;
    found.has_readers = p.answer.value == readers_value;
    if (found.has_readers) {
        count_readers(*p.survey);
        found.problem = presentable(found.problem, c);
    } else {
        found.readers.clear();
        found.problem.clear();
    }
    if (found.turn != "wait" && found.turn != "open") found.turn.clear();
    p.answer.beside = &found;
}

/// The tokens of the least slots. Of more than are shown, the time of some is not known.
void list_permits(survey_progress& s) {
    auto& found = s.found;
    found.permit_count = std::max<std::uint64_t>(found.permit_count, s.deadlines.members.size());
    auto const all = found.permit_count <= most_readers;
    for (auto& [token, slot] : s.slots.members) {
        if (slot.count() < 0 || slot.count() >= max_permits) continue; // no slot of a semaphore
        auto const its = std::ranges::find(s.deadlines.members, token,
                                           &decltype(s.deadlines.members)::value_type::first);
        std::optional<milliseconds> left;
        if (its != s.deadlines.members.end()) {
            left = left_until(s, its->second);
            if (left && left->count() < 0) continue; // dead
        } else if (all && s.deadlines.answered) {
            continue; // nobody knows whose lease that is
        }
        found.permits.push_back(
            {.slot = static_cast<unsigned>(slot.count()), .token = std::move(token), .left = left});
    }
    if (all && s.slots.answered) found.permit_count = found.permits.size();
}

// A sorted set of another program has no deadlines beside it.
void conclude_permits(partial_answer& p, sent_command const& c) {
    auto& s = *p.survey;
    auto& found = s.found;
    if (!s.is_sorted_set) return;
    if (s.deadlines.members.empty()) {
        if (!s.deadlines.problem.empty())
            p.message += presentable("; of a semaphore, " + s.deadlines.problem, c);
        p.answer.message = p.message;
        return;
    }
    list_permits(s);
    found.has_permits = true;
    found.problem = presentable(s.slots.problem, c);
    p.answer.verdict = verdict::yes;
    p.answer.cause = {};
    p.answer.message = {};
    p.answer.present = true;
    p.answer.value = permits_value;
}

} // namespace

// Reads no more bytes than a token has, because a value may be anything. The keys beside the key
// come last, because a user of plain locks may have no right to them.
void encode_survey(codec::request& request, wording w, command_args const& a) {
    static thread_local std::string fence;
    static thread_local companion_names beside;
    static thread_local permit_names permits;
    name_fence_key(fence, a.key, w.in_cluster);
    name_companions(beside, a.key, w.in_cluster);
    name_permit_keys(permits, a.key, w.in_cluster);
    request.push("PTTL", a.key);
    request.push("TYPE", a.key);
    request.push("GETRANGE", a.key, 0, token::max_size);
    request.push("ZSCORE", fence, "n");
    request.push("TIME");
    request.push("ZCARD", beside.readers);
    request.push("ZRANGE", beside.readers, -static_cast<int>(most_readers), -1, "WITHSCORES");
    request.push("GETRANGE", beside.intent, 0, token::max_size);
    request.push("PTTL", beside.intent);
    request.push("GETRANGE", beside.turn, 0, token::max_size);
    request.push("PTTL", beside.turn);
    request.push("ZRANGE", permits.until, -static_cast<int>(most_readers), -1, "WITHSCORES");
    request.push("ZRANGE", a.key, 0, most_readers - 1, "WITHSCORES");
    request.push("ZCARD", permits.until);
}

void read_survey(partial_answer& p, sent_command const& c, unsigned left, element const& e) {
    if (left < counter) {
        read_companion(p, left, e);
        if (left == turn_ttl && e.depth == 0) conclude_companions(p, c);
        if (left == permit_count && e.depth == 0) conclude_permits(p, c);
        return;
    }
    if (e.depth > 0) return;
    if (left > counter) return read_state(p, c, left, e);
    conclude_key(p, e);
}

} // namespace holdfast::redis
