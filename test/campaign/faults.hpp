// The faults of a campaign, and what they share.
#ifndef HOLDFAST_TEST_CAMPAIGN_FAULTS_HPP
#define HOLDFAST_TEST_CAMPAIGN_FAULTS_HPP

#include "campaign/history.hpp"
#include "campaign/judge.hpp"
#include "campaign/lines.hpp"
#include "campaign/plan.hpp"
#include "campaign/results.hpp"
#include "support/proxy.hpp"
#include "support/resp.hpp"
#include "support/server.hpp"

#include <boost/scope/scope_exit.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::campaign {

using namespace holdfast::test;

/// N3: two may hold a lock for about a second after SWAPDB, and the check that finds it out needs
/// an answer.
inline constexpr milliseconds unannounced = 1'000ms + instance_timeout;

/// The longest pauses of faults.
inline constexpr milliseconds longest_freeze = 1'500ms, longest_setting = 1'500ms,
                              longest_outage = 2'500ms;
/// What a holder who is gone costs others: its lease, and G17 with an outage.
inline constexpr milliseconds end_of_lease = longest_ttl + 100ms + instance_timeout + 1'000ms;

struct fault {
    std::string name;
    /// For how long a key has no holder at most, if no other fault is near.
    milliseconds bound;
    std::function<void()> happens;
    bool adds_length = false; ///< the bound begins at the end of the fault
};
using fault_list = std::vector<fault>;

/// Chance, the length of faults, and what is noted.
class fault_context {
public:
    explicit fault_context(unsigned seed)
        : random_(seed) {}

    std::size_t draw(std::size_t below) { return random_() % below; }
    // The length of a fault, or of the calm after it, is no synchronisation: whatever happens
    // meanwhile must be right.
    void pause(milliseconds most = 600ms) {
        last(milliseconds(1 + draw(static_cast<std::size_t>(most.count()))));
    }
    void last(milliseconds length) { std::this_thread::sleep_for(length); }
    void freeze(server& s) {
        s.freeze();
        pause(longest_freeze);
        s.thaw();
    }
    void revive(server& s) {
        if (s.frozen()) s.thaw();
        if (!s.running()) s.restart();
    }
    /// Two may have a lock from now on, until so long after `harm` has ended. A busy server may
    /// take its time for it.
    template <class Harm>
    void in_window(Harm harm) {
        auto const from = at(clock_type::now());
        boost::scope::scope_exit const close([&] {
            windows_.push_back({from, at(clock_type::now() + unannounced)});
        });
        harm();
    }
    /// The servers were repaired, and the fault begins.
    void begin() {
        began_ = clock_type::now();
        excess_ = {};
    }
    /// What the servers took from `began` on, beyond what is usual, is added to the bound of the
    /// fault: a restart, or an election that had to be held again.
    void add_excess(clock_type::time_point began, milliseconds usual = {}) {
        excess_ += std::max(since(began) - usual, 0ms);
    }
    milliseconds excess() const { return excess_; }
    clock_type::time_point began() const { return began_; }
    std::vector<window> const& windows() const { return windows_; }
    record& results() { return results_; }

private:
    std::mt19937 random_;
    std::vector<window> windows_;
    clock_type::time_point began_{};
    milliseconds excess_{};
    record results_;
};

/// The servers of a deployment, or a part of them.
class group_of_servers {
public:
    group_of_servers(fault_context& context, std::size_t clients)
        : context_(context)
        , lines_(clients) {}
    virtual ~group_of_servers() = default;
    group_of_servers(group_of_servers const&) = delete;
    group_of_servers& operator=(group_of_servers const&) = delete;

    virtual void add_faults(fault_list& list) = 0;
    /// Repairs all of them, and waits until they work.
    virtual void settle() = 0;
    /// See client_lines.
    bool lines_are_used() const { return lines_.are_used(); }
    virtual std::string routes(std::size_t client) const { return lines_.routes(client); }

protected:
    /// A fault that begins with a repair of what those before it have left.
    void add(fault_list& list, std::string name, milliseconds bound, std::function<void()> happens,
             bool adds_length = false) {
        auto after_repair = [this, happens = std::move(happens)] {
            settle();
            context_.begin();
            happens();
        };
        list.push_back({std::move(name), bound, std::move(after_repair), adds_length});
    }

    /// Of those of the lines between a client and some servers. What a client sent before it gave
    /// up may come later. `of`: the beginning of their names.
    void add_line_faults(fault_list& list, std::string const& of) {
        add_line_fault(list, of + ": commands come late", &proxy::hold_requests, &proxy::resume);
        add_line_fault(list, of + ": replies come late", &proxy::hold_replies, &proxy::resume);
        add_line_fault(list, of + ": replies are lost", &proxy::hold_replies, [](proxy& p) {
            p.cut(proxy::cut_kind::reset);
            p.resume();
        });
        add_line_fault(list, of + ": a client is cut off", &proxy::down, &proxy::up);
        add_line_fault(
            list, of + ": slow", [](proxy& p) { p.delay_replies(300ms); },
            [](proxy& p) { p.delay_replies(0ms); });
        add_line_fault(
            list, of + ": pushes are lost", [](proxy& p) { p.swallow_pushes(); },
            [](proxy& p) { p.swallow_pushes(false); });
        // N3: where CLIENT TRACKING was refused, no flush is announced. So each connection ends.
        add_line_fault(
            list, of + ": hostile replies", [](proxy& p) { p.intercept(hostile()); },
            [](proxy& p) {
                p.intercept({});
                p.cut(proxy::cut_kind::reset);
            });
    }

    fault_context& context_;
    client_lines lines_;

private:
    template <class Begin, class End>
    void add_line_fault(fault_list& list, std::string name, Begin begin, End end) {
        list.push_back({std::move(name), longest_outage + end_of_lease, [this, begin, end] {
                            auto const client = context_.draw(lines_.clients());
                            auto const first = context_.draw(lines_.servers());
                            auto const count = 1 + context_.draw(lines_.servers());
                            auto const each = [&](auto const& act) {
                                for (auto i = first; i < first + count; ++i)
                                    std::invoke(act, lines_.between(client, i % lines_.servers()));
                            };
                            each(begin);
                            context_.pause(longest_outage);
                            each(end);
                        }});
    }
    /// Answers every third command as no server does. None is a grant: a server that lies is no
    /// fault that a quorum can bear.
    static proxy::interceptor hostile() {
        // The proxy asks a copy for each command.
        auto const asked = std::make_shared<std::size_t>(0);
        return [asked](command_line const&) -> std::optional<std::string> {
            static constexpr std::array<std::string_view, 10> replies{"-ERR hostile\r\n",
                                                                      "$-1\r\n",
                                                                      "*-1\r\n",
                                                                      "+HOSTILE\r\n",
                                                                      "*2\r\n+a\r\n-b\r\n",
                                                                      "?\r\n",
                                                                      "*0\r\n",
                                                                      "$3\r\nabcdef\r\n",
                                                                      ":-9\r\n",
                                                                      "*9999999\r\n"};
            auto const n = ++*asked;
            if (n % 3 != 0) return std::nullopt;
            return std::string(replies[n / 3 % replies.size()]);
        };
    }
};

} // namespace holdfast::campaign

#endif
