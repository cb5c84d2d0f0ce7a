#include "support/cluster_group.hpp"

#include "support/text.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace holdfast::test {

using namespace std::chrono_literals;
using topology::checked;
using topology::witness_password;

namespace {

constexpr char const* host = "127.0.0.1";
constexpr auto answer_time = 10s;
// A primary takes part only 2 s after its start, by its own wall clock.
constexpr auto wait_of_new_primaries = 2'100ms;

void append(std::vector<std::string>& to, std::vector<std::string> const& more) {
    to.insert(to.end(), more.begin(), more.end());
}

// Of 16,384 slots.
slot_range share_of(std::size_t i, std::size_t of) {
    auto const begin = [of](std::size_t k) { return k * cluster_group::slots / of; };
    return {static_cast<std::uint16_t>(begin(i)), static_cast<std::uint16_t>(begin(i + 1) - 1)};
}

// The address of the machine from which a node reaches others, if they can be isolated.
std::string source_of(std::size_t node) {
    return "127.0.1." + std::to_string(node + 1);
}

login documented_user(server_kind const& kind) {
    return {.user = std::string{access::user},
            .password = std::string{access::password},
            .rules = documented_cluster_rules(kind)};
}

bool contains_slot(reply const& range, std::uint16_t slot) {
    return range.elements().at(0).integer() <= slot && slot <= range.elements().at(1).integer();
}

std::string id_in(reply const& range, std::size_t server) {
    return range.elements().at(2 + server).elements().at(2).string();
}

} // namespace

access::rules cluster_side_keys(std::string_view prefix) {
    if (prefix.empty()) return {}; // `~*` takes no pattern beside it
    auto const pattern = "~{????}" + std::string{prefix};
    return {pattern + "*:fence",   pattern + "*:queue*", pattern + "*:readers*",
            pattern + "*:intent*", pattern + "*:turn*",  pattern + "*:until*",
            pattern + "*:fences*"};
}

access::rules documented_cluster_rules(server_kind const& kind, std::string_view prefix) {
    auto all = documented_rules(kind, prefix);
    append(all, cluster_side_keys(prefix));
    append(all, access::cluster);
    return all;
}

cluster_group::cluster_group(cluster_group_options options)
    : options_{std::move(options)} {
    if (!options_.user) options_.user = documented_user(options_.kind);
    if (options_.primaries == 0) throw std::logic_error{"a cluster has a primary"};
    if (options_.tls) tls_.emplace(*options_.tls);
    auto const count = options_.primaries + options_.replicas;
    for (std::size_t i = 0; options_.isolable && i < count; ++i)
        relays_.push_back(std::make_unique<relay>());
    for (std::size_t i = 0; i < count; ++i) start_node(i);
    for (auto const& n : nodes_) {
        n->wait_ready();
        clis_.push_back(cli(clis_.size()));
        clis_.back().set_timeout(answer_time);
        ids_.push_back(checked(clis_.back(), {"CLUSTER", "MYID"}).string());
    }
    assign_slots();
    if (options_.shiftable_clocks)
        for (auto const& n : nodes_) n->shift_clock(-n->clock_shift());
    introduce_nodes();
    attach_replicas();
    wait_until_agreed();
}

void cluster_group::start_node(std::size_t i) {
    server_options of_node = node_options(i);
    auto const usual = of_node.arguments;
    // By a file, Valkey takes 1 s to notice that the file is complete.
    append(of_node.arguments, {"--repl-diskless-load", "on-empty-db"});
    nodes_.push_back(std::make_unique<server>(of_node, server::without_waiting{}));
    if (options_.isolable) relays_.at(i)->lead_to(nodes_.back()->port("cluster-port"));
    nodes_.back()->set_arguments(usual);
}

server_options cluster_group::node_options(std::size_t i) const {
    server_options of_node;
    of_node.kind = options_.kind;
    of_node.config = topology::users(options_.primaries + options_.replicas, options_.user);
    of_node.arguments = topology::login_arguments(i, options_.user);
    append(of_node.arguments,
           {"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
            "--cluster-node-timeout", std::to_string(options_.node_timeout.count()),
            "--repl-diskless-sync-delay", "0"});
    of_node.extra_ports = {"cluster-port"};
    if (tls_) {
        append(of_node.arguments, tls_->arguments());
        append(of_node.arguments, {"--tls-cluster", "yes"});
        of_node.extra_ports.push_back("tls-port");
    }
    if (options_.isolable)
        append(of_node.arguments,
               {"--cluster-announce-ip", host, "--cluster-announce-bus-port",
                std::to_string(relays_.at(i)->port()), "--bind-source-addr", source_of(i),
                // Redis 7.0 takes these sources for other machines.
                "--protected-mode", "no"});
    append(of_node.arguments, options_.arguments);
    of_node.shiftable_clock = options_.shiftable_clocks;
    of_node.first_shift = options_.shiftable_clocks ? -wait_of_new_primaries : 0ms;
    return of_node;
}

// When it answers that it has slots, a node has noted the time of its start. Two nodes with one
// epoch would settle that by a greater one. A node takes the epoch of its primary, and Valkey 9.1
// ignores a node that tells a smaller epoch than before. So the primaries have the greater epochs.
void cluster_group::assign_slots() {
    for (std::size_t i = 0; i < options_.primaries; ++i) {
        auto const share = share_of(i, options_.primaries);
        checked(clis_[i], {"CLUSTER", "ADDSLOTSRANGE", std::to_string(share.first),
                           std::to_string(share.last)});
    }
    for (std::size_t i = 0; i < clis_.size(); ++i) {
        auto const epoch = 1 + (i + options_.replicas) % clis_.size();
        checked(clis_[i], {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(epoch)});
    }
}

// Each node meets each other: to wait for gossip takes longer.
void cluster_group::introduce_nodes() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) introduce(i);
}

void cluster_group::introduce(std::size_t node) {
    for (std::size_t other = 0; other < nodes_.size(); ++other)
        if (node != other)
            checked(clis_[node], {"CLUSTER", "MEET", host, std::to_string(port(other)),
                                  std::to_string(bus_port(other))});
}

std::uint16_t cluster_group::bus_port(std::size_t of_node) const {
    return options_.isolable ? relays_.at(of_node)->port()
                             : nodes_.at(of_node)->port("cluster-port");
}

void cluster_group::attach_replicas() {
    for (std::size_t r = 0; r < options_.replicas; ++r) {
        std::size_t const node = options_.primaries + r;
        topology::wait_for(
            "a replica knows its primary",
            [&] {
                auto const answer =
                    clis_[node].command({"CLUSTER", "REPLICATE", ids_[r % options_.primaries]});
                return answer.is_ok();
            },
            [&] { return state(); }, 20s);
    }
    for (std::size_t primary = 0; primary < options_.primaries; ++primary) {
        std::vector<redis_cli> replicas;
        for (std::size_t r = primary; r < options_.replicas; r += options_.primaries)
            replicas.push_back(cli(options_.primaries + r));
        topology::wait_until_streaming(clis_[primary], replicas);
        for (redis_cli& replica : replicas)
            replica.config("repl-diskless-load", "disabled"); // the default
    }
    // So that they tell at once that they are replicas. Without an offset they are not named.
    for (std::size_t i = options_.primaries; i < nodes_.size(); ++i) introduce(i);
}

std::string cluster_group::url() const {
    std::vector<std::size_t> first;
    for (std::size_t i = 0; i < std::min<std::size_t>(nodes_.size(), 3); ++i) first.push_back(i);
    return url(first);
}

std::string cluster_group::url(std::vector<std::size_t> const& of_nodes) const {
    std::string hosts;
    for (std::size_t const i : of_nodes)
        hosts += (hosts.empty() ? "" : ",") + std::string{host} + ':' + std::to_string(port(i));
    std::string text = tls_ ? "rediss+cluster://" : "redis+cluster://";
    text += topology::url_user(options_.user) + hosts;
    if (tls_) text += "?ca=" + topology::percent_encoded(tls_->ca_file());
    return text;
}

std::uint16_t cluster_group::port(std::size_t of_node) const {
    return topology::port_of(*nodes_.at(of_node), tls_.has_value());
}

std::string cluster_group::ca_file() const {
    return tls_ ? tls_->ca_file() : std::string{};
}

redis_cli cluster_group::cli(std::size_t of_node) const {
    return redis_cli{*nodes_.at(of_node), topology::password_for_witness(options_.user)};
}

bool cluster_group::usable(std::size_t i) {
    return nodes_.at(i)->running() && !nodes_[i]->frozen() && isolated_ != i;
}

std::vector<std::size_t> cluster_group::usable_nodes() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (usable(i)) all.push_back(i);
    if (all.empty()) throw std::runtime_error{"no node of the cluster runs"};
    return all;
}

std::uint16_t cluster_group::slot_of(std::string const& key) {
    redis_cli& any = clis_[usable_nodes().front()];
    return static_cast<std::uint16_t>(checked(any, {"CLUSTER", "KEYSLOT", key}).integer());
}

std::optional<std::size_t> cluster_group::owner_by(std::size_t asked, std::uint16_t slot) {
    if (!usable(asked)) return std::nullopt;
    try {
        auto const said = checked(clis_[asked], {"CLUSTER", "SLOTS"});
        for (auto const& range : said.elements())
            if (contains_slot(range, slot)) return node_with(id_in(range, 0));
    } catch (cli_error const&) { // it does not answer
    }
    return std::nullopt;
}

std::size_t cluster_group::owner(std::uint16_t slot) {
    auto const asked = usable_nodes();
    std::map<std::size_t, std::size_t> votes;
    for (std::size_t const i : asked)
        if (auto const named = owner_by(i, slot))
            if (++votes[*named] > asked.size() / 2) return *named;
    throw std::runtime_error{"most nodes name no owner of the slot " + std::to_string(slot) + '\n' +
                             state()};
}

std::string cluster_group::key_on(std::size_t node, std::string const& prefix) {
    auto const said = checked(clis_[usable_nodes().front()], {"CLUSTER", "SLOTS"});
    for (std::size_t i = 0; i < 100 * slots; ++i) {
        auto key = prefix + std::to_string(i);
        auto const slot = slot_of(key);
        for (auto const& range : said.elements())
            if (contains_slot(range, slot) && id_in(range, 0) == id(node)) return key;
    }
    throw std::runtime_error{"the node " + std::to_string(node) + " owns no slot\n" + state()};
}

std::vector<std::size_t> cluster_group::replicas_of(std::size_t primary) {
    auto const asked = usable_nodes();
    std::map<std::vector<std::size_t>, std::size_t> votes;
    for (std::size_t const i : asked) {
        auto const said = checked(clis_[i], {"CLUSTER", "REPLICAS", id(primary)});
        std::vector<std::size_t> named;
        for (auto const& line : said.elements()) named.push_back(node_with(line.string()));
        std::sort(named.begin(), named.end());
        if (++votes[named] > asked.size() / 2) return named;
    }
    throw std::runtime_error{"most nodes do not agree on the replicas\n" + state()};
}

// Also of a line that begins with the id.
std::size_t cluster_group::node_with(std::string_view id) const {
    for (std::size_t i = 0; i < ids_.size(); ++i)
        if (id.starts_with(ids_[i])) return i;
    throw std::runtime_error{"no node has the id " + std::string{id}};
}

std::string cluster_group::role(std::size_t of_node) const {
    redis_cli asked = cli(of_node);
    return checked(asked, {"ROLE"}).elements().at(0).string();
}

cluster_group::slot_map cluster_group::map_by(std::size_t asked) {
    slot_map map;
    auto const said = checked(clis_.at(asked), {"CLUSTER", "SLOTS"});
    for (auto const& range : said.elements()) {
        auto const& parts = range.elements();
        std::vector<std::string> replicas;
        for (std::size_t i = 3; i < parts.size(); ++i) replicas.push_back(id_in(range, i - 2));
        std::sort(replicas.begin(), replicas.end());
        auto line = std::to_string(parts.at(0).integer()) + '-' +
                    std::to_string(parts.at(1).integer()) + ' ' + id_in(range, 0);
        for (auto const& replica : replicas) line += ' ' + replica;
        map.push_back(std::move(line));
    }
    std::sort(map.begin(), map.end());
    return map;
}

// To all nodes that run, and no introduction is under way.
bool cluster_group::is_linked(std::size_t asked) {
    std::istringstream lines{checked(clis_.at(asked), {"CLUSTER", "NODES"}).string()};
    for (std::string line; std::getline(lines, line);) {
        if (contains(line, "handshake")) return false;
        if (usable(node_with(line)) && (contains(line, "disconnected") || contains(line, ",fail")))
            return false;
    }
    return true;
}

bool cluster_group::agreed() {
    std::optional<slot_map> first;
    for (std::size_t const i : usable_nodes()) {
        auto const info = checked(clis_[i], {"CLUSTER", "INFO"}).string();
        if (!contains(info, "cluster_state:ok") || !is_linked(i)) return false;
        auto const map = map_by(i);
        if (!first) first = map;
        if (map != *first) return false;
    }
    // A replica is named only after it is in sync, and has told so.
    std::size_t named = 0;
    for (std::size_t const i : usable_nodes()) {
        bool const is_named = std::any_of(first->begin(), first->end(), [&](auto const& line) {
            return contains(line, ids_[i]);
        });
        named += is_named ? 1U : 0U;
        if (!is_named && role(i) == "slave") return false;
    }
    return named > 0;
}

void cluster_group::wait_until_agreed(milliseconds timeout) {
    topology::wait_for(
        "all nodes agree", [&] { return agreed(); }, [&] { return state(); }, timeout);
}

void cluster_group::wait_for_owner(std::uint16_t slot, std::size_t node, milliseconds timeout) {
    topology::wait_for(
        "all nodes name an owner of a slot",
        [&] {
            auto const asked = usable_nodes();
            return std::all_of(asked.begin(), asked.end(),
                               [&](std::size_t i) { return owner_by(i, slot) == node; });
        },
        [&] { return state(); }, timeout);
}

void cluster_group::wait_until_older_than(milliseconds max_ttl) {
    topology::wait_for(
        "all nodes are older than max_ttl",
        [&] {
            for (std::size_t i = 0; i < size(); ++i)
                if (!cli(i).is_older_than(max_ttl)) return false;
            return true;
        },
        [&] { return state(); }, std::chrono::seconds(60));
}

std::size_t cluster_group::wait_for_other_owner(std::uint16_t slot, std::size_t before,
                                                milliseconds timeout) {
    std::optional<std::size_t> now;
    topology::wait_for(
        "all nodes name another owner of a slot",
        [&] {
            auto const asked = usable_nodes();
            now = owner_by(asked.front(), slot);
            if (!now || *now == before) return false;
            return std::all_of(asked.begin(), asked.end(),
                               [&](std::size_t i) { return owner_by(i, slot) == now; });
        },
        [&] { return state(); }, timeout);
    return *now;
}

void cluster_group::begin_failover(std::size_t to_replica, takeover how) {
    command_line words{"CLUSTER", "FAILOVER"};
    if (how == takeover::force) words.emplace_back("FORCE");
    if (how == takeover::takeover) words.emplace_back("TAKEOVER");
    checked(clis_.at(to_replica), words);
}

void cluster_group::cut_replication(std::size_t of_replica, std::size_t from_primary) {
    auto const user = topology::replication_user(of_replica);
    checked(clis_.at(from_primary), {"ACL", "SETUSER", user, "off"});
    checked(clis_.at(from_primary), {"CLIENT", "KILL", "USER", user});
}

void cluster_group::restore_replication(std::size_t of_replica, std::size_t from_primary) {
    checked(clis_.at(from_primary),
            {"ACL", "SETUSER", topology::replication_user(of_replica), "on"});
}

void cluster_group::isolate(std::size_t node) {
    relays_.at(node)->shut_out_all();
    for (std::size_t i = 0; i < size(); ++i)
        if (i != node) relays_[i]->shut_out(source_of(node));
    isolated_ = node;
}

void cluster_group::rejoin() {
    for (auto const& r : relays_) r->let_in_all();
    isolated_.reset();
}

void cluster_group::restart_empty(std::size_t node) {
    server& of = *nodes_.at(node);
    of.kill();
    std::error_code ignored;
    std::filesystem::remove(of.folder() + "/dump.rdb", ignored);
    std::filesystem::remove_all(of.folder() + "/appendonlydir", ignored);
    of.restart();
}

void cluster_group::migrate(slot_range range, std::size_t from, std::size_t to) {
    slot_migration moving{*this, range, from, to};
    moving.begin();
    moving.move_keys();
    // All nodes hear of it from the target before any is told. Otherwise a node may still have old
    // messages of the target in its sockets when the slots move back. Redis 7.0 then gave a slot
    // away for good.
    moving.claim();
    for (auto slot = range.first; slot <= range.last; ++slot) wait_for_owner(slot, to);
    moving.end();
}

void cluster_group::begin_atomic_migration(slot_range range, std::size_t from, std::size_t to) {
    checked(clis_.at(from), {"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", std::to_string(range.first),
                             std::to_string(range.last), "NODE", id(to)});
}

std::string cluster_group::atomic_migration_state(std::size_t from) {
    auto const all = checked(clis_.at(from), {"CLUSTER", "GETSLOTMIGRATIONS"});
    for (auto const& job : all.elements()) // the last one comes first
        if (topology::field_of(job, "operation") == "EXPORT")
            return topology::field_of(job, "state");
    return "none";
}

void cluster_group::migrate_atomically(slot_range range, std::size_t from, std::size_t to) {
    begin_atomic_migration(range, from, to);
    topology::wait_for(
        "an atomic migration has ended",
        [&] {
            auto const now = atomic_migration_state(from);
            if (now == "failed" || now == "cancelled")
                throw std::runtime_error{"an atomic migration ended: " + now};
            return now == "success";
        },
        [&] { return state(); }, 30s);
    for (auto slot = range.first; slot <= range.last; ++slot) wait_for_owner(slot, to);
}

std::string cluster_group::state() {
    std::ostringstream text;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        text << "  node " << i << ", port " << port(i) << ": ";
        if (!usable(i)) {
            text << "killed or frozen\n";
            continue;
        }
        try {
            redis_cli asked = cli(i);
            auto const info = checked(asked, {"CLUSTER", "INFO"}).string();
            text << info.substr(0, info.find('\r')) << '\n'
                 << checked(asked, {"CLUSTER", "NODES"}).string();
        } catch (cli_error const& error) {
            text << error.what() << '\n';
        }
    }
    return text.str();
}

slot_migration::slot_migration(cluster_group& cluster, slot_range range, std::size_t from,
                               std::size_t to)
    : cluster_{&cluster}
    , range_{range}
    , from_{from}
    , to_{to} {}

void slot_migration::on(std::size_t node, std::uint16_t slot,
                        std::vector<std::string> const& words) {
    command_line line{"CLUSTER", "SETSLOT", std::to_string(slot)};
    append(line, words);
    checked(cluster_->clis_.at(node), line);
}

void slot_migration::begin() {
    for (auto slot = range_.first; slot <= range_.last; ++slot) {
        on(to_, slot, {"IMPORTING", cluster_->id(from_)});
        on(from_, slot, {"MIGRATING", cluster_->id(to_)});
    }
}

std::size_t slot_migration::move_keys(std::size_t most) {
    redis_cli& source = cluster_->clis_.at(from_);
    std::size_t moved = 0;
    for (auto slot = range_.first; slot <= range_.last; ++slot) {
        for (;;) {
            auto const wanted = std::min<std::size_t>(most - moved, 100);
            if (wanted == 0) return moved;
            auto const keys = checked(
                source, {"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(wanted)});
            if (keys.elements().empty()) break;
            command_line words{"MIGRATE", host, std::to_string(cluster_->port(to_)),
                               "",        "0",  "5000"};
            if (cluster_->options_.user) append(words, {"AUTH", std::string{witness_password}});
            words.emplace_back("KEYS");
            for (auto const& key : keys.elements()) words.push_back(key.string());
            checked(source, words); // NOKEY: they have expired
            moved += keys.elements().size();
        }
    }
    return moved;
}

void slot_migration::claim() {
    for (auto slot = range_.first; slot <= range_.last; ++slot)
        on(to_, slot, {"NODE", cluster_->id(to_)});
}

void slot_migration::end() {
    auto const& id = cluster_->id(to_);
    std::vector<std::size_t> order{to_, from_};
    for (std::size_t const i : cluster_->usable_nodes())
        if (i != to_ && i != from_ && cluster_->role(i) == "master") order.push_back(i);
    for (std::size_t const node : order)
        for (auto slot = range_.first; slot <= range_.last; ++slot) on(node, slot, {"NODE", id});
}

void slot_migration::abort() {
    for (auto slot = range_.first; slot <= range_.last; ++slot)
        for (std::size_t const node : {from_, to_}) on(node, slot, {"STABLE"});
}

} // namespace holdfast::test
