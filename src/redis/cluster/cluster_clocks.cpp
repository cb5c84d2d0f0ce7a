#include "redis/cluster/cluster_clocks.hpp"

namespace holdfast::redis {

void cluster_clocks::observed(node_table const& nodes, cluster_node const& of,
                              protocol::clock_reading const& reading) {
    notify(nodes, of, reading);
    if (of.number() >= most) return;
    unsigned owners = 0;
    protocol::instance_set up;
    nodes.for_each_owner([&](cluster_node const& n) {
        if (n.number() >= most) return;
        ++owners;
        if (n.up()) up.insert(n.number());
    });
    standstill_.configure(owners);
    standstill_.observed(of.number(), reading);
    if (!standstill_.has_unexplained_jumps()) return;
    auto const each = [&](protocol::instance_set of_these, auto&& act) {
        of_these.for_each([&](unsigned i) {
            if (auto* const n = nodes.at(static_cast<node_table::index>(i))) act(*n);
        });
    };
    each(standstill_.to_ask(up), [](cluster_node& n) { n.link().ask_time_now(); });
    auto const found = standstill_.evaluate(up);
    if (!found.is_ours) return;
    nodes.for_each_owner([&](cluster_node& n) {
        if (n.number() < most && found.instances.contains(n.number())) {
            return n.link().excuse_jump();
        }
        n.link().our_clock_stood_still(found.from, found.to, found.least, found.most);
    });
    auto const reported = last_jump_ < most && found.instances.contains(last_jump_);
    if (!reported) notify(found);
}

void cluster_clocks::excuse_reported(node_table const& nodes) {
    auto* const n = nodes.at(last_jump_);
    if (n != nullptr) n->link().excuse_jump();
}

void cluster_clocks::notify(node_table const& nodes, cluster_node const& of,
                            protocol::clock_reading const& reading) {
    auto const* const reported = nodes.at(reported_node_);
    if (reported == nullptr || !reported->up()) reported_node_ = of.number();
    auto const reports = of.number() == reported_node_;
    if (reading.jumped()) {
        if (reports) {
            last_jump_ = of.number();
        } else if (last_jump_ == of.number()) {
            last_jump_ = node_table::none;
        }
    }
    if (reports) owner_.on_clock_reading(number_, reading);
}

void cluster_clocks::notify(protocol::standstill::equal_jumps const& found) {
    last_jump_ = node_table::none;
    owner_.on_clock_reading(number_, {.first = false,
                                      .least = found.least,
                                      .most = found.most,
                                      .from = found.from,
                                      .to = found.to,
                                      .asked = found.from,
                                      .sure_from = found.from,
                                      .sure_to = found.to});
}

} // namespace holdfast::redis
