#include "runtime/inspector.hpp"

#include "protocol/fence.hpp"
#include "protocol/key_survey.hpp"
#include "protocol/rules.hpp"
#include "redis/token.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <openssl/sha.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::runtime {

namespace {

std::string digest_of(std::string_view token) {
    constexpr std::size_t bytes = 8;
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
    SHA256(reinterpret_cast<unsigned char const*>(token.data()), token.size(), hash.data());
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) {
        text += digits[hash[i] / 16];
        text += digits[hash[i] % 16];
    }
    return text;
}

protocol::key_finding finding_of(key_answer const& a) {
    using kind = protocol::key_finding::kind;
    switch (a.found) {
    case key_answer::kind::absent:
        return {.found = kind::absent};
    case key_answer::kind::present:
        return {.found = kind::present, .token = a.digest};
    case key_answer::kind::not_a_lock:
        return {.found = kind::foreign};
    case key_answer::kind::unknown:
        break;
    }
    return {};
}

key_state state_of(protocol::key_judgement::state s) {
    using state = protocol::key_judgement::state;
    switch (s) {
    case state::free:
        return key_state::free;
    case state::held:
        return key_state::held;
    case state::split:
        return key_state::split;
    case state::foreign:
        return key_state::not_a_lock;
    case state::unknown:
        break;
    }
    return key_state::unknown;
}

/// The time after which no quorum of instances has the key: with the k-th of the times sorted, the
/// quorum loses a member that it needs.
std::optional<std::chrono::milliseconds> time_left(key_report const& r) {
    std::vector<std::chrono::milliseconds> known;
    for (auto const& i : r.instances) {
        if (i.found != key_answer::kind::present || i.digest != r.digest) continue;
        if (!i.ttl_known) return {};
        known.push_back(i.ttl_left.value_or(std::chrono::milliseconds::max()));
    }
    std::sort(known.begin(), known.end(), std::greater<>());
    auto const left = known[r.quorum - 1];
    if (left == std::chrono::milliseconds::max()) return {};
    return left;
}

/// The time that a tenure's number stands for, unless that is in the future.
std::optional<std::chrono::system_clock::time_point> time_of(std::uint64_t fence) {
    using namespace std::chrono;
    auto const number = fence / protocol::leases_per_number;
    auto const since =
        system_clock::time_point(milliseconds(number / protocol::numbers_per_millisecond));
    if (number == 0 || since > system_clock::now()) return {};
    return since;
}

void judge(key_report& r) {
    std::vector<protocol::key_finding> findings;
    for (auto const& i : r.instances) {
        findings.push_back(finding_of(i));
        r.fence = std::max(r.fence, i.fence);
    }
    auto const judgement = protocol::judge(findings, r.quorum);
    r.state = state_of(judgement.is);
    if (r.state != key_state::held) return;
    r.digest = judgement.token;
    auto const holder = std::ranges::find(r.instances, r.digest, &key_answer::digest);
    r.holder = holder->holder;
    r.ttl_left = time_left(r);
    r.since = time_of(r.fence);
}

} // namespace

/// One inspection, while instances are to answer.
class inspector::question final : public redis::reply_handler {
public:
    question(inspector& i, operation& asked_by, unsigned count)
        : op(&asked_by)
        , began(i.turn_.time())
        , inspector_(i) {
        report.key = asked_by.lock->key;
        report.instances.resize(count);
    }

    redis::command_args arguments(protocol::command) const noexcept override {
        return {.key = report.key, .token = {}};
    }
    bool still_wants(protocol::command) const noexcept override { return op != nullptr; }
    void on_answer(unsigned instance, protocol::command, std::uint32_t,
                   redis::answer const& a) override {
        inspector_.on_answer(*this, instance, a);
    }

    operation* op; ///< null after a cancellation
    lease_clock::time_point const began;
    protocol::instance_set pending; ///< asked, and not yet answered
    key_report report;

private:
    void recycle() noexcept override { delete this; }

    inspector& inspector_;
};

void inspector::start(operation& op) {
    redis::reply_handler_ptr alive;
    question* q = nullptr;
    auto const made = turn_.attempt([&] {
        q = new question(*this, op, instances_.size());
        alive = q;
        q->report.quorum = protocol::redlock_rules::quorum(instances_.size(), 0);
        auto const all = instances_.snapshots({}, op.lock->key);
        for (unsigned i = 0; i < instances_.size(); ++i) {
            q->report.instances[i].address = all[i].status.address;
            q->report.instances[i].message = all[i].status.message;
        }
    });
    if (!made) return completer_.complete(op, errc::out_of_memory);
    op.stage = operation_stage::attached;
    op.inspection = q;
    q->pending = instances_.reachable();
    encoder_.start(protocol::command::survey, *q);
    auto const asked = q->pending;
    asked.for_each([&](unsigned i) {
        if (!turn_.attempt([&] { instances_[i].submit(encoder_, alive, 0); })) q->pending.erase(i);
    });
    if (q->pending.empty()) conclude(*q);
}

void inspector::cancel(operation& op) {
    static_cast<question*>(op.inspection)->op = nullptr;
    completer_.complete(op, errc::cancelled);
}

void inspector::on_answer(question& q, unsigned instance, redis::answer const& a) {
    if (q.op == nullptr) return;
    q.pending.erase(instance);
    auto& to = q.report.instances[instance];
    // If memory runs out, the answer counts as missing.
    turn_.attempt([&] {
        auto filled = answer_of(instance, a, q);
        filled.address = std::move(to.address);
        to = std::move(filled);
    });
    if (q.pending.empty()) conclude(q);
}

key_answer inspector::answer_of(unsigned instance, redis::answer const& a,
                                question const& q) const {
    key_answer found;
    found.round_trip = turn_.time() - q.began;
    found.message = a.message;
    if (a.cause == errc::wrong_type) {
        found.found = key_answer::kind::not_a_lock;
        return found;
    }
    if (a.verdict != protocol::verdict::yes) {
        if (found.message.empty()) found.message = make_error_code(a.cause).message();
        return found;
    }
    if (protocol::is_fence_count(a.number)) found.fence = protocol::fence_of(a.number, 0);
    if (a.present) {
        found.found = key_answer::kind::present;
        found.ttl_known = a.ttl_known;
        found.ttl_left = a.ttl_left;
        if (!a.value.empty()) found.digest = digest_of(a.value);
        found.holder = acquirer_.has_token(q.report.key, a.value)
                           ? std::string("this client")
                           : std::string(redis::label_of(a.value));
    } else if (instances_[instance].may_grant()) {
        found.found = key_answer::kind::absent;
    } else {
        // It may have forgotten the key.
        found.message = "no key, which does not count: " + instances_[instance].reason_message();
    }
    return found;
}

void inspector::conclude(question& q) {
    auto& op = *std::exchange(q.op, nullptr);
    if (!turn_.attempt([&] { judge(q.report); })) {
        return completer_.complete(op, errc::out_of_memory);
    }
    completer_.complete(op, std::move(q.report));
}

} // namespace holdfast::runtime
