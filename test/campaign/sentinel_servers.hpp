// The primary of a campaign, its replicas and sentinels, and their faults.
#ifndef HOLDFAST_TEST_CAMPAIGN_SENTINEL_SERVERS_HPP
#define HOLDFAST_TEST_CAMPAIGN_SENTINEL_SERVERS_HPP

#include "campaign/faults.hpp"
#include "support/sentinel_group.hpp"

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <utility>

namespace holdfast::campaign {

/// doc/production.md: max_ttl + 2 s, and G17 with an outage.
inline constexpr milliseconds new_primary = end_of_lease + 2'000ms;
/// down-after + 2.2 s, if the sentinels agree at once. Otherwise they vote again after twice the
/// failover-timeout.
inline constexpr milliseconds sentinels_agree = 2'000ms + 2'200ms;
inline constexpr milliseconds failover = sentinels_agree + new_primary;

class sentinel_servers : public group_of_servers {
public:
    /// With TLS there are no lines, as a proxy does not speak it.
    sentinel_servers(fault_context& context, std::size_t clients, sentinel_group_options options)
        : group_of_servers(context, clients)
        , group_(std::move(options)) {
        if (group_.options().tls) return;
        for (std::size_t i = 0; i < group_.members(); ++i) lines_.add(group_.port(i));
        for (std::size_t i = 0; i < group_.sentinels(); ++i) lines_.add(group_.sentinel_port(i));
    }

    sentinel_group& group() { return group_; }

    void add_faults(fault_list& list) override {
        add(list, "sentinel: kill of the primary", failover, [this] { kill_primary(); });
        add(list, "sentinel: the primary is killed twice", 2 * failover, [this] {
            kill_primary();
            kill_primary();
        });
        add(list, "sentinel: the primary freezes and is replaced", failover, [this] {
            auto const victim = group_.primary();
            switches([&] { group_.member(victim).freeze(); });
            context_.pause();
            group_.member(victim).thaw();
            group_.wait_until_settled();
        });
        add(list, "sentinel: the primary freezes for a moment", longest_freeze + end_of_lease,
            [this] { context_.freeze(group_.member(group_.primary())); });
        add(list, "sentinel: planned fail-over", failover, [this] {
            switches([&] { group_.begin_failover(); });
            group_.wait_until_settled();
        });
        add(list, "sentinel: a sentinel freezes", end_of_lease,
            [this] { context_.freeze(group_.sentinel(context_.draw(group_.sentinels()))); });
        add(list, "sentinel: the primary restarts empty", new_primary, [this] {
            auto const victim = group_.primary();
            group_.restart_empty(victim);
            context_.add_excess(context_.began());
            group_.wait_until_settled();
            if (group_.primary() != victim) context_.add_excess(context_.began());
        });
        add(list, "sentinel: replicas are cut off, and the primary is killed", failover, [this] {
            auto const victim = group_.primary();
            for (std::size_t i = 0; i < group_.members(); ++i)
                if (i != victim) group_.cut_replication(i);
            context_.pause();
            switches([&] { group_.member(victim).kill(); });
            group_.member(victim).restart();
            for (std::size_t i = 0; i < group_.members(); ++i)
                if (i != group_.primary()) group_.restore_replication(i);
            group_.wait_until_settled();
        });
        if (lines_.servers() > 0) add_line_faults(list, "sentinel line");
    }
    void settle() override {
        for (std::size_t i = 0; i < group_.sentinels(); ++i) context_.revive(group_.sentinel(i));
        for (std::size_t i = 0; i < group_.members(); ++i) context_.revive(group_.member(i));
        restore_replicas();
        group_.wait_until_settled(90s);
    }

private:
    /// A fault that was not carried out to its end may have left some cut off.
    void restore_replicas() {
        try {
            for (std::size_t i = 0; i < group_.members(); ++i)
                if (i != group_.primary()) group_.restore_replication(i);
        } catch (std::exception const& e) {
            context_.results().say(std::string("  replicas are not restored: ") + e.what());
        }
    }
    template <class Fault>
    void switches(Fault happens) {
        auto const before = group_.majority();
        auto const began = clock_type::now();
        happens();
        if (before) group_.wait_for_switch(*before);
        context_.add_excess(began, sentinels_agree);
    }
    void kill_primary() {
        auto const victim = group_.primary();
        switches([&] { group_.member(victim).kill(); });
        group_.member(victim).restart();
        group_.wait_until_settled();
    }

    sentinel_group group_;
};

} // namespace holdfast::campaign

#endif
