#include "command/settings.hpp"

#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace holdfast::command {

void settings::add_to(CLI::App& app) {
    app.add_option("-i,--instances", instances,
                   "Addresses of the instances, separated by blanks or commas")
        ->envname("HOLDFAST_INSTANCES");
    app.add_option("-f,--instances-file", instances_file,
                   "File with the addresses; # begins a comment")
        ->envname("HOLDFAST_INSTANCES_FILE");
    app.add_option("--prefix", prefix, "Precedes the key, as client_options::key_prefix")
        ->envname("HOLDFAST_PREFIX");
    app.add_option("--label", label, "Names the holder to others")->default_str(default_label());
    add_time(app, "--timeout", timeout_ms, "How long an instance may take to answer")
        ->default_str("2s");
    add_time(app, "--max-ttl", max_ttl_ms, "The longest ttl of all clients of these instances")
        ->default_str("60s");
}

std::vector<address> settings::addresses() const {
    if (!instances.empty()) return parse_addresses(instances);
    if (instances_file.empty()) {
        throw std::runtime_error("no instances are given: use --instances, --instances-file or "
                                 "the environment variable HOLDFAST_INSTANCES");
    }
    std::ifstream file(instances_file);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf()))
        throw std::runtime_error("the file \"" + instances_file + "\" cannot be read, or is empty");
    return parse_addresses(text.str());
}

client_options settings::options() const {
    client_options o;
    o.max_ttl = std::chrono::milliseconds(max_ttl_ms);
    o.key_prefix = prefix;
    o.owner_label = label;
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
        {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}};
    return app.add_option(name, milliseconds, text)
        ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_REQUIRED, "TIME"));
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
