// The command `holdfast`: see doc/command.md.
#include <holdfast/version.hpp>

#include "command/doctor.hpp"
#include "command/drill.hpp"
#include "command/end/release.hpp"
#include "command/end/revoke.hpp"
#include "command/exit_code.hpp"
#include "command/inspect.hpp"
#include "command/list.hpp"
#include "command/lock/acquire.hpp"
#include "command/lock/lead.hpp"
#include "command/lock/run.hpp"
#include "command/settings.hpp"
#include "command/watch.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast::command;

namespace {

constexpr char const* run_help =
    R"(-- ends the options. All that follows is the command, with arguments that it gets as they
are. Pipes and variables need a shell: -- sh -c 'COMMAND'

Exit codes of run and adopt: the command's own, or 128 and the signal that
ended it; 122 the lock was lost; 123 too few instances; 124 the lock is held by another;
125 wrong usage; 126 the command cannot be executed; 127 there is no such command.
With --at-most-every also 0 if no run is due.)";
constexpr char const* lead_help =
    R"(Start it on each machine: one of them runs the command, and another one when that machine
dies, hangs or loses the servers. Outages are waited out. -- ends the options, as for run.

If the lock is lost, the command gets SIGTERM, and SIGKILL before another one may lead. It is
started again when this machine leads anew. If the command ends by itself, lead ends too, so that
another machine leads at once.

Exit codes of lead: the command's own, or 128 and the signal that ended it, or the wait; 122 the
lock was lost while the command ended after a signal; 123 the key is no lock; 125 wrong usage;
126 the command cannot be executed; 127 there is no such command.)";
constexpr char const* acquire_help =
    R"(Prints the token: keep it in a file, for extend, adopt and release. With --fence, the fence
follows after a blank. The key stays for the ttl.

Exit codes of acquire: 0 acquired; 1 the token cannot be written, so the lock was released;
123 too few instances; 124 the lock is held by another; 125 wrong usage; 128 and a signal.)";
constexpr char const* extend_help =
    R"(From now on the key stays for the ttl. An extension never shortens its time.

Exit codes of extend: 0 extended; 1 it was free; 2 it has another token, or is no lock; 3 too few
instances tell; 125 wrong usage.)";
constexpr char const* inspect_help =
    "Exit codes of inspect: 0 free; 1 held; 2 split, or not a lock; 3 unknown; 125 wrong usage.";
constexpr char const* list_help =
    R"(A line on standard error says what the list may lack.

Exit codes of list: 0 the list is complete; 1 the output cannot be written; 3 it may lack locks;
125 wrong usage.)";
constexpr char const* watch_help =
    R"(One line for each change: time, state, holder, digest of the token,
fence, and how many instances answered. SIGINT and SIGTERM end it.

Exit codes of watch: 0 ended, or --count reached; 1 the output cannot be written; 124 --for came
before --count; 125 wrong usage.)";
constexpr char const* release_help =
    R"(A forced release may let two holders work at the same time: see the manual page.

Exit codes of release: 0 released; 1 it was free; 2 it has another token, or is no lock; 3 too few
instances tell; 4 not confirmed; 125 wrong usage.)";
constexpr char const* revoke_help =
    R"(Nobody gets the lock before the holder's lease has ended: see the manual page.

Exit codes of revoke: 0 revoked; 1 it was free; 2 another has it, or it is no lock; 3 too few
instances tell; 4 not confirmed; 125 wrong usage.)";
constexpr char const* doctor_help =
    "Exit codes of doctor: 0 nothing, or notes; 1 warnings; 2 faults; 125 wrong usage.";

constexpr char const* one_key = " KEY [OPTIONS]";
constexpr char const* several_keys = " KEY ... [OPTIONS]";
constexpr char const* keys_of_lock = "The key of the lock; of several keys, it has all or none";
constexpr char const* keys_to_show = "The key of the lock; each of several keys has a line";
constexpr char const* and_command = " -- COMMAND [ARGUMENT ...]";

/// CLI11 knows nothing of the command after --, and shows each of several keys.
class usage_with : public CLI::Formatter {
public:
    explicit usage_with(std::string words)
        : words_(std::move(words)) {}
    std::string make_usage(CLI::App const*, std::string name) const override {
        return "Usage: " + name + words_ + '\n';
    }

private:
    std::string const words_;
};

class commands {
public:
    /// `after`: what follows after --.
    explicit commands(std::vector<std::string> after)
        : after_(std::move(after)) {
        app_.set_version_flag("--version", HOLDFAST_VERSION_STRING);
        app_.require_subcommand(0, 1);
    }

    CLI::App& add(std::string const& name, std::string const& text, std::string const& help) {
        auto& added = *app_.add_subcommand(name, text);
        added.footer(help);
        return added;
    }
    /// The same, for one that takes several keys.
    CLI::App& add_for_keys(std::string const& name, std::string const& text,
                           std::string const& help) {
        auto& added = add(name, text, help);
        added.formatter(std::make_shared<usage_with>(several_keys));
        return added;
    }
    /// The same, for one that runs the command after --. `words`: the usage before that.
    CLI::App& add_runner(std::string const& name, std::string const& text, std::string const& help,
                         std::string const& words) {
        auto& added = add(name, text, help);
        runners_.emplace(&added, words + and_command);
        added.formatter(std::make_shared<usage_with>(words + and_command));
        return added;
    }
    void on(CLI::App const& chosen, std::function<int()> act) {
        acts_.emplace_back(&chosen, std::move(act));
    }
    std::vector<std::string> const& after() const noexcept { return after_; }

    /// Returns the exit code.
    int run(int argc, char** argv) {
        try {
            app_.parse(argc, argv);
        } catch (CLI::ExtrasError const& e) {
            if (app_.get_subcommands().empty()) return app_.exit(e), usage;
            throw std::runtime_error(too_many(*app_.get_subcommands().front()));
        } catch (CLI::ParseError const& e) {
            return app_.exit(e) == 0 ? success : usage;
        }
        for (auto const& [app, act] : acts_) {
            if (!app->parsed()) continue;
            if (runs(*app) && after_.empty()) {
                throw std::runtime_error("no command is given; it follows after --: holdfast " +
                                         app->get_name() + runners_.at(app));
            }
            return act();
        }
        std::cerr << app_.help();
        return usage;
    }

private:
    bool runs(CLI::App const& app) const { return runners_.contains(&app); }

    // Shows no words but names of options: one of them may be a token.
    std::string too_many(CLI::App const& app) const {
        auto const& name = app.get_name();
        auto wrong = "there are words that " + name + " does not know; ";
        for (auto const& word : app.remaining(true))
            if (word.starts_with("--"))
                wrong = name + " has no option " + word.substr(0, word.find('=')) + "; ";
        if (runs(app))
            return wrong + "the command follows after --: holdfast " + name + runners_.at(&app);
        return wrong + "holdfast " + name + " --help lists its options";
    }

    std::vector<std::string> const after_;
    CLI::App app_{"Distributed locks on Redis or Valkey", "holdfast"};
    std::map<CLI::App const*, std::string> runners_; ///< with their usage
    std::vector<std::pair<CLI::App const*, std::function<int()>>> acts_;
};

void add_new_servers(CLI::App& app, lock_settings& s) {
    app.add_flag("--new-servers", s.new_servers,
                 "Do not wait for servers that were started within --max-ttl: they are new, "
                 "and have forgotten no lock (Env:HOLDFAST_NEW_SERVERS)")
        ->envname("HOLDFAST_NEW_SERVERS");
}

/// The options of waiting.
struct wait_options {
    std::int64_t time_ms = 0;
    bool at_once = false;
    CLI::Option *time = nullptr, *none = nullptr;

    void add_to(CLI::App& app, lock_settings& s) {
        time = add_time(app, "--wait", time_ms, "Wait for the lock no longer than this");
        none =
            app.add_flag("--no-wait", at_once, "Fail at once if the lock is held")->excludes(time);
        add_new_servers(app, s);
    }
    std::optional<std::int64_t> value() const {
        if (at_once) return 0;
        return time->count() > 0 ? std::optional(time_ms) : std::nullopt;
    }
};

void add_run_options(CLI::App& app, command_settings& s, std::int64_t ttl_ms = 30'000) {
    s.ttl_ms = ttl_ms;
    add_time(app, "--ttl", s.ttl_ms, "The key's time to live; it is extended meanwhile")
        ->default_str(option_text(ttl_ms));
    app.add_flag("--fence-env", s.fence, "Set HOLDFAST_FENCE for the command");
    s.add_to(app);
}

void add_run(commands& all) {
    auto& app = all.add_runner("run", "Run a command under a lock", run_help, several_keys);
    auto const s = std::make_shared<run_settings>();
    auto const wait = std::make_shared<wait_options>();
    auto const interval_ms = std::make_shared<std::int64_t>();
    s->add_keys_to(app, keys_of_lock);
    s->add_access_to(app);
    wait->add_to(app, *s);
    auto* const interval =
        add_time(app, "--at-most-every", *interval_ms,
                 "Do not run the command if a run has begun within this time before, on any "
                 "machine: for cron and other timers")
            ->excludes(wait->time)
            ->excludes(wait->none);
    app.add_flag("-v,--verbose", s->verbose,
                 "Tell what is waited for, or why no run is due, as on a terminal");
    add_run_options(app, *s);
    all.on(app, [&all, s, wait, interval, interval_ms] {
        s->command = all.after();
        s->wait_ms = wait->value();
        if (interval->count() > 0) s->interval_ms = *interval_ms;
        if (s->interval_ms && s->keys.size() > 1)
            throw std::runtime_error("--at-most-every is for one key");
        auto const alone = s->access == holdfast::lock_access::exclusive ||
                           s->access == holdfast::lock_access::write;
        if (s->interval_ms && !alone)
            throw std::runtime_error("--at-most-every is for one holder at a time, not for " +
                                     std::string(s->permits == 0 ? "--read" : "--permits"));
        s->check_access();
        s->check_ttl(s->ttl_ms);
        return run(*s);
    });
}

void add_lead(commands& all) {
    auto& app =
        all.add_runner("lead", "Keep a command running on one machine of many", lead_help, one_key);
    auto const s = std::make_shared<lead_settings>();
    auto const restart = std::make_shared<std::string>();
    app.add_option("key", s->keys.emplace_back(), "The key of the lock")->required();
    app.add_option("--restart", *restart,
                   "Start the command again when it has ended, after a pause of a second, which "
                   "doubles up to half a minute")
        ->check(CLI::IsMember({"always", "on-failure"}));
    add_new_servers(app, *s);
    app.add_flag("-v,--verbose", s->verbose, "Tell who leads, as on a terminal");
    add_run_options(app, *s, 3'000);
    all.on(app, [&all, s, restart] {
        s->command = all.after();
        if (*restart == "always") s->restart = restart_rule::always;
        if (*restart == "on-failure") s->restart = restart_rule::on_failure;
        s->check_ttl(s->ttl_ms);
        return lead(*s);
    });
}

void add_acquire(commands& all) {
    auto& app =
        all.add_for_keys("acquire", "Acquire a lock, print its token, and end", acquire_help);
    auto const s = std::make_shared<acquire_settings>();
    auto const wait = std::make_shared<wait_options>();
    s->add_keys_to(app, keys_of_lock);
    s->add_access_to(app);
    add_time(app, "--ttl", s->ttl_ms, "How long the key stays; --max-ttl by default");
    wait->add_to(app, *s);
    app.add_flag("--fence", s->fence, "Print the fence, too");
    app.add_flag("--json", s->json, "Print JSON");
    s->add_to(app);
    all.on(app, [s, wait] {
        s->check_access();
        s->wait_ms = wait->value();
        if (s->ttl_ms == 0) s->ttl_ms = s->max_ttl_ms;
        s->check_ttl(s->ttl_ms);
        return acquire(*s);
    });
}

void add_extend(commands& all) {
    auto& app = all.add_for_keys("extend", "Extend a lock, by its token", extend_help);
    auto const s = std::make_shared<extend_settings>();
    s->add_keys_to(app, keys_of_lock);
    s->add_access_to(app);
    s->token.add_to(app);
    add_time(app, "--ttl", s->ttl_ms, "How long the key stays from now on; --max-ttl by default");
    s->add_to(app);
    all.on(app, [s] {
        s->check_access();
        s->token.require();
        if (s->ttl_ms == 0) s->ttl_ms = s->max_ttl_ms;
        s->check_ttl(s->ttl_ms);
        return extend(*s);
    });
}

void add_adopt(commands& all) {
    auto& app =
        all.add_runner("adopt", "Run a command under a lock that acquire has got, and release it",
                       run_help, several_keys);
    auto const s = std::make_shared<run_settings>();
    auto const token = std::make_shared<token_input>();
    s->add_keys_to(app, keys_of_lock);
    s->add_access_to(app);
    token->add_to(app);
    add_run_options(app, *s);
    all.on(app, [&all, s, token] {
        s->check_access();
        token->require();
        s->command = all.after();
        s->check_ttl(s->ttl_ms);
        s->adopted = token->read();
        if (s->fence && s->adopted->fence == 0)
            throw std::runtime_error("the token has no fence: acquire the lock with --fence");
        // A server that has forgotten the lock has no vote for it.
        s->new_servers = true;
        return run(*s);
    });
}

void add_inspect(commands& all) {
    auto& app = all.add_for_keys(
        "inspect", "Show who holds a lock, or several, without taking them", inspect_help);
    auto const s = std::make_shared<inspect_settings>();
    s->add_keys_to(app, keys_to_show);
    app.add_flag("--json", s->json, "Print JSON");
    s->add_to(app);
    all.on(app, [s] { return inspect(*s); });
}

void add_list(commands& all) {
    auto& app = all.add("list", "Show the locks whose keys begin with a prefix", list_help);
    auto const s = std::make_shared<list_settings>();
    app.add_option("start", s->start, "What the keys begin with; all keys by default");
    app.add_option("--limit", s->limits.max_keys, "Look at no more keys than this")
        ->check(CLI::Range(std::size_t{1}, holdfast::list_options::most_keys))
        ->default_str("1000");
    auto const time_ms = std::make_shared<std::int64_t>(s->limits.time_limit.count());
    add_time(app, "--for", *time_ms, "Search no longer than this")->default_str("5s");
    app.add_flag("--all", s->all, "Show keys that nobody holds, too");
    app.add_flag("--json", s->json, "Print JSON");
    s->add_to(app);
    all.on(app, [s, time_ms] {
        s->limits.time_limit = std::chrono::milliseconds(*time_ms);
        return list(*s);
    });
}

void add_watch(commands& all) {
    auto& app = all.add_for_keys("watch", "Print a line for each change of a lock, or of several",
                                 watch_help);
    auto const s = std::make_shared<watch_settings>();
    s->add_keys_to(app, keys_to_show);
    app.add_flag("--json", s->json, "Print an object of JSON in each line");
    app.add_option("--count", s->count, "End after so many lines")->check(CLI::PositiveNumber);
    add_time(app, "--for", s->limit_ms, "End after this time");
    s->add_to(app);
    all.on(app, [s] { return watch(*s); });
}

void add_release(commands& all) {
    auto& app =
        all.add_for_keys("release", "End a lock that its holder does not end", release_help);
    auto const s = std::make_shared<release_settings>();
    s->add_keys_to(app, keys_of_lock);
    s->add_access_to(app);
    s->token.add_to(app);
    auto* const force = app.add_flag("--force", s->force, "Release the lock of any holder")
                            ->excludes(s->token.token_option)
                            ->excludes(s->token.file_option);
    app.add_flag("--yes", s->confirmed, "With --force: do not ask")->needs(force);
    s->add_to(app);
    all.on(app, [s] {
        if (!s->token.given() && !s->force)
            throw std::runtime_error("give one of --token, --token-file and --force");
        if (s->force && s->keys.size() > 1) throw std::runtime_error("--force is for one key");
        if (s->force && s->access != holdfast::lock_access::exclusive)
            throw std::runtime_error(
                "--force ends the lock of any holder, without --read, --write or --permits");
        s->check_access();
        return release(*s);
    });
}

void add_revoke(commands& all) {
    auto& app = all.add("revoke", "Take a lock from its holder, without an overlap", revoke_help);
    auto const s = std::make_shared<revoke_settings>();
    app.add_option("key", s->key, "The key of the lock")->required();
    auto* const reader =
        app.add_option("--reader", s->reader, "The digest of one reader, as inspect shows it");
    app.add_option("--slot", s->slot, "The slot of one permit of a semaphore")->excludes(reader);
    app.add_flag("--yes", s->confirmed, "Do not ask");
    s->add_to(app);
    all.on(app, [s] { return revoke(*s); });
}

void add_doctor(commands& all) {
    auto& app = all.add("doctor", "Tell what is wrong or risky", doctor_help);
    auto const s = std::make_shared<doctor_settings>();
    app.add_option("--key", s->key, "The lock to try")->default_str("holdfast-doctor");
    auto const reads = std::make_shared<bool>();
    app.add_flag("--no-lock", *reads, "Take no lock, and write nothing");
    add_time(app, "--ttl", s->ttl_ms, "The shortest ttl that programs use")->default_str("10s");
    app.add_flag("--json", s->json, "Print JSON");
    app.add_flag("--drill", s->drills, "Check what happens while you stop servers");
    s->add_to(app);
    all.on(app, [s, reads] {
        s->writes = !*reads;
        return s->drills ? drill(*s) : doctor(*s);
    });
}

} // namespace

int main(int argc, char** argv) {
    // Of the command after --, nothing is for CLI11: it would take [a,b] apart.
    auto** const end = argv + argc;
    auto** const dashes =
        std::find_if(argv, end, [](std::string_view word) { return word == "--"; });
    try {
        commands all({dashes != end ? dashes + 1 : end, end});
        for (auto* const add : {add_run, add_lead, add_acquire, add_extend, add_adopt, add_inspect,
                                add_list, add_watch, add_release, add_revoke, add_doctor})
            add(all);
        return all.run(static_cast<int>(dashes - argv), argv);
    } catch (std::exception const& e) {
        std::cerr << "holdfast: " << e.what() << '\n';
        return usage;
    }
}
