#ifndef HOLDFAST_METRICS_HPP
#define HOLDFAST_METRICS_HPP

#include <holdfast/client.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/detail/api.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// The statistics of clients as a page for Prometheus, in its text format
/// (https://prometheus.io/docs/instrumenting/exposition_formats/). So a program answers a scrape
/// with:
///
/// @code
/// holdfast::metrics_page page;
/// page.add(locks);
/// response.set(http::field::content_type, holdfast::metrics_page::content_type);
/// response.body() = page.text();
/// @endcode
///
/// doc/monitoring.md lists the metrics; doc/monitoring has alert rules and a dashboard for Grafana.
///
/// @par Thread safety  Distinct objects: safe. add() may be called on any thread if
///     client_options::thread_safe is on.
class HOLDFAST_API metrics_page {
public:
    /// The content type of the page, for the header of the response.
    static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

    /// Adds a client. If a process has several, each needs a `name` of its own: it becomes the
    /// label `client`. Empty: no label. Bytes that are not UTF-8 are replaced.
    /// @throws system_error  As client::stats().
    void add(client const& c, std::string_view name = {}) { add(c.stats(), c.instances(), name); }
    /// Adds a client by its statistics and instances, as read before.
    void add(client_stats const&, std::vector<instance_status> const&, std::string_view name = {});

    /// The page, with all clients that were added.
    std::string text() const;

private:
    struct source {
        std::string labels;
        client_stats stats;
        std::vector<instance_status> instances;
    };
    std::vector<source> sources_;
};

} // namespace holdfast

#endif
