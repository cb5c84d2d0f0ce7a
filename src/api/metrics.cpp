#include <holdfast/metrics.hpp>

#include "api/log_text.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace holdfast {

namespace {

// https://prometheus.io/docs/instrumenting/exposition_formats/#comments-help-text-and-type-information
std::string escaped(std::string_view value) {
    std::string text;
    for (char const c : detail::valid_utf8(value)) {
        if (c == '\\' || c == '"') text += '\\';
        if (c == '\n') {
            text += "\\n";
        } else {
            text += c;
        }
    }
    return text;
}

std::string label(std::string_view name, std::string_view value) {
    return std::string(name) + "=\"" + escaped(value) + '"';
}

std::string joined(std::string const& a, std::string const& b) {
    return a.empty() || b.empty() ? a + b : a + ',' + b;
}

std::string seconds(std::chrono::nanoseconds d) {
    std::array<char, 32> text{};
    auto const value = std::chrono::duration<double>(d).count();
    auto const end =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
    return {text.data(), end};
}

/// The page while it grows. All samples of a metric follow its head, as the format asks.
class writer {
public:
    void head(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
        text_.append(name).append(" ").append(type).append("\n");
    }
    void sample(std::string const& labels, std::uint64_t value) {
        line({}, labels, std::to_string(value));
    }
    void sample(std::string const& labels, std::chrono::nanoseconds d) {
        line({}, labels, seconds(d));
    }
    void sample(std::string const& labels, latency_histogram const& h) {
        std::uint64_t below = 0;
        for (std::size_t i = 0; i < h.counts.size(); ++i) {
            below += h.counts[i];
            auto const last = i == latency_histogram::bounds.size();
            auto const bound = last ? "+Inf" : seconds(latency_histogram::bounds[i]);
            line("_bucket", joined(labels, label("le", bound)), std::to_string(below));
        }
        line("_sum", labels, seconds(h.sum));
        line("_count", labels, std::to_string(below));
    }
    std::string take() { return std::move(text_); }

private:
    void line(std::string_view suffix, std::string const& labels, std::string const& value) {
        text_.append(name_).append(suffix);
        if (!labels.empty()) text_.append("{").append(labels).append("}");
        text_.append(" ").append(value).append("\n");
    }

    std::string text_;
    std::string_view name_;
};

struct plain_metric {
    char const* name;
    char const* help;
    std::uint64_t client_stats::*value;
};

constexpr std::array counters{
    plain_metric{"holdfast_leases_acquired_total", "Leases given out.", &client_stats::acquired},
    plain_metric{"holdfast_acquires_failed_total", "Acquires that ended with an error.",
                 &client_stats::acquire_failed},
    plain_metric{"holdfast_rounds_total", "Rounds of SET that were sent, won or not.",
                 &client_stats::rounds},
    plain_metric{"holdfast_leases_released_total", "Leases released before they ended.",
                 &client_stats::released},
    plain_metric{"holdfast_leases_lost_total", "Leases that ended without a release.",
                 &client_stats::lost},
    plain_metric{"holdfast_leases_revoked_total", "Lost leases that were revoked.",
                 &client_stats::revoked},
    plain_metric{"holdfast_revocations_total", "Holders that this client has revoked.",
                 &client_stats::revocations},
    plain_metric{"holdfast_extensions_total", "Extensions of leases that won.",
                 &client_stats::extended},
    plain_metric{"holdfast_extensions_failed_total", "Extensions of leases that failed.",
                 &client_stats::extend_failed},
    plain_metric{"holdfast_handovers_total",
                 "Leases handed on or shared in the process without I/O.",
                 &client_stats::handovers},
    plain_metric{"holdfast_pushes_total", "Wake-ups of a waiting queue by an instance.",
                 &client_stats::pushes},
    plain_metric{"holdfast_wasted_wakeups_total", "Tries after a push that found the key taken.",
                 &client_stats::wasted_wakeups},
    plain_metric{"holdfast_split_votes_total",
                 "Rounds in which contenders kept each other from a quorum.",
                 &client_stats::split_votes},
    plain_metric{"holdfast_raises_total", "Fences raised where instances had counted differently.",
                 &client_stats::raises},
    plain_metric{"holdfast_commands_total", "Commands sent to the instances.",
                 &client_stats::commands},
    plain_metric{"holdfast_batches_total", "Batches that carried the commands.",
                 &client_stats::batches},
    plain_metric{"holdfast_releases_dropped_total", "Pending releases that were left to the ttl.",
                 &client_stats::releases_dropped},
    plain_metric{"holdfast_observer_failures_total", "Exceptions from the observer.",
                 &client_stats::observer_failures},
};

constexpr std::array gauges{
    plain_metric{"holdfast_leases_held", "Leases that have a holder and have not ended.",
                 &client_stats::held},
    plain_metric{"holdfast_permits_held", "Of the leases held, permits of semaphores.",
                 &client_stats::permits},
    plain_metric{"holdfast_acquires_pending", "Acquires under way.", &client_stats::pending},
    plain_metric{"holdfast_acquires_waiting", "Acquires that wait for a holder.",
                 &client_stats::waiters},
};

constexpr std::array states{instance_state::connecting,  instance_state::up,
                            instance_state::quarantined, instance_state::unreplicated,
                            instance_state::suspect,     instance_state::down};

std::string instance_label(std::string const& client, instance_status const& s) {
    return joined(client, label("address", s.address));
}

/// Calls `function(labels, status)` for each instance of the client, and for each node of a
/// Cluster.
template <class Function>
void for_each_member(std::string const& client, std::vector<instance_status> const& all,
                     Function function) {
    for (auto const& s : all) {
        auto const labels = instance_label(client, s);
        function(labels, s);
        for (auto const& node : s.nodes)
            function(joined(labels, label("node", node.address)), node);
    }
}

} // namespace

void metrics_page::add(client_stats const& stats, std::vector<instance_status> const& instances,
                       std::string_view name) {
    sources_.push_back({name.empty() ? std::string() : label("client", name), stats, instances});
}

std::string metrics_page::text() const {
    writer page;
    auto const for_each_client = [&](auto function) {
        for (auto const& s : sources_) function(s);
    };
    auto const for_each_instance = [&](auto function) {
        for (auto const& s : sources_) for_each_member(s.labels, s.instances, function);
    };
    auto const plain = [&](plain_metric const& m, std::string_view type) {
        page.head(m.name, type, m.help);
        for_each_client([&](source const& s) { page.sample(s.labels, s.stats.*m.value); });
    };
    auto const durations = [&](std::string_view name, std::string_view help,
                               latency_histogram client_stats::*value) {
        page.head(name, "histogram", help);
        for_each_client([&](source const& s) { page.sample(s.labels, s.stats.*value); });
    };
    for (auto const& m : counters) plain(m, "counter");
    for (auto const& m : gauges) plain(m, "gauge");
    page.head("holdfast_longest_stall_seconds", "gauge",
              "The longest time for which the event loop stood still.");
    for_each_client([&](source const& s) { page.sample(s.labels, s.stats.longest_stall); });

    page.head("holdfast_acquire_duration_seconds", "histogram",
              "From the call of an acquire to its end, by outcome.");
    for_each_client([&](source const& s) {
        for (std::size_t i = 0; i < acquire_outcomes; ++i) {
            auto const outcome = label("outcome", to_string(static_cast<acquire_outcome>(i)));
            page.sample(joined(s.labels, outcome), s.stats.acquires[i]);
        }
    });
    durations("holdfast_wait_duration_seconds", "The same of acquires that waited for a holder.",
              &client_stats::waits);
    durations("holdfast_hold_duration_seconds", "From the grant of a lease to its release or loss.",
              &client_stats::holds);
    durations("holdfast_extension_duration_seconds", "From sending an extension to its success.",
              &client_stats::extensions);

    page.head("holdfast_instance_info", "gauge", "Always 1; its labels tell of the instance.");
    for_each_instance([&](std::string const& labels, instance_status const& s) {
        page.sample(joined(labels, label("server", s.server) + ',' + label("primary", s.primary) +
                                       ',' + label("tls", s.tls)),
                    1);
    });
    page.head("holdfast_instance_state", "gauge", "1 for the state that the instance is in.");
    for_each_instance([&](std::string const& labels, instance_status const& s) {
        for (auto const state : states) {
            page.sample(joined(labels, label("state", to_string(state))), s.state == state ? 1 : 0);
        }
    });
    page.head("holdfast_instance_degraded", "gauge",
              "1 for each service that the client does without at the instance.");
    for_each_instance([&](std::string const& labels, instance_status const& s) {
        for (auto const& d : s.degradations) {
            std::string_view const effect = to_string(d.kind);
            page.sample(joined(labels, label("service", effect.substr(0, effect.find(':')))), 1);
        }
    });
    page.head("holdfast_instance_connections_total", "counter", "Connections that came up.");
    for_each_instance([&](std::string const& labels, instance_status const& s) {
        page.sample(labels, s.connections);
    });
    page.head("holdfast_instance_pending_releases", "gauge",
              "Releases that wait for the instance.");
    for_each_instance([&](std::string const& labels, instance_status const& s) {
        page.sample(labels, s.pending_releases);
    });
    page.head("holdfast_instance_round_trip_seconds", "histogram",
              "How long the instance took to answer a batch of commands.");
    for_each_client([&](source const& s) {
        for (auto const& i : s.instances) page.sample(instance_label(s.labels, i), i.round_trips);
    });
    return page.take();
}

} // namespace holdfast
