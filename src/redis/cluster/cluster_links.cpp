#include "redis/cluster/cluster_links.hpp"

#include <boost/asio/ip/address.hpp>

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

cluster_links::cluster_links(asio::any_io_executor const& executor, cluster_link_user& user,
                             connection_options const& options, location::stream_factory factory)
    : executor_(executor)
    , user_(user)
    , options_(options)
    , factory_(std::move(factory)) {}

//
// Making links
//

cluster_link* cluster_links::find(std::string_view host, std::uint16_t port) const {
    for (auto const& l : links_) {
        if (l && l->node().has_address(host, port)) return l.get();
    }
    return nullptr;
}

/// The link to the node of a map. A node is known by its id. If its address is another one now, it
/// needs a new link.
cluster_link* cluster_links::find_for(protocol::cluster_node const& n) {
    auto* const l = find(n.host, n.port);
    if (l == nullptr) return nullptr;
    // Another node has the address now. The link finds out by the run id of the server.
    if (l->node() != n) {
        auto const known = remembered_.find(n.id);
        if (l->node().id.empty() && known != remembered_.end()) l->restore(known->second);
        l->learn(n);
    }
    return l;
}

// The name in the certificate of a node: its own, or that of the configured address.
std::string cluster_links::tls_name_for(protocol::cluster_node const& n) const {
    if (!n.hostname.empty()) return n.hostname;
    auto const& seed = options_.address.host();
    return is_numeric(n.host) && !is_numeric(seed) ? seed : n.host;
}

connection_options cluster_links::options_for(protocol::cluster_node const& n) const {
    auto const& a = options_.address;
    auto o = options_;
    o.address = address_parts{.hosts = {{.host = n.host, .port = n.port}},
                              .credentials = a.credentials(),
                              .tls = a.tls(),
                              .tls_options = a.tls_options()};
    o.in_cluster = true;
    if (a.tls()) o.tls_name = tls_name_for(n);
    return o;
}

/// Null if the address cannot be used.
cluster_link* cluster_links::make(protocol::cluster_node n) {
    auto free = std::find(links_.begin(), links_.end(), nullptr);
    if (free == links_.end()) {
        if (links_.size() == none) return nullptr;
        free = links_.emplace(links_.end());
    }
    auto const number = static_cast<index>(free - links_.begin());
    try {
        auto options = options_for(n);
        auto const id = n.id;
        for_each([&](cluster_link const& l) {
            if (!id.empty() && l.node().id == id) remember(l); // it has another address now
        });
        auto const known = remembered_.find(id);
        *free = std::make_unique<cluster_link>(executor_, user_, number, std::move(n),
                                               std::move(options), factory_);
        if (known != remembered_.end()) (*free)->restore(known->second);
    } catch (system_error const&) {
        return nullptr;
    }
    return free->get();
}

cluster_link* cluster_links::named(std::string_view host, std::uint16_t port) {
    if (auto* const known = find(host, port)) return known;
    std::size_t without_slots = 0;
    for_each([&](cluster_link const& l) { without_slots += l.slots() == 0 ? 1 : 0; });
    if (without_slots >= most_named) return nullptr;
    auto* const made = make({.id = {}, .host = std::string(host), .port = port});
    if (made != nullptr) made->start();
    return made;
}

void cluster_links::use_seeds() {
    for (auto const& [host, port] : options_.address.hosts()) {
        if (find(host, port) != nullptr) continue;
        auto* const made = make({.id = {}, .host = host, .port = port});
        if (made == nullptr) continue;
        made->seed = true;
        made->start();
    }
}

bool cluster_links::may_connect() const noexcept {
    return std::ranges::count_if(links_, [](auto const& l) { return l && l->connecting(); }) <
           most_connecting;
}

void cluster_links::connect_waiting() noexcept {
    for_each([this](cluster_link& l) {
        if (l.waits_to_connect() && may_connect()) l.connection().connect_if_due();
    });
}

//
// The map
//

bool cluster_links::take(protocol::slot_map fresh, cluster_link& from,
                         lease_clock::time_point asked) {
    std::vector<index> links;
    links.reserve(fresh.nodes().size());
    for (auto const& n : fresh.nodes()) {
        auto* l = find_for(n);
        if (l == nullptr) {
            l = make(n);
            if (l != nullptr) l->start(); // at once: memory may run out below
        }
        links.push_back(l == nullptr ? none : l->number());
    }
    auto const first = !has_map_;
    auto const vouches = may_vouch(from);
    std::set<std::pair<index, index>> moves;
    for (unsigned slot = 0; slot < protocol::hash_slots; ++slot) {
        auto const* const before = owner_of(slot);
        auto const node = fresh.owner(slot);
        auto const now = node == none ? none : links[node];
        if (before != nullptr && now != before->number() && now != none) {
            moves.emplace(before->number(), now);
        }
    }
    std::vector<unsigned> counts(links_.size(), 0);
    map_ = std::move(fresh);
    link_of_node_ = std::move(links);
    has_map_ = true;
    count_slots(counts);
    for (auto const& [before, now] : moves) {
        at(now)->inherits_from(*at(before), before == from.number());
    }
    for_each_owner([&](cluster_link& l) {
        l.seed = l.foreign = false;
        l.owns_slots(first);
        // No other node can replace the only primary.
        if ((vouches && &l != &from) || map_.nodes().size() == 1) l.named_by_another(asked);
    });
    return !moves.empty();
}

// A node in doubt may have an old map itself. But if all are in doubt, the client was silent rather
// than they.
bool cluster_links::may_vouch(cluster_link const& by) const {
    return !by.doubted() || !any_owner([](auto const& l) { return l.up() && !l.doubted(); });
}

cluster_link* cluster_links::move_slot(cluster_link const& by, unsigned slot, std::string_view host,
                                       std::uint16_t port, bool& changed) {
    auto* const to = named(host, port);
    auto* const before = owner_of(slot);
    if (to == nullptr || to == before) return to;
    link_of_node_.reserve(map_.nodes().size() + 1);
    auto const node = map_.moved(slot, host, port);
    if (node == none) return nullptr;
    link_of_node_.resize(map_.nodes().size(), none);
    link_of_node_[node] = to->number();
    to->set_slots(to->slots() + 1);
    if (before != nullptr) before->set_slots(before->slots() - 1);
    changed = true;
    if (before != nullptr) to->inherits_from(*before, before == &by);
    to->seed = false;
    to->owns_slots(false);
    return to;
}

void cluster_links::demoted(cluster_link const& l) noexcept {
    for_each([&](cluster_link& o) {
        if (o.predecessor() == l.number()) o.predecessor_retired();
    });
}

void cluster_links::count_slots(std::vector<unsigned>& counts) noexcept {
    for (unsigned slot = 0; slot < protocol::hash_slots; ++slot) {
        if (auto const* const l = owner_of(slot)) ++counts[l->number()];
    }
    for_each([&](cluster_link& l) { l.set_slots(counts[l.number()]); });
}

bool cluster_links::is_unused(cluster_link const& l, lease_clock::time_point now) const {
    if (!has_map_ || l.slots() > 0) return false;
    if (l.seed && l.foreign) return false; // so that the status shows it
    // While no primary can be asked, the seeds are.
    auto const needed = l.seed && !any_owner([](cluster_link const& o) { return o.up(); });
    return !needed && now - l.unused_since() >= kept_unused && l.connection().settled();
}

void cluster_links::remember(cluster_link const& l) {
    if (l.node().id.empty()) return;
    if (remembered_.size() >= most_remembered) remembered_.erase(remembered_.begin());
    remembered_.insert_or_assign(l.node().id, l.ownership());
}

//
// Status
//

std::vector<cluster_board::node> cluster_links::board() const {
    std::vector<cluster_board::node> nodes;
    for_each([&](cluster_link& l) {
        nodes.push_back({l.connection().shared_status(), l.slots()});
    });
    return nodes;
}

std::string cluster_links::clocks_apart() const {
    protocol::duration most = protocol::clock_warning;
    std::string text;
    for_each_owner([&](cluster_link& a) {
        for_each_owner([&](cluster_link& b) {
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
