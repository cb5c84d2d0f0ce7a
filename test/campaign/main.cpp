// A fault campaign: client processes take locks of every kind by every call, and hand leases to
// each other, while servers die, hang, restart, fail over and move slots, and clients are killed
// and stand still. Each client writes down what it holds. A judge looks for two holders and for
// fences that do not grow, and each call is held against the bound that its header documents.
//
//   campaign --deployment server1 | server5 | sentinel3 | cluster | mixed [--kinds LIST]
//            [--minutes N | --seconds N] [--seed N] [--faults LIST] [--without-guard NAME]
//            [--apart SECONDS] [--times judged | told] [--tls yes | no] [--picture FILE]
//            [--histories DIR]
//
// `server1` and `server5` are so many servers, `sentinel3` is a primary that three sentinels watch,
// and `mixed` is a list of three instances: a server, a primary behind Sentinel, and a Cluster. The
// servers are of one kind: $HOLDFAST_SERVERS_DIR and $HOLDFAST_SERVER_KIND choose it.
//
// --kinds      the kinds of lock, with commas between them: lock, multi, read-write, semaphore,
//              and turns, which are fair locks whose clients only wait. All of them by default.
// --faults     texts with commas between them: only faults whose names contain one of them.
//              `--faults help` lists the names. `--faults none`: without a fault no lease may be
//              lost, but by a client that stood still.
// --without-guard restarts | turns
//              The clients count the votes of servers that have forgotten their keys, so two
//              holders must be found. Or the locks whose turns are judged are not fair, so
//              processes must be found out of turn. The exit status is 0 only if that was. The
//              durations of calls are told, and none is wrong.
// --apart      The next fault comes so long after one, instead of at most two seconds. Then each
//              kind of fault has a bound, from the documents, for how long a key has no holder.
// --times told The same durations alone, for a machine with other work.
// --tls yes    The clients reach all servers by TLS. There are no lines then.
// --picture    Draws who held what, and the faults, as SVG.
// --histories  Keeps what the clients have written down in this folder, if something is wrong.
//
// Before each fault the servers are repaired as an operator would do it, so that one fault that
// went wrong does not end the campaign. A fault that throws counts as not carried out. The program
// prints each fault, each repair and each finding with its time, then the number of faults of each
// kind, and a line of results. Its exit status is 0 if nothing was wrong.
#include "campaign/campaign_run.hpp"
#include "campaign/driver.hpp"
#include "campaign/network.hpp"

#include <chrono>
#include <exception>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace holdfast::campaign;

unsigned number(std::string_view option, std::string const& text) {
    std::istringstream in(text);
    int n = 0;
    if (!(in >> n) || !in.eof() || n <= 0)
        throw std::invalid_argument(std::string(option) + ": \"" + text +
                                    "\" is not a positive number");
    return static_cast<unsigned>(n);
}

std::string const usage =
    "usage: campaign --deployment server1 | server5 | sentinel3 | cluster | mixed [--kinds LIST] "
    "[--minutes N | --seconds N] [--seed N] [--faults LIST] [--without-guard restarts | turns] "
    "[--apart SECONDS] [--times judged | told] [--tls yes | no] [--picture FILE] [--histories "
    "DIR]; "
    "test/campaign/main.cpp explains them";

struct settings {
    std::string deployment, picture, histories;
    unsigned seconds = 20, seed = 1, apart = 0;
    std::vector<std::string> faults;
    bool tls = false;
    plan clients{.kinds = {"lock", "turns", "multi", "read-write", "semaphore"}};
};

settings parse(std::vector<std::string> const& arguments) {
    settings s;
    if (arguments.size() % 2 != 0)
        throw std::invalid_argument(arguments.back() + ": this option needs a value");
    for (std::size_t i = 0; i < arguments.size(); i += 2) {
        auto const& option = arguments[i];
        auto const& value = arguments[i + 1];
        if (option == "--deployment") {
            s.deployment = value;
        } else if (option == "--picture") {
            s.picture = value;
        } else if (option == "--histories") {
            s.histories = value;
        } else if (option == "--minutes") {
            s.seconds = 60 * number(option, value);
        } else if (option == "--seconds") {
            s.seconds = number(option, value);
        } else if (option == "--apart") {
            s.apart = number(option, value);
        } else if (option == "--seed") {
            s.seed = number(option, value);
        } else if (option == "--faults") {
            s.faults = words(value);
        } else if (option == "--kinds") {
            auto const known = std::exchange(s.clients.kinds, {});
            for (auto const& each : words(value)) {
                if (!known.contains(each))
                    throw std::invalid_argument("--kinds: there is no kind \"" + each + '"');
                s.clients.kinds.insert(each);
            }
        } else if (option == "--without-guard" && (value == "restarts" || value == "turns")) {
            s.clients.without_guard = value;
            s.clients.judges_times = false;
        } else if (option == "--times" && (value == "judged" || value == "told")) {
            s.clients.judges_times = value == "judged";
        } else if (option == "--tls" && (value == "yes" || value == "no")) {
            s.tls = value == "yes";
        } else {
            throw std::invalid_argument("unknown option " + option + ' ' + value + "; " + usage);
        }
    }
    if (s.clients.kinds.empty()) throw std::invalid_argument("--kinds: no kind is given");
    return s;
}

void set_up(campaign_run& all, std::string const& deployment) {
    std::set<std::string> const known{"server1", "server5", "sentinel3", "cluster", "mixed"};
    if (!known.contains(deployment))
        throw std::invalid_argument("--deployment: \"" + deployment + "\" is none; " + usage);
    auto const mixed = deployment == "mixed";
    if (mixed || deployment == "server1") all.add_servers(1);
    if (deployment == "server5") all.add_servers(5);
    if (mixed || deployment == "sentinel3") all.add_sentinel();
    if (mixed || deployment == "cluster") all.add_cluster();
    all.add_clients();
}

/// A client of a campaign: `--driver SEED HISTORY` and the words of the plan.
int drive(std::vector<std::string> const& arguments) {
    auto const what = plan::of({arguments.begin() + 3, arguments.end()});
    use_network(what.routes_file, what.names_file);
    driver client(what, number(arguments.at(0), arguments.at(1)), arguments.at(2));
    client.run();
    return 0;
}

} // namespace

int main(int count, char** arguments) {
    try {
        if (count > 3 && std::string_view(arguments[1]) == "--driver")
            return drive({arguments + 1, arguments + count});
        if (count == 2 && std::string_view(arguments[1]) == "--help") {
            std::cout << usage << '\n';
            return 0;
        }
        auto const s = parse({arguments + 1, arguments + count});
        campaign_run all(s.seed, s.tls);
        if (s.apart > 0) all.keep_apart(std::chrono::seconds(s.apart));
        set_up(all, s.deployment);
        if (s.faults == std::vector<std::string>{"help"}) {
            for (auto const& name : all.names()) std::cout << name << '\n';
            return 0;
        }
        if (s.faults == std::vector<std::string>{"none"}) {
            all.choose_none();
        } else if (!s.faults.empty()) {
            all.choose(s.faults);
        }
        auto const right = all.run(std::chrono::seconds(s.seconds), s.clients,
                                   {.picture = s.picture, .histories = s.histories});
        auto const& guard = s.clients.without_guard;
        return (guard.empty() ? right : all.found_without(guard)) ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "campaign: " << e.what() << '\n';
        return 2;
    }
}
