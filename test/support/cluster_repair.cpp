#include "support/cluster_repair.hpp"

#include "support/text.hpp"
#include "support/wait.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

namespace holdfast::test {

using namespace std::chrono_literals;
using topology::checked;

namespace {

using clock_type = std::chrono::steady_clock;
using node_index = std::size_t;
using slot_number = std::uint16_t;
using slot_owners = std::map<slot_number, node_index>;

// An election takes a few seconds. Nodes that still disagree about an owner after this time do not
// settle it among themselves.
constexpr auto patience = 10s;
// For the other nodes to hear of a new owner from the owner itself.
constexpr auto gossip_time = 10s;

// The Cluster by the word of one node.
struct view {
    bool primary = false; // itself
    std::vector<std::optional<node_index>> owners =
        std::vector<std::optional<node_index>>(cluster_group::slots);
    slot_owners migrating;                       // its own slots, and the node that gets them
    slot_owners importing;                       // slots that it gets, and the node that has them
    std::map<node_index, node_index> primary_of; // each replica
};

std::string text_of(slot_number first, slot_number last) {
    if (first == last) return "slot " + std::to_string(first);
    return "slots " + std::to_string(first) + '-' + std::to_string(last);
}

std::string name(node_index node) {
    return "node " + std::to_string(node);
}

slot_number slot_in(std::string_view text) {
    slot_number slot = 0;
    std::from_chars(text.data(), text.data() + text.size(), slot);
    return slot;
}

// Whether both are counters, and the first one is the greater. Only then is it worth more.
bool greater(reply const& left, reply const& right) {
    auto const number = [](reply const& r) {
        std::optional<std::uint64_t> n;
        if (!r.is_string()) return n;
        auto const& text = r.string();
        std::uint64_t read = 0;
        auto const end = text.data() + text.size();
        auto const [at, error] = std::from_chars(text.data(), end, read);
        if (error == std::errc{} && at == end) n = read;
        return n;
    };
    auto const l = number(left), r = number(right);
    return l && r && *l > *r;
}

class repairer {
public:
    repairer(cluster_group& cluster, repair_log& log)
        : cluster_{cluster}
        , log_{log} {}

    void run(std::chrono::milliseconds timeout) {
        auto const began = clock_type::now();
        for (;;) {
            std::string trouble;
            try {
                start_nodes();
                close_slots();
                settle(clock_type::now() - began > patience ? disputed_slots() : unowned_slots());
                cluster_.wait_until_agreed(5s);
                look();
                if (open_slots().empty()) {
                    close_at_replicas();
                    return note_steps();
                }
                trouble = "slots are half moved";
            } catch (std::runtime_error const& e) {
                trouble = e.what();
            }
            note_steps();
            if (clock_type::now() - began > timeout)
                throw std::runtime_error{"the Cluster was not repaired within " +
                                         std::to_string(timeout.count()) + " ms: " + trouble};
            std::this_thread::sleep_for(100ms); // the Cluster may be busy with an election
        }
    }

private:
    void start_nodes() {
        for (node_index i = 0; i < cluster_.size(); ++i) {
            if (cluster_.node(i).frozen()) {
                cluster_.node(i).thaw();
                log_.steps.push_back(name(i) + " was frozen, and goes on");
            }
            if (!cluster_.node(i).running()) {
                cluster_.node(i).restart();
                log_.steps.push_back(name(i) + " was down, and was started");
            }
        }
    }

    //
    // The state
    //

    void look() {
        views_.clear();
        for (node_index i = 0; i < cluster_.size(); ++i) views_.emplace(i, view_by(i));
    }

    // A line: id address flags primary ping pong epoch link slot slot ..
    [[nodiscard]] view view_by(node_index asked) const {
        view all;
        redis_cli cli = cluster_.cli(asked);
        std::istringstream lines{checked(cli, {"CLUSTER", "NODES"}).string()};
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words{line};
            std::string id, address, flags, primary, ignored;
            words >> id >> address >> flags >> primary >> ignored >> ignored >> ignored >> ignored;
            auto const node = cluster_.node_with(id);
            if (node == asked) all.primary = contains(flags, "master");
            if (primary != "-") all.primary_of[node] = cluster_.node_with(primary);
            for (std::string word; words >> word;) read_slots(all, word, node);
        }
        return all;
    }

    // "5", "5-9", "[5->-id]" for a slot that leaves the node, or "[5-<-id]" for one that comes.
    void read_slots(view& all, std::string_view word, node_index node) const {
        auto const dash = word.find('-');
        if (word.front() == '[') {
            auto& open = word.at(dash + 1) == '>' ? all.migrating : all.importing;
            open[slot_in(word.substr(1))] = cluster_.node_with(word.substr(dash + 3));
            return;
        }
        auto const first = slot_in(word);
        auto const last = dash == word.npos ? first : slot_in(word.substr(dash + 1));
        for (std::size_t slot = first; slot <= last; ++slot) all.owners.at(slot) = node;
    }

    // Of primaries.
    [[nodiscard]] std::set<slot_number> open_slots() const {
        std::set<slot_number> open;
        for (auto const& [node, seen] : views_) {
            if (!seen.primary) continue;
            for (auto const& [slot, other] : seen.migrating) open.insert(slot);
            for (auto const& [slot, other] : seen.importing) open.insert(slot);
        }
        return open;
    }

    // No node names an owner.
    [[nodiscard]] std::set<slot_number> unowned_slots() const {
        std::set<slot_number> unowned;
        for (std::size_t slot = 0; slot < cluster_group::slots; ++slot)
            if (std::none_of(views_.begin(), views_.end(),
                             [&](auto const& v) { return v.second.owners[slot].has_value(); }))
                unowned.insert(static_cast<slot_number>(slot));
        return unowned;
    }

    // Nobody owns them by its own word, or the nodes name several owners.
    [[nodiscard]] std::set<slot_number> disputed_slots() const {
        std::set<slot_number> disputed;
        for (std::size_t slot = 0; slot < cluster_group::slots; ++slot) {
            auto const named = views_.begin()->second.owners[slot];
            auto const agrees = [&](auto const& v) { return v.second.owners[slot] == named; };
            if (!named || !std::all_of(views_.begin(), views_.end(), agrees) ||
                !owns(*named, static_cast<slot_number>(slot)))
                disputed.insert(static_cast<slot_number>(slot));
        }
        return disputed;
    }

    // By its own word.
    [[nodiscard]] bool owns(node_index node, slot_number slot) const {
        auto const& seen = views_.at(node);
        return seen.primary && seen.owners[slot] == node;
    }

    // A replica stands for its primary, for example if that has replaced it.
    [[nodiscard]] node_index primary_for(node_index node) const {
        auto const& seen = views_.at(node);
        auto const found = seen.primary_of.find(node);
        return seen.primary || found == seen.primary_of.end() ? node : found->second;
    }

    // The primary that most nodes name. A node that owns it by its own word comes first.
    [[nodiscard]] std::optional<node_index> owner(slot_number slot) const {
        std::map<node_index, std::size_t> votes;
        for (auto const& [node, seen] : views_) {
            if (seen.owners[slot]) ++votes[primary_for(*seen.owners[slot])];
            if (owns(node, slot)) votes[node] += views_.size();
        }
        auto const most = std::max_element(votes.begin(), votes.end(),
                                           [](auto& a, auto& b) { return a.second < b.second; });
        return most == votes.end() ? std::nullopt : std::optional{most->first};
    }

    [[nodiscard]] std::int64_t keys_at(node_index node, slot_number slot) const {
        redis_cli cli = cluster_.cli(node);
        return checked(cli, {"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}).integer();
    }

    // The one with the most keys of the slot, and the first of those that have as many.
    [[nodiscard]] std::optional<node_index> fullest(std::set<node_index> const& nodes,
                                                    slot_number slot) const {
        std::optional<node_index> best;
        std::int64_t most = -1;
        for (auto const node : nodes) {
            auto const here = keys_at(node, slot);
            if (here > most) best = node;
            most = std::max(most, here);
        }
        return best;
    }

    [[nodiscard]] std::set<node_index> primaries() const {
        std::set<node_index> all;
        for (auto const& [node, seen] : views_)
            if (seen.primary) all.insert(node);
        return all;
    }

    //
    // Slots that are half moved
    //

    void close_slots() {
        look();
        slot_owners given;
        for (auto const slot : open_slots()) {
            if (auto const to = target_of(slot)) {
                give(slot, *to);
                given[slot] = *to;
            } else {
                give_up(slot);
            }
        }
        announce(given);
    }

    // The node that shall get a half moved slot; nothing if its owner shall keep it, and no other
    // node has keys of it.
    [[nodiscard]] std::optional<node_index> target_of(slot_number slot) const {
        auto const before = owner(slot);
        if (!before || !owns(*before, slot)) return before ? before : fullest(primaries(), slot);
        std::set<node_index> targets;
        bool known = false; // to both ends
        for (auto const& [node, seen] : views_) {
            if (!seen.primary) continue;
            auto const goes = seen.migrating.find(slot);
            if (goes != seen.migrating.end()) {
                targets.insert(primary_for(goes->second));
                known = known || views_.at(goes->second).importing.contains(slot);
            }
            if (seen.importing.contains(slot)) targets.insert(node);
        }
        targets.erase(*before);
        if (auto const to = fullest(targets, slot); to && (known || keys_at(*to, slot) > 0))
            return to;
        return others_have_keys(slot, *before) ? before : std::nullopt;
    }

    // Also a source that owns the slot no more, and a replica that has replaced the target and does
    // not know of the migration. Redis 8.6 shows keys of a slot only where it is owned or imported,
    // so each other primary imports it to be asked.
    [[nodiscard]] bool others_have_keys(slot_number slot, node_index owner) const {
        for (auto const node : primaries()) {
            if (node == owner) continue;
            set_slot(node, slot, {"IMPORTING", cluster_.id(owner)});
            if (keys_at(node, slot) > 0) return true; // give() ends the import
            set_slot(node, slot, {"STABLE"});
        }
        return false;
    }

    void give_up(slot_number slot) {
        auto const stays = owner(slot);
        for (auto const& [node, seen] : views_) {
            if (!seen.primary) continue;
            if (!seen.migrating.contains(slot) && !seen.importing.contains(slot)) continue;
            set_slot(node, slot, {"STABLE"});
            if (node == stays) continue;
            // A client may have been redirected there just before.
            if (auto const left = keys_at(node, slot); left > 0)
                lose(slot, static_cast<std::size_t>(left), "left at " + name(node));
        }
        note(slot, "its migration was given up", 0);
    }

    // A replica of Valkey that was a primary keeps such a state. Its primary tells it to forget it.
    void close_at_replicas() const {
        for (auto const& [node, seen] : views_) {
            if (seen.primary) continue;
            auto all = seen.migrating;
            all.insert(seen.importing.begin(), seen.importing.end());
            for (auto const& [slot, other] : all) set_slot(primary_for(node), slot, {"STABLE"});
        }
    }

    //
    // Slots without an owner, or with several
    //

    void settle(std::set<slot_number> const& slots) {
        if (slots.empty()) return;
        look();
        slot_owners given;
        for (auto const slot : slots) {
            auto to = owner(slot);
            if (!to) to = fullest(primaries(), slot);
            if (!to) continue;
            give(slot, *to);
            given[slot] = *to;
        }
        std::set<node_index> winners;
        for (auto const& [slot, to] : given) winners.insert(to);
        for (auto const to : winners) { // the greatest epoch wins
            redis_cli cli = cluster_.cli(to);
            checked(cli, {"CLUSTER", "BUMPEPOCH"});
        }
        announce(given);
    }

    //
    // Moves
    //

    // Moves all keys of the slot to this node, and makes it the owner by its own word. As long as
    // both nodes have the migration in their books, clients find each key, so a node that has
    // forgotten it is told again first.
    void give(slot_number slot, node_index to) {
        std::size_t moved = 0;
        std::string from;
        for (auto const node : primaries()) {
            if (node == to) continue;
            auto const& seen = views_.at(node);
            auto const is_open = seen.migrating.contains(slot) || seen.importing.contains(slot);
            if (!owns(node, slot) && !is_open && keys_at(node, slot) == 0) continue;
            expect_keys(slot, node, to);
            offer_keys(slot, node, to);
            moved += move_keys(slot, node, to);
            if (!owns(node, slot)) set_slot(node, slot, {"STABLE"});
            from += (from.empty() ? " from " : " and ") + name(node);
        }
        set_slot(to, slot, {"NODE", cluster_.id(to)});
        note(slot, "went" + from + " to " + name(to), moved);
    }

    // A node takes keys of a slot that it owns, or imports from an owner that it knows. It does not
    // hear of a new owner while it imports.
    void expect_keys(slot_number slot, node_index from, node_index to) const {
        if (owns(to, slot)) {
            set_slot(to, slot, {"STABLE"});
            return;
        }
        set_slot(to, slot, {"NODE", cluster_.id(from)});
        set_slot(to, slot, {"IMPORTING", cluster_.id(from)});
    }

    // A node executes MIGRATE only for a slot that comes or goes.
    void offer_keys(slot_number slot, node_index from, node_index to) const {
        if (owns(from, slot)) {
            set_slot(from, slot, {"MIGRATING", cluster_.id(to)});
            return;
        }
        set_slot(from, slot, {"NODE", cluster_.id(to)});
        set_slot(from, slot, {"IMPORTING", cluster_.id(to)});
    }

    [[nodiscard]] std::size_t move_keys(slot_number slot, node_index from, node_index to) {
        slot_migration moving{cluster_, {slot, slot}, from, to};
        std::size_t moved = 0;
        for (;;) {
            try {
                auto const now = moving.move_keys();
                moved += now;
                if (now == 0) return moved;
            } catch (cli_error const& e) {
                if (!contains(e.what(), "BUSYKEY")) throw;
                drop_doubles(slot, from, to);
            }
        }
    }

    // A key that is at both nodes. The node that gets the slot keeps its own, but never the smaller
    // one of two counters.
    void drop_doubles(slot_number slot, node_index from, node_index to) {
        redis_cli here = cluster_.cli(from), there = cluster_.cli(to);
        auto const asking = [](redis_cli& cli, command_line const& words) {
            checked(cli, {"ASKING"});
            return cli.command(words);
        };
        auto const keys = checked(here, {"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "1000"});
        for (auto const& each : keys.elements()) {
            auto const& key = each.string();
            auto const found = asking(there, {"EXISTS", key});
            if (!found.is_integer() || found.integer() == 0) continue;
            bool const moves = greater(asking(here, {"GET", key}), asking(there, {"GET", key}));
            asking(moves ? there : here, {"DEL", key});
            lose(slot, 1, key + " was also at " + name(moves ? to : from));
        }
    }

    // Tells all other primaries. They hear of it from the new owner first; see
    // cluster_group::migrate().
    void announce(slot_owners const& given) {
        if (given.empty()) return;
        auto const heard = [&] {
            look();
            return std::all_of(given.begin(), given.end(), [&](auto const& g) {
                return std::all_of(views_.begin(), views_.end(), [&](auto const& v) {
                    return v.second.owners[g.first] == g.second;
                });
            });
        };
        // A node that has lost its last slot to another one may take longer.
        static_cast<void>(wait_until(heard, gossip_time, 20ms));
        for (auto const& [slot, to] : given)
            for (auto const node : primaries())
                if (node != to) set_slot(node, slot, {"NODE", cluster_.id(to)});
    }

    void set_slot(node_index node, slot_number slot, command_line const& words) const {
        command_line line{"CLUSTER", "SETSLOT", std::to_string(slot)};
        line.insert(line.end(), words.begin(), words.end());
        redis_cli cli = cluster_.cli(node);
        checked(cli, line);
    }

    //
    // The log
    //

    void note(slot_number slot, std::string what, std::size_t moved) {
        if (!done_.empty() && done_.back().last + 1 == slot && done_.back().what == what) {
            done_.back().last = slot;
            done_.back().moved += moved;
            return;
        }
        done_.push_back({slot, slot, std::move(what), moved});
    }

    void lose(slot_number slot, std::size_t keys, std::string const& how) {
        log_.lost_keys += keys;
        log_.steps.push_back("LOST: " + std::to_string(keys) + " keys of slot " +
                             std::to_string(slot) + ": " + how);
    }

    void note_steps() {
        for (auto const& each : std::exchange(done_, {}))
            log_.steps.push_back(text_of(each.first, each.last) + ": " + each.what + ", " +
                                 std::to_string(each.moved) + " keys moved");
    }

    struct step {
        slot_number first, last;
        std::string what;
        std::size_t moved;
    };

    cluster_group& cluster_;
    repair_log& log_;
    std::map<node_index, view> views_; // of each node
    std::vector<step> done_;
};

} // namespace

void repair(cluster_group& cluster, repair_log& log, std::chrono::milliseconds timeout) {
    repairer{cluster, log}.run(timeout);
}

} // namespace holdfast::test
