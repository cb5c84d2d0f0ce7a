#include "redis/cluster/slot_map_reader.hpp"

#include "redis/wire/slot_text.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

namespace {

using protocol::hash_slots;
using protocol::slot_map;

bool is_text(reply_type t) {
    return t == reply_type::blob_string || t == reply_type::simple_string;
}

bool is_list(reply_type t) {
    return t == reply_type::array || t == reply_type::set;
}

bool is_id(std::string_view text) {
    return !text.empty() && text.size() <= slot_map_reader::max_id &&
           std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

} // namespace

void slot_map_reader::refuse(std::string problem) {
    if (problem_.empty()) problem_ = "CLUSTER SLOTS: " + std::move(problem);
}

std::string slot_map_reader::range_text() const {
    return "slots " + std::to_string(first_) + " to " + std::to_string(last_);
}

void slot_map_reader::take_part(element const& e) {
    if (!problem_.empty()) return;
    switch (e.depth) {
    case 0:
        return begin_reply(e);
    case 1:
        return begin_range(e);
    case 2:
        return take_range_part(e);
    case 3:
        return take_node_part(e);
    case 4:
        return take_metadata(e);
    default:
        return; // part of a field that a later version may have added
    }
}

void slot_map_reader::begin_reply(element const& e) {
    if (std::exchange(begun_, true)) return refuse("a second reply");
    if (is_error(e.type)) return refuse("the server refused: " + short_text(e.value));
    if (e.type != reply_type::array) return refuse("the reply is no array");
}

void slot_map_reader::begin_range(element const& e) {
    end_range();
    if (!is_list(e.type)) return refuse("an entry is no array");
    in_range_ = true;
    range_parts_ = 0;
}

void slot_map_reader::take_range_part(element const& e) {
    end_node();
    ++range_parts_;
    if (range_parts_ <= 2) {
        auto const slot = e.type == reply_type::number ? to_slot(e.value) : std::nullopt;
        if (!slot) return refuse("'" + short_text(e.value) + "' is no slot from 0 to 16383");
        (range_parts_ == 1 ? first_ : last_) = *slot;
        return;
    }
    if (!is_list(e.type)) return refuse("a node of " + range_text() + " is no array");
    if (range_parts_ > 3) return; // a replica
    if (first_ > last_) return refuse(range_text() + " are no range");
    in_primary_ = true;
    node_parts_ = 0;
    form_ = host_form::of_connection;
    // Keeps the memory of the texts: a map may have thousands of ranges.
    for (auto* const text : {&node_.id, &node_.host, &node_.hostname, &ip_}) text->clear();
    node_.port = 0;
    metadatum_ = metadatum::name;
}

void slot_map_reader::take_node_part(element const& e) {
    if (!in_primary_) return;
    switch (static_cast<field>(++node_parts_)) {
    case field::host:
        return take_host(e);
    case field::port: {
        auto const port = e.type == reply_type::number ? to_port(e.value) : std::nullopt;
        if (!port) return refuse("'" + short_text(e.value) + "' is no port of a node");
        node_.port = *port;
        return;
    }
    case field::id:
        if (!is_text(e.type) || !is_id(e.value))
            return refuse("'" + short_text(e.value) + "' is no id of a node");
        node_.id = e.value;
        return;
    default:
        // Later versions may add fields.
        metadatum_ = metadatum::name;
    }
}

void slot_map_reader::take_host(element const& e) {
    if (e.type == reply_type::null || (is_text(e.type) && e.value.empty())) return;
    if (!is_text(e.type)) return refuse("the host of a node is no text");
    if (e.value == "?") {
        form_ = host_form::unknown;
        return;
    }
    if (!is_host(e.value)) return refuse("'" + short_text(e.value) + "' is no host of a node");
    form_ = host_form::known;
    node_.host = e.value;
}

// Names and values take turns, in a map as in an array.
void slot_map_reader::take_metadata(element const& e) {
    if (!in_primary_ || node_parts_ != static_cast<unsigned>(field::metadata)) return;
    switch (std::exchange(metadatum_, metadatum::name)) {
    case metadatum::name:
        metadatum_ = e.value == "ip"         ? metadatum::ip
                     : e.value == "hostname" ? metadatum::hostname
                                             : metadatum::other;
        return;
    case metadatum::ip:
        if (is_text(e.type) && is_host(e.value)) ip_ = e.value;
        return;
    case metadatum::hostname:
        if (is_text(e.type) && is_host(e.value)) node_.hostname = e.value;
        return;
    case metadatum::other:
        return;
    }
}

void slot_map_reader::end_node() {
    if (!std::exchange(in_primary_, false)) return;
    if (node_parts_ < static_cast<unsigned>(field::id))
        return refuse("the primary of " + range_text() + " has no host, port and id");
    if (form_ == host_form::of_connection) node_.host = connected_to_;
    if (form_ == host_form::unknown) {
        if (ip_.empty())
            return refuse("node " + node_.id + " has neither a host name nor an address");
        node_.host = ip_;
    }
    auto const [at, fresh] = known_.try_emplace(node_.id, slot_map::none);
    if (fresh) {
        if (map_.nodes().size() == max_primaries)
            return refuse("it names more than " + std::to_string(max_primaries) + " primaries");
        at->second = map_.add(std::move(node_));
    } else if (map_.nodes()[at->second] != node_) {
        return refuse("two addresses for node " + node_.id);
    }
    for (auto slot = first_; slot <= last_; ++slot) {
        if (map_.owner(slot) != slot_map::none)
            return refuse("two owners for slot " + std::to_string(slot));
        map_.assign(slot, at->second);
    }
}

void slot_map_reader::end_range() {
    end_node();
    if (std::exchange(in_range_, false) && range_parts_ < 3)
        refuse("a range of slots without a primary");
}

bool slot_map_reader::finish() {
    if (!begun_) refuse("no reply");
    end_range();
    return problem_.empty();
}

} // namespace holdfast::redis
