// Starts a group of servers, says which processes and folders it has, and waits to be ended.
//
// topology_host sentinel | cluster
#include "support/cluster_group.hpp"
#include "support/sentinel_group.hpp"

#include <iostream>
#include <string>

namespace {

void print(holdfast::test::server& of) {
    std::cout << of.pid() << '\n' << of.folder() << '\n';
}

void wait_for_end() {
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) continue;
}

} // namespace

int main(int count, char** arguments) {
    using namespace holdfast::test;
    std::string const kind = count == 2 ? arguments[1] : "";
    if (kind == "sentinel") {
        sentinel_group group;
        for (std::size_t i = 0; i < group.members(); ++i) print(group.member(i));
        for (std::size_t i = 0; i < group.sentinels(); ++i) print(group.sentinel(i));
        group.member(0).freeze();
        group.sentinel(2).freeze();
        wait_for_end();
    } else if (kind == "cluster") {
        cluster_group cluster;
        for (std::size_t i = 0; i < cluster.size(); ++i) print(cluster.node(i));
        cluster.node(1).freeze();
        wait_for_end();
    } else {
        std::cerr << "usage: topology_host sentinel | cluster\n";
        return 2;
    }
}
