// The command `holdfast`: see doc/command.md.
#include <holdfast/version.hpp>

#include "command/doctor.hpp"
#include "command/exit_code.hpp"
#include "command/inspect.hpp"
#include "command/run.hpp"
#include "command/settings.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

using namespace holdfast::command;

namespace {

constexpr char const* run_help = R"(Exit codes of run: the command's own, or 128 and the signal that
ended it; 122 the lock was lost; 123 too few instances; 124 the lock is held by another;
125 wrong usage; 126 the command cannot be executed; 127 there is no such command.)";
constexpr char const* inspect_help =
    "Exit codes of inspect: 0 free; 1 held; 2 split, or not a lock; 3 unknown; 125 wrong usage.";
constexpr char const* doctor_help =
    "Exit codes of doctor: 0 nothing, or notes; 1 warnings; 2 faults; 125 wrong usage.";

} // namespace

int main(int argc, char** argv) {
    CLI::App app("Distributed locks on Redis or Valkey", "holdfast");
    app.set_version_flag("--version", HOLDFAST_VERSION_STRING);
    app.require_subcommand(0, 1);

    run_settings run_by;
    auto& run_app = *app.add_subcommand(
        "run", "Run a command under a lock: holdfast run KEY [OPTIONS] -- COMMAND [ARGUMENTS]");
    run_app.footer(run_help);
    run_app.add_option("key", run_by.key, "The key of the lock")->required();
    add_time(run_app, "--ttl", run_by.ttl_ms, "The key's time to live; it is extended meanwhile")
        ->default_str("30s");
    std::int64_t wait_ms = 0;
    bool no_wait = false, no_lock = false;
    auto* const wait =
        add_time(run_app, "--wait", wait_ms, "Wait for the lock no longer than this");
    run_app.add_flag("--no-wait", no_wait, "Fail at once if the lock is held")->excludes(wait);
    run_app.add_flag("--fence-env", run_by.fence, "Set HOLDFAST_FENCE for the command");
    run_by.add_to(run_app);

    inspect_settings inspect_by;
    auto& inspect_app = *app.add_subcommand("inspect", "Show who holds a lock, without taking it");
    inspect_app.footer(inspect_help);
    inspect_app.add_option("key", inspect_by.key, "The key of the lock")->required();
    inspect_app.add_flag("--json", inspect_by.json, "Print JSON");
    inspect_by.add_to(inspect_app);

    doctor_settings doctor_by;
    auto& doctor_app = *app.add_subcommand("doctor", "Tell what is wrong or risky");
    doctor_app.footer(doctor_help);
    doctor_app.add_option("--key", doctor_by.key, "The lock to try")
        ->default_str("holdfast-doctor");
    doctor_app.add_flag("--no-lock", no_lock, "Take no lock, and write nothing");
    add_time(doctor_app, "--ttl", doctor_by.ttl_ms, "The shortest ttl that programs use")
        ->default_str("10s");
    doctor_app.add_flag("--json", doctor_by.json, "Print JSON");
    doctor_by.add_to(doctor_app);

    // Of the command after --, nothing is for CLI11: it would take [a,b] apart.
    auto** const end = argv + argc;
    auto** const dashes =
        std::find_if(argv, end, [](std::string_view word) { return word == "--"; });
    if (dashes != end) run_by.command.assign(dashes + 1, end);

    try {
        app.parse(static_cast<int>(dashes - argv), argv);
        if (run_app.parsed() && run_by.command.empty())
            throw std::runtime_error("no command is given: holdfast run KEY -- COMMAND");
        if (no_wait) run_by.wait_ms = 0;
        if (*wait) run_by.wait_ms = wait_ms;
        doctor_by.writes = !no_lock;
        for (settings* s : {static_cast<settings*>(&run_by), static_cast<settings*>(&inspect_by),
                            static_cast<settings*>(&doctor_by)}) {
            if (s->label.empty()) s->label = default_label();
        }
        if (run_app.parsed()) return run(run_by);
        if (inspect_app.parsed()) return inspect(inspect_by);
        if (doctor_app.parsed()) return doctor(doctor_by);
        std::cerr << app.help();
        return usage;
    } catch (CLI::ParseError const& e) {
        return app.exit(e) == 0 ? success : usage;
    } catch (std::exception const& e) {
        std::cerr << "holdfast: " << e.what() << '\n';
        return usage;
    }
}
