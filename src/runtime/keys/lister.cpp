#include "runtime/keys/lister.hpp"

#include <holdfast/lock.hpp>

#include "protocol/instance_set.hpp"
#include "redis/scan/key_scan.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast::runtime {

/// The scan of one server. An answer that is under way keeps it alive.
class lister::server_scan final : public redis::reply_handler {
public:
    server_scan(lister& l, list_job& j, unsigned of, redis::scan_plan::server at)
        : instance(of)
        , server(std::move(at))
        , job(&j)
        , lister_(l) {}

    redis::lock_kind const& kind() const noexcept override { return redis::key_scan; }
    redis::command_args arguments(protocol::command) const noexcept override;
    bool still_wants(protocol::command) const noexcept override { return job != nullptr; }
    void on_answer(unsigned, protocol::command, std::uint32_t, redis::answer const&) override;

    unsigned const instance;
    redis::scan_plan::server const server;
    list_job* job; ///< null after the end of the call
    std::uint64_t cursor = 0;
    bool begun = false, ended = false;
    bool finds_permits = false; ///< the keys of semaphores, after those of other locks

private:
    void recycle() noexcept override { delete this; }

    lister& lister_;
};

/// One call: what it looks for, and what it has found.
class list_job {
public:
    list_job(std::string key_prefix, list_options const& o)
        : prefix(std::move(key_prefix))
        , options(o) {}
    list_job(list_job const&) = delete;
    list_job& operator=(list_job const&) = delete;
    ~list_job() {
        for (auto const& s : scans) s->job = nullptr;
    }

    std::string const prefix;
    list_options const options;
    operation* op = nullptr;
    boost::unordered_flat_set<std::string> keys;
    std::vector<boost::intrusive_ptr<lister::server_scan>> scans;
    std::vector<std::uint64_t> layouts; ///< of each instance, at the beginning
    std::size_t open = 0;               ///< scans that have not ended
    protocol::instance_set waits_for;   ///< the instances whose servers are not known yet
    list_report report{};
};

std::shared_ptr<list_job> make_list_job(std::string prefix, list_options const& o) {
    return std::make_shared<list_job>(std::move(prefix), o);
}

redis::command_args lister::server_scan::arguments(protocol::command) const noexcept {
    if (job == nullptr) return {.key = {}, .token = {}};
    return {.key = job->prefix,
            .token = {},
            .number = cursor,
            .node = server.node,
            .permits = finds_permits ? std::uint16_t{1} : std::uint16_t{0}};
}

void lister::server_scan::on_answer(unsigned, protocol::command, std::uint32_t,
                                    redis::answer const& a) {
    if (job == nullptr) return;
    if (!lister_.turn_.attempt([&] { lister_.on_answer(*this, a); }) && job != nullptr)
        lister_.fail(*job->op);
}

namespace {

void note(list_answer& a, std::string_view problem) {
    if (problem.empty()) return;
    a.complete = false;
    if (!a.message.empty()) a.message += "; ";
    a.message += problem;
}

} // namespace

void lister::start(operation& op) {
    auto& job = *op.as<list_call>().job;
    prepare(op, job);
    // From here on a failure must complete the operation.
    op.stage = operation_stage::attached;
    open_.push_back(op);
    op.timer->owner = this;
    timers_.schedule(*op.timer, turn_.time() + job.options.time_limit);
    auto const asked = turn_.attempt([&] { ask_all(job); });
    if (!asked && std::holds_alternative<list_call>(op.call)) fail(op);
}

void lister::prepare(operation& op, list_job& job) {
    job.op = &op;
    auto const all = instances_.snapshots({}, std::string_view());
    job.layouts.resize(instances_.size());
    for (unsigned i = 0; i < instances_.size(); ++i) {
        auto& answer = job.report.instances.emplace_back();
        answer.address = all[i].status.address;
        plan(job, i);
    }
}

void lister::plan(list_job& job, unsigned i) {
    auto const has = instances_[i].plan_scan();
    auto& answer = job.report.instances[i];
    job.waits_for.erase(i);
    if (has.servers.empty() && has.gap.empty()) return job.waits_for.insert(i);
    answer.complete = true; // until something shows otherwise
    note(answer, has.gap);
    job.layouts[i] = has.layout;
    for (auto const& server : has.servers) {
        job.scans.emplace_back(new server_scan(*this, job, i, server));
        ++job.open;
    }
}

// May complete the call, and destroy the job.
void lister::ask_all(list_job& job) {
    auto const scans = job.scans;
    auto const idle = job.open == 0 && job.waits_for.empty();
    for (auto const& s : scans) {
        if (s->job != nullptr && !std::exchange(s->begun, true)) ask(*s);
    }
    if (idle) conclude(job, {});
}

void lister::on_came_or_went(unsigned instance) {
    for (auto next = open_.begin(); next != open_.end();) {
        auto& op = *next++;
        auto& job = *op.as<list_call>().job;
        if (!job.waits_for.contains(instance)) continue;
        auto const done = turn_.attempt([&] {
            plan(job, instance);
            ask_all(job);
        });
        if (!done && std::holds_alternative<list_call>(op.call)) fail(op);
    }
}

void lister::ask(server_scan& s) {
    auto& instance = instances_[s.instance];
    if (auto const problem = instance.scan_problem(s.server.node); !problem.empty())
        return end(s, problem);
    redis::reply_handler_ptr const alive(&s);
    encoder_.start(protocol::command::scan, s);
    if (!instance.submit(encoder_, alive, 0)) end(s, "the connection was lost");
}

void lister::on_answer(server_scan& s, redis::answer const& a) {
    if (a.verdict != protocol::verdict::yes) {
        auto const cause =
            a.cause != errc{} ? make_error_code(a.cause).message() : std::string("no answer");
        return end(s, a.message.empty() ? std::string_view(cause) : a.message);
    }
    auto& job = *s.job;
    redis::for_each_key(a, [&](std::string_view name) {
        auto const key = s.finds_permits ? redis::semaphore_of(name) : name;
        // No name of a lock. The server may name anything.
        if (s.finds_permits && key.empty()) return;
        if (key.size() > max_key_size || !key.starts_with(job.prefix)) return;
        if (job.report.limited || redis::is_beside_a_lock(key)) return;
        if (job.keys.size() < job.options.max_keys) {
            job.keys.emplace(key);
        } else {
            job.report.limited = !job.keys.contains(std::string(key));
        }
    });
    s.cursor = a.number;
    if (job.report.limited)
        return conclude(job, "stopped at " + std::to_string(job.options.max_keys) + " keys");
    if (s.cursor == 0 && std::exchange(s.finds_permits, true)) return end(s, {});
    ask(s);
}

void lister::end(server_scan& s, std::string_view problem) {
    auto& job = *s.job;
    s.ended = true;
    if (!problem.empty()) {
        auto const& name = s.server.name;
        auto const told = name.empty() || problem.starts_with(name);
        note(job.report.instances[s.instance],
             told ? std::string(problem) : name + ": " + std::string(problem));
    }
    if (--job.open == 0 && job.waits_for.empty()) conclude(job, {});
}

// Destroys the job. `reason`: why the scans that have not ended were given up.
void lister::conclude(list_job& job, std::string const& reason) {
    auto& r = job.report;
    for (auto const& s : job.scans) {
        auto& answer = r.instances[s->instance];
        if (!s->ended && !answer.message.ends_with(reason)) note(answer, reason);
    }
    job.waits_for.for_each([&](unsigned i) { note(r.instances[i], reason); });
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (!job.waits_for.contains(i) && instances_[i].plan_scan().layout != job.layouts[i])
            note(r.instances[i], "slots have moved from one node to another meanwhile");
    }
    r.keys.assign(job.keys.begin(), job.keys.end());
    std::ranges::sort(r.keys);
    r.complete = std::ranges::all_of(r.instances, &list_answer::complete) && !r.limited;
    completer_.complete(*job.op, std::move(r));
}

void lister::on_time(operation& op, lease_clock::time_point) {
    auto& job = *op.as<list_call>().job;
    auto const ms = std::to_string(job.options.time_limit.count());
    if (!turn_.attempt([&] { conclude(job, "not scanned to the end within " + ms + " ms"); }))
        fail(op);
}

void lister::fail(operation& op) {
    completer_.complete(op, errc::out_of_memory);
}

void lister::shut_down() {
    while (!open_.empty()) completer_.complete(open_.front(), errc::shut_down);
}

} // namespace holdfast::runtime
