#include "redis/cluster/cluster_clocks.hpp"

namespace holdfast::redis {

void cluster_clocks::observed(cluster_links const& links, cluster_link const& of,
                              protocol::clock_reading const& reading) {
    tell(links, of, reading);
    if (of.number() >= most) return;
    unsigned owners = 0;
    protocol::instance_set up;
    links.for_each_owner([&](cluster_link const& l) {
        if (l.number() >= most) return;
        ++owners;
        if (l.up()) up.insert(l.number());
    });
    standstill_.configure(owners);
    standstill_.observed(of.number(), reading);
    if (!standstill_.has_unexplained_jumps()) return;
    auto const each = [&](protocol::instance_set of_these, auto&& act) {
        of_these.for_each([&](unsigned i) {
            if (auto* const l = links.at(static_cast<cluster_links::index>(i))) act(*l);
        });
    };
    each(standstill_.to_ask(up), [](cluster_link& l) { l.connection().ask_time_now(); });
    auto const found = standstill_.judge(up);
    if (!found.is_ours) return;
    links.for_each_owner([&](cluster_link& l) {
        if (l.number() < most && found.instances.contains(l.number())) {
            return l.connection().excuse_jump();
        }
        l.connection().our_clock_stood_still(found.from, found.to, found.least, found.most);
    });
    auto const told = last_jump_ < most && found.instances.contains(last_jump_);
    if (!told) tell(found);
}

void cluster_clocks::excuse_told(cluster_links const& links) {
    auto* const l = links.at(last_jump_);
    if (l != nullptr) l->connection().excuse_jump();
}

void cluster_clocks::tell(cluster_links const& links, cluster_link const& of,
                          protocol::clock_reading const& reading) {
    auto const* const told = links.at(told_node_);
    if (told == nullptr || !told->up()) told_node_ = of.number();
    auto const tells = of.number() == told_node_;
    if (reading.jumped()) {
        if (tells) {
            last_jump_ = of.number();
        } else if (last_jump_ == of.number()) {
            last_jump_ = cluster_links::none;
        }
    }
    if (tells) owner_.on_clock_reading(number_, reading);
}

void cluster_clocks::tell(protocol::standstill::equal_jumps const& found) {
    last_jump_ = cluster_links::none;
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
