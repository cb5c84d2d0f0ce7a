// The command `holdfast`: see doc/command.md.
#include <holdfast/version.hpp>

#include "command/doctor.hpp"
#include "command/exit_code.hpp"
#include "command/inspect.hpp"
#include "command/release.hpp"
#include "command/run.hpp"
#include "command/settings.hpp"
#include "command/watch.hpp"

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
constexpr char const* watch_help =
    R"(One line for each change: time, state, holder, digest of the token,
fence, and how many instances answered. SIGINT and SIGTERM end it.

Exit codes of watch: 0 ended, or --count reached; 1 the output cannot be written; 124 --for came
before --count; 125 wrong usage.)";
constexpr char const* release_help =
    R"(A forced release may let two holders work at the same time: see the manual page.

Exit codes of release: 0 released; 1 it was free; 2 it has another token, or is no lock; 3 too few
instances tell; 4 not confirmed; 125 wrong usage.)";
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
    run_app
        .add_flag("--new-servers", run_by.new_servers,
                  "Do not wait for servers that were started within --max-ttl: they are new, "
                  "and have forgotten no lock (Env:HOLDFAST_NEW_SERVERS)")
        ->envname("HOLDFAST_NEW_SERVERS");
    run_by.add_to(run_app);

    inspect_settings inspect_by;
    auto& inspect_app = *app.add_subcommand("inspect", "Show who holds a lock, without taking it");
    inspect_app.footer(inspect_help);
    inspect_app.add_option("key", inspect_by.key, "The key of the lock")->required();
    inspect_app.add_flag("--json", inspect_by.json, "Print JSON");
    inspect_by.add_to(inspect_app);

    watch_settings watch_by;
    auto& watch_app = *app.add_subcommand("watch", "Print a line for each change of a lock");
    watch_app.footer(watch_help);
    watch_app.add_option("key", watch_by.key, "The key of the lock")->required();
    watch_app.add_flag("--json", watch_by.json, "Print an object of JSON in each line");
    watch_app.add_option("--count", watch_by.count, "End after so many lines")
        ->check(CLI::PositiveNumber);
    add_time(watch_app, "--for", watch_by.limit_ms, "End after this time");
    watch_by.add_to(watch_app);

    release_settings release_by;
    auto& release_app = *app.add_subcommand("release", "End a lock that its holder does not end");
    release_app.footer(release_help);
    release_app.add_option("key", release_by.key, "The key of the lock")->required();
    auto* const token =
        release_app.add_option("--token", release_by.token,
                               "The holder's token; other users can see it in a command line");
    auto* const token_file = release_app.add_option("--token-file", release_by.token_file,
                                                    "File with the holder's token; - is the input");
    auto* const force =
        release_app.add_flag("--force", release_by.force, "Release the lock of any holder");
    release_app.add_flag("--yes", release_by.confirmed, "With --force: do not ask")->needs(force);
    token->excludes(token_file)->excludes(force);
    token_file->excludes(force);
    release_by.add_to(release_app);

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
        if (release_app.parsed() && !*token && !*token_file && !*force)
            throw std::runtime_error("give one of --token, --token-file and --force");
        if (no_wait) run_by.wait_ms = 0;
        if (*wait) run_by.wait_ms = wait_ms;
        doctor_by.writes = !no_lock;
        for (settings* s : {static_cast<settings*>(&run_by), static_cast<settings*>(&inspect_by),
                            static_cast<settings*>(&watch_by), static_cast<settings*>(&release_by),
                            static_cast<settings*>(&doctor_by)}) {
            if (s->label.empty()) s->label = default_label();
        }
        if (run_app.parsed()) return run(run_by);
        if (inspect_app.parsed()) return inspect(inspect_by);
        if (watch_app.parsed()) return watch(watch_by);
        if (release_app.parsed()) return release(release_by);
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
