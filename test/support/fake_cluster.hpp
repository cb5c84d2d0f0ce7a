// Nodes of a Cluster that answer as a test wants.
#pragma once

#include "support/fake_server.hpp"
#include "support/resp.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::test {

// Each node is a primary with an equal range of slots, and keeps keys. All nodes tell the same map.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class fake_cluster {
public:
    // Called for each command, in the thread of its node, without a lock. Empty: the node answers
    // as a server does that owns all slots.
    using hook = std::function<std::optional<std::string>(std::size_t node, command_line const&)>;

    explicit fake_cluster(std::size_t size, hook answers = {});
    ~fake_cluster();
    fake_cluster(fake_cluster const&) = delete;
    fake_cluster& operator=(fake_cluster const&) = delete;

    [[nodiscard]] std::string url() const;
    [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
    [[nodiscard]] fake_server& node(std::size_t i) { return *nodes_.at(i); }
    [[nodiscard]] std::uint16_t port(std::size_t i) const { return nodes_.at(i)->port(); }

    // By the map. At first slot s belongs to node s * size / 16384.
    void give(unsigned slot, std::size_t node);
    // Keys that a node has now.
    [[nodiscard]] std::vector<std::string> keys(std::size_t node);
    // Commands that changed or asked for keys, in order: "0 SET k", "1 EVALSHA k".
    [[nodiscard]] std::vector<std::string> history();

    // A gate that commands can wait at, in their node's thread: 10 s at most.
    void open_gate();
    void wait_at_gate();

private:
    std::string answer(std::size_t node, command_line const& words);
    std::string map_of_slots();

    hook hook_;
    std::mutex mutex_;
    std::condition_variable opened_;
    bool open_ = false;
    std::vector<std::size_t> owners_;
    std::vector<std::map<std::string, std::string>> keys_;
    std::vector<std::string> history_;
    std::vector<std::unique_ptr<fake_server>> nodes_;
};

} // namespace holdfast::test
