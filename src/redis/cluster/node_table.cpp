#include "redis/cluster/node_table.hpp"

#include "protocol/cluster/hash_slot.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <set>

namespace holdfast::redis {

namespace {

bool is_numeric(std::string const& host) {
    error_code ec;
    asio::ip::make_address(host, ec);
    return !ec;
}

} // namespace

node_table::node_table(asio::any_io_executor const& executor, cluster_node_user& user,
                       connection_options const& options, location::stream_factory factory)
    : executor_(executor)
    , user_(user)
    , options_(options)
    , factory_(std::move(factory)) {}

//
// Making nodes
//

cluster_node* node_table::find(std::string_view host, std::uint16_t port) const {
    for (auto const& n : nodes_) {
        if (n && n->address().is_at(host, port)) return n.get();
    }
    return nullptr;
}

/// The node of a map. It is known by its id. If its address is another one now, it needs a new
/// cluster_node.
cluster_node* node_table::find_for(protocol::node_address const& entry) {
    auto* const n = find(entry.host, entry.port);
    if (n == nullptr) return nullptr;
    // Another node has the address now. The link finds out by the run id of the server.
    if (n->address() != entry) {
        auto const known = remembered_.find(entry.id);
        if (n->address().id.empty() && known != remembered_.end()) n->restore(known->second);
        n->learn(entry);
    }
    return n;
}

// The name in the certificate of a node: its own, or that of the configured address.
std::string node_table::tls_name_for(protocol::node_address const& entry) const {
    if (!entry.hostname.empty()) return entry.hostname;
    auto const& seed = options_.address.host();
    return is_numeric(entry.host) && !is_numeric(seed) ? seed : entry.host;
}

connection_options node_table::options_for(protocol::node_address const& entry) const {
    auto const& cluster = options_.address;
    auto o = options_;
    o.address = address_parts{.hosts = {{.host = entry.host, .port = entry.port}},
                              .credentials = cluster.credentials(),
                              .tls = cluster.tls(),
                              .tls_options = cluster.tls_options()};
    o.in_cluster = true;
    if (cluster.tls()) o.tls_name = tls_name_for(entry);
    return o;
}

/// Null if the address cannot be used.
cluster_node* node_table::make(protocol::node_address entry) {
    auto free = std::find(nodes_.begin(), nodes_.end(), nullptr);
    if (free == nodes_.end()) {
        if (nodes_.size() == none) return nullptr;
        free = nodes_.emplace(nodes_.end());
    }
    auto const number = static_cast<index>(free - nodes_.begin());
    try {
        auto options = options_for(entry);
        auto const id = entry.id;
        for_each([&](cluster_node const& n) {
            if (!id.empty() && n.address().id == id) remember(n); // it has another address now
        });
        auto const known = remembered_.find(id);
        *free = std::make_unique<cluster_node>(executor_, user_, number, std::move(entry),
                                               std::move(options), factory_);
        if (known != remembered_.end()) (*free)->restore(known->second);
    } catch (system_error const&) {
        return nullptr;
    }
    return free->get();
}

cluster_node* node_table::named(std::string_view host, std::uint16_t port) {
    if (auto* const known = find(host, port)) return known;
    std::size_t without_slots = 0;
    for_each([&](cluster_node const& n) { without_slots += n.slots() == 0 ? 1 : 0; });
    if (without_slots >= most_named) return nullptr;
    auto* const made = make({.id = {}, .host = std::string(host), .port = port});
    if (made != nullptr) made->start();
    return made;
}

void node_table::use_seeds() {
    for (auto const& [host, port] : options_.address.hosts()) {
        if (find(host, port) != nullptr) continue;
        auto* const made = make({.id = {}, .host = host, .port = port});
        if (made == nullptr) continue;
        made->seed = true;
        made->start();
    }
}

bool node_table::may_connect() const noexcept {
    return std::ranges::count_if(nodes_, [](auto const& n) { return n && n->connecting(); }) <
           most_connecting;
}

void node_table::connect_waiting() noexcept {
    for_each([this](cluster_node& n) {
        if (n.waits_to_connect() && may_connect()) n.link().connect_if_due();
    });
}

//
// The map
//

bool node_table::take(protocol::slot_map fresh, cluster_node& from, lease_clock::time_point asked) {
    std::vector<index> places;
    places.reserve(fresh.nodes().size());
    for (auto const& entry : fresh.nodes()) {
        auto* n = find_for(entry);
        if (n == nullptr) {
            n = make(entry);
            if (n != nullptr) n->start(); // at once: memory may run out below
        }
        places.push_back(n == nullptr ? none : n->number());
    }
    auto const first = !has_map_;
    auto const vouches = may_vouch(from);
    std::set<std::pair<index, index>> moves;
    for (unsigned slot = 0; slot < protocol::hash_slots; ++slot) {
        auto const* const before = owner_of(slot);
        auto const node = fresh.owner(slot);
        auto const now = node == none ? none : places[node];
        if (before != nullptr && now != before->number() && now != none) {
            moves.emplace(before->number(), now);
        }
    }
    std::vector<unsigned> counts(nodes_.size(), 0);
    map_ = std::move(fresh);
    places_ = std::move(places);
    has_map_ = true;
    count_slots(counts);
    for (auto const& [before, now] : moves) {
        at(now)->inherits_from(*at(before), before == from.number());
    }
    for_each_owner([&](cluster_node& n) {
        n.seed = n.foreign = false;
        n.owns_slots(first);
        // No other node can replace the only primary.
        if ((vouches && &n != &from) || map_.nodes().size() == 1) n.named_by_another(asked);
    });
    return !moves.empty();
}

// A node in doubt may have an old map itself. But if all are in doubt, the client was silent rather
// than they.
bool node_table::may_vouch(cluster_node const& by) const {
    return !by.doubted() || !any_owner([](auto const& n) { return n.up() && !n.doubted(); });
}

cluster_node* node_table::move_slot(cluster_node const& by, unsigned slot, std::string_view host,
                                    std::uint16_t port, bool& changed) {
    auto* const to = named(host, port);
    auto* const before = owner_of(slot);
    if (to == nullptr || to == before) return to;
    places_.reserve(map_.nodes().size() + 1);
    auto const node = map_.moved(slot, host, port);
    if (node == none) return nullptr;
    places_.resize(map_.nodes().size(), none);
    places_[node] = to->number();
    to->set_slots(to->slots() + 1);
    if (before != nullptr) before->set_slots(before->slots() - 1);
    changed = true;
    if (before != nullptr) to->inherits_from(*before, before == &by);
    to->seed = false;
    to->owns_slots(false);
    return to;
}

void node_table::demoted(cluster_node const& n) noexcept {
    for_each([&](cluster_node& o) {
        if (o.predecessor() == n.number()) o.predecessor_retired();
    });
}

void node_table::count_slots(std::vector<unsigned>& counts) noexcept {
    for (unsigned slot = 0; slot < protocol::hash_slots; ++slot) {
        if (auto const* const n = owner_of(slot)) ++counts[n->number()];
    }
    for_each([&](cluster_node& n) { n.set_slots(counts[n.number()]); });
}

bool node_table::is_unused(cluster_node const& n, lease_clock::time_point now) const {
    if (!has_map_ || n.slots() > 0) return false;
    if (n.seed && n.foreign) return false; // so that the status shows it
    // While no primary can be asked, the seeds are.
    auto const needed = n.seed && !any_owner([](cluster_node const& o) { return o.up(); });
    return !needed && now - n.unused_since() >= unused_limit && n.link().settled();
}

void node_table::remember(cluster_node const& n) {
    if (n.address().id.empty()) return;
    if (remembered_.size() >= most_remembered) remembered_.erase(remembered_.begin());
    remembered_.insert_or_assign(n.address().id, n.ownership());
}

//
// Status
//

std::uint64_t node_table::layout() const {
    std::size_t hash = 0;
    for (unsigned slot = 0; slot < protocol::hash_slots; ++slot) {
        auto const* const owner = owner_of(slot);
        boost::hash_combine(hash, owner == nullptr ? none : owner->number());
    }
    return hash;
}

std::vector<cluster_board::node> node_table::board() const {
    std::vector<cluster_board::node> nodes;
    for_each([&](cluster_node& n) { nodes.push_back({n.link().shared_status(), n.slots()}); });
    return nodes;
}

std::string node_table::clocks_apart() const {
    protocol::duration most = protocol::clock_warning;
    std::string text;
    for_each_owner([&](cluster_node& a) {
        for_each_owner([&](cluster_node& b) {
            if (!a.clock() || !b.clock()) return;
            auto const ahead = protocol::certainly_ahead(*a.clock(), *b.clock(), options_.max_ttl);
            if (ahead <= most) return;
            most = ahead;
            auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(ahead).count();
            text = "the clock of " + a.name() + " is " + std::to_string(ms) +
                   " ms ahead of that of " + b.name();
        });
    });
    return text;
}

} // namespace holdfast::redis
