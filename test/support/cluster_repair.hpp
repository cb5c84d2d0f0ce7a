// Repairs a Cluster after faults, as an operator does with `redis-cli --cluster fix`.
//
// A fault in the middle of a migration leaves slots half moved: one node still imports them while
// another one owns them, or has already been replaced. The nodes then never agree on the owner, and
// a slot without an owner stops the whole Cluster. A repair starts the nodes that are down, ends
// each migration, and gives each slot one owner.
#pragma once

#include "support/cluster_group.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace holdfast::test {

// The work of a repair.
struct repair_log {
    std::vector<std::string> steps; // for people; empty if nothing was broken
    // Keys that the repair has dropped. Each is also a step. A lock that is lost this way may get a
    // second holder, and its client is not to blame.
    std::size_t lost_keys = 0;
};

// Returns when all nodes run and agree, and no slot is half moved. Throws std::runtime_error if
// that takes longer than `timeout`; the log then has the steps so far.
//
// A slot that is half moved goes to the node that imports it, together with the keys that are left
// at its owner, because clients may still use the keys that have moved. The migration is given up,
// by SETSLOT STABLE, only if no key has moved. A key that is at two nodes is dropped at one.
void repair(cluster_group& cluster, repair_log& log,
            std::chrono::milliseconds timeout = std::chrono::seconds{90});

} // namespace holdfast::test
