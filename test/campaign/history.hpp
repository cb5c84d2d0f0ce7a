// What the clients of a campaign write down. Each process has a file, and writes a line for each
// event in one call, so that nothing is lost when it is killed.
//
// A holder believes in its lease until lease::held() says no, or its process ends. So it writes
// down when it has seen that the lease is held: at the beginning, again and again, and before it
// gives the lease up. From the first of these moments to the last it held the lease for certain.
#ifndef HOLDFAST_TEST_CAMPAIGN_HISTORY_HPP
#define HOLDFAST_TEST_CAMPAIGN_HISTORY_HPP

#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/options.hpp>

#include "support/net.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace holdfast::campaign {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock; ///< the same one for all processes of a machine
using std::chrono::milliseconds;
/// Of that clock.
using moment = std::chrono::microseconds;

inline moment at(clock_type::time_point t) {
    return std::chrono::duration_cast<moment>(t.time_since_epoch());
}
inline milliseconds since(clock_type::time_point t) {
    return std::chrono::duration_cast<milliseconds>(clock_type::now() - t);
}

/// A lease, on one key.
struct claim {
    std::string key;
    unsigned client = 0; ///< the number of the process
    lock_access how = lock_access::exclusive;
    unsigned slot = 0;             ///< of a permit
    unsigned permits = 0;          ///< of the semaphore
    std::uint64_t fence = 0;       ///< 0: none
    bool adopted = false;          ///< it has the fence of the lease before
    bool waited = false;           ///< the call waits for the lock
    moment asked{};                ///< when the call began
    moment begins{}, ends{};       ///< held for certain from, to
    std::optional<moment> reads{}; ///< a writer: from then on it has only read
};

/// The calls of one name.
struct call_tally {
    std::uint64_t calls = 0;
    milliseconds longest{0};
};

/// A process did not run.
struct pause {
    unsigned client = 0;
    moment from, to;
};

/// A holder has seen that its lease is lost.
struct loss {
    unsigned client = 0;
    moment seen;
};

/// A lease of another process that still lasted could not be adopted, as if this process had the
/// lock.
struct refusal {
    unsigned client = 0;
    moment asked, told;
    std::string of; ///< the key, and how long it lasted
};

/// A look at a process: its memory, and for how long it has used processors until then, or waited
/// for one.
struct usage_look {
    unsigned client = 0;
    std::uint64_t kilobytes = 0;
    moment seen{};
    milliseconds computed{0}, waited{0};
};

/// What all clients have written down.
struct history {
    std::vector<claim> claims;
    std::vector<moment> granted; ///< the beginnings of leases
    std::map<std::string, call_tally> calls;
    std::map<std::string, std::uint64_t> outcomes; ///< of those that failed
    std::vector<std::string> findings;
    std::uint64_t adopted = 0;
    std::vector<refusal> refused;
    std::vector<loss> lost;
    std::vector<pause> pauses;     ///< of a process, of some length
    std::vector<usage_look> usage; ///< of each process in the order of time
    milliseconds computed{0};      ///< the time of processors that processes used to their end

    /// Of one process. The last line may be incomplete.
    void read(std::string const& file, unsigned client = 0) {
        std::ifstream in(file);
        if (!in) throw std::runtime_error("the history " + file + " cannot be read");
        std::map<std::uint64_t, std::vector<std::size_t>> open; // the claims of each lease
        for (std::string line; std::getline(in, line) && !in.eof();) read_event(line, client, open);
    }

private:
    void read_event(std::string const& line, unsigned client,
                    std::map<std::uint64_t, std::vector<std::size_t>>& open) {
        std::istringstream words(line);
        char what = 0;
        words >> what;
        std::uint64_t id = 0;
        std::int64_t time = 0;
        switch (what) {
        case '+': {
            claim c;
            c.client = client;
            int how = 0;
            std::int64_t asked = 0;
            words >> id >> c.key >> how >> c.slot >> c.permits >> c.fence >> c.adopted >>
                c.waited >> asked >> time;
            if (!words) break;
            c.how = static_cast<lock_access>(how);
            c.asked = moment(asked);
            c.begins = c.ends = moment(time);
            if (!open.contains(id)) {
                granted.push_back(c.begins);
                adopted += c.adopted ? 1 : 0;
            }
            open[id].push_back(claims.size());
            claims.push_back(c);
            break;
        }
        case '=':
            words >> id >> time;
            for (auto const i : open[id]) claims[i].ends = moment(time);
            break;
        case 'r':
            words >> id >> time;
            for (auto const i : open[id]) claims[i].reads = moment(time);
            break;
        case 'c': {
            std::string name, how;
            words >> time >> name;
            if (!words) break;
            std::getline(words >> std::ws, how);
            words.clear(); // a call that has succeeded has no more
            auto& all = calls[name];
            ++all.calls;
            all.longest = std::max(all.longest, milliseconds(time));
            if (!how.empty()) ++outcomes[how];
            break;
        }
        case 'w':
            findings.push_back(line.substr(2));
            break;
        case 'l':
            words >> time;
            lost.push_back({client, moment(time)});
            break;
        case 'a': {
            refusal r;
            r.client = client;
            std::int64_t told = 0;
            words >> time >> told;
            std::getline(words >> std::ws, r.of);
            r.asked = moment(time);
            r.told = moment(told);
            if (words) refused.push_back(r);
            break;
        }
        case 'p': {
            std::int64_t until = 0;
            words >> time >> until;
            pauses.push_back({client, moment(until - time), moment(until)});
            break;
        }
        case 'm': {
            std::int64_t computed_for = 0, waited = 0;
            words >> id >> time >> computed_for >> waited;
            if (words)
                usage.push_back(
                    {client, id, moment(time), milliseconds(computed_for), milliseconds(waited)});
            break;
        }
        case 'u':
            words >> time;
            computed += milliseconds(time);
            break;
        default:
            throw std::runtime_error("no event of a history: " + line);
        }
        if (!words) throw std::runtime_error("no event of a history: " + line);
    }
};

/// The call that has granted a lease.
struct origin {
    clock_type::time_point asked;
    bool adopted = false;
    bool waited = false;
};

/// The file of one process. Not thread-safe.
class history_file {
public:
    explicit history_file(std::string const& path)
        : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
        if (file_.get() < 0) throw std::system_error(errno, std::generic_category(), path);
    }

    /// Of a lease that was granted. Nothing if it is over already. Returns its number, or 0.
    std::uint64_t begins(lock const& on, lease const& l, origin const& from) {
        auto const now = clock_type::now();
        if (!l.held()) return 0;
        ++last_;
        for (auto const key : l.keys()) {
            write('+', last_, key, static_cast<int>(on.access()), l.slot().value_or(0),
                  on.permits(), l.fence(), from.adopted, from.waited, at(from.asked).count(),
                  at(now).count());
        }
        return last_;
    }
    /// The lease is looked at.
    void looks(std::uint64_t id, lease const& l) {
        auto const now = clock_type::now();
        if (id != 0 && l.held()) write('=', id, at(now).count());
    }
    /// Before a writer lets readers in.
    void reads(std::uint64_t id) {
        if (id != 0) write('r', id, at(clock_type::now()).count());
    }
    void call(std::string_view name, milliseconds took, error const& e) {
        write('c', took.count(), name, e ? e.code().message() : std::string());
    }
    void wrong(std::string_view text) { write('w', text); }
    void lost() { write('l', at(clock_type::now()).count()); }
    /// Of an adoption, until now.
    void refused(clock_type::time_point asked, std::string_view key, moment left) {
        write('a', at(asked).count(), at(clock_type::now()).count(), key, left.count(), "us");
    }
    /// Until now.
    void paused(moment length) { write('p', length.count(), at(clock_type::now()).count()); }
    /// At this moment.
    void uses(std::uint64_t kilobytes, milliseconds computed, milliseconds waited) {
        write('m', kilobytes, at(clock_type::now()).count(), computed.count(), waited.count());
    }
    void computed(milliseconds time) { write('u', time.count()); }

private:
    template <class... Parts>
    void write(char what, Parts const&... parts) {
        std::ostringstream text;
        text << what;
        ((text << ' ' << parts), ...);
        text << '\n';
        auto const line = text.str();
        if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
            throw std::system_error(errno, std::generic_category(), "the history");
    }

    test::net::unique_fd file_;
    std::uint64_t last_ = 0;
};

} // namespace holdfast::campaign

#endif
