#include "command/settings.hpp"

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

namespace holdfast::command {

namespace {

std::string variable(char const* name) {
    auto const* const value = std::getenv(name);
    return value == nullptr ? std::string() : value;
}

} // namespace

void settings::add_to(CLI::App& app) {
    app.add_option("-i,--instances", instances,
                   "Addresses of the instances, separated by blanks or commas "
                   "(Env:HOLDFAST_INSTANCES)");
    app.add_option("-f,--instances-file", instances_file,
                   "File with the addresses; # begins a comment (Env:HOLDFAST_INSTANCES_FILE)");
    app.add_option("--prefix", prefix, "Precedes the key, as client_options::key_prefix")
        ->envname("HOLDFAST_PREFIX");
    app.add_option("--label", label, "Names the holder to others")->default_str(default_label());
    add_time(app, "--timeout", timeout_ms, "How long an instance may take to answer")
        ->default_str("2s");
    add_time(app, "--max-ttl", max_ttl_ms,
             "The longest ttl of all clients that lock the same keys "
             "(Env:HOLDFAST_MAX_TTL)")
        ->default_str("60s")
        ->envname("HOLDFAST_MAX_TTL");
}

// The command line goes before the environment, so a list there never hides a file here.
std::vector<address> settings::addresses() const {
    auto list = instances, path = instances_file;
    if (list.empty() && path.empty()) {
        list = variable("HOLDFAST_INSTANCES");
        path = variable("HOLDFAST_INSTANCES_FILE");
    }
    if (!list.empty() && !path.empty())
        throw std::runtime_error("instances are given as a list and as a file; give one of them");
    if (!list.empty()) return parse_addresses(list);
    if (path.empty()) {
        throw std::runtime_error("no instances are given: use --instances, --instances-file or "
                                 "the environment variable HOLDFAST_INSTANCES");
    }
    std::ifstream file(path);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf()))
        throw std::runtime_error("the file \"" + path + "\" cannot be read, or is empty");
    auto const all = text.str();
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    auto const skipped = all.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    return parse_addresses(std::string_view(all).substr(skipped));
}

client_options settings::options() const {
    client_options o;
    o.max_ttl = std::chrono::milliseconds(max_ttl_ms);
    o.key_prefix = prefix;
    o.holder_label = label.empty() ? default_label() : label;
    o.connection_name = "holdfast-command";
    o.instance_timeout = std::chrono::milliseconds(timeout_ms);
    o.connect_timeout = o.instance_timeout;
    o.thread_safe = false;
    if (o.fence_ttl < o.max_ttl) o.fence_ttl = o.max_ttl;
    return o;
}

CLI::Option* add_time(CLI::App& app, std::string const& name, std::int64_t& milliseconds,
                      std::string const& text) {
    std::map<std::string, std::int64_t> const units{
        {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
    return app.add_option(name, milliseconds, text)
        ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_REQUIRED, "TIME"));
}

std::string option_text(std::int64_t milliseconds) {
    struct unit {
        std::int64_t length;
        char const* name;
    };
    for (auto const& u : {unit{3'600'000, "h"}, unit{60'000, "m"}, unit{1'000, "s"}}) {
        if (milliseconds != 0 && milliseconds % u.length == 0)
            return std::to_string(milliseconds / u.length) + u.name;
    }
    return std::to_string(milliseconds) + "ms";
}

void settings::check_ttl(std::int64_t ttl_ms) const {
    if (ttl_ms <= max_ttl_ms) return;
    throw std::runtime_error("--ttl is " + option_text(ttl_ms) + ", and --max-ttl is " +
                             option_text(max_ttl_ms) +
                             ": give a longer --max-ttl, the same to all clients of these "
                             "instances, or a shorter --ttl");
}

std::string default_label() {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) return "holdfast";
    auto const process = '@' + std::to_string(::getpid());
    std::string label;
    for (char const c : std::string_view(host.data())) {
        auto const fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (label.size() + process.size() < max_label_size) label += fits ? c : '-';
    }
    return label + process;
}

} // namespace holdfast::command
