#include "support/fake_cluster.hpp"

#include <algorithm>
#include <chrono>

namespace holdfast::test {

namespace {

constexpr unsigned slots = 16'384;

std::string id_of(std::size_t node) {
    return std::string(39, 'a') + static_cast<char>('a' + static_cast<int>(node));
}

} // namespace

fake_cluster::fake_cluster(std::size_t size, hook answers)
    : hook_(std::move(answers))
    , owners_(slots)
    , keys_(size) {
    for (unsigned s = 0; s < slots; ++s) owners_[s] = s * size / slots;
    std::lock_guard const lock(mutex_); // no node answers before all are there
    for (std::size_t i = 0; i < size; ++i) {
        nodes_.push_back(std::make_unique<fake_server>(
            [this, i](command_line const& words) { return answer(i, words); }));
    }
}

// The answer of a node names the others.
fake_cluster::~fake_cluster() {
    for (auto const& n : nodes_) n->stop();
}

std::string fake_cluster::url() const {
    std::string text = "redis+cluster://";
    for (auto const& n : nodes_) text += (n == nodes_.front() ? "" : ",") + n->address();
    return text;
}

void fake_cluster::give(unsigned slot, std::size_t node) {
    std::lock_guard const lock(mutex_);
    owners_.at(slot) = node;
}

std::vector<std::string> fake_cluster::keys(std::size_t node) {
    std::lock_guard const lock(mutex_);
    std::vector<std::string> names;
    for (auto const& [name, value] : keys_.at(node)) names.push_back(name);
    return names;
}

std::vector<std::string> fake_cluster::history() {
    std::lock_guard const lock(mutex_);
    return history_;
}

void fake_cluster::open_gate() {
    {
        std::lock_guard const lock(mutex_);
        open_ = true;
    }
    opened_.notify_all();
}

void fake_cluster::wait_at_gate() {
    std::unique_lock lock(mutex_);
    opened_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; });
}

std::string fake_cluster::map_of_slots() {
    std::vector<std::string> ranges;
    for (unsigned first = 0; first < slots;) {
        auto last = first;
        while (last + 1 < slots && owners_[last + 1] == owners_[first]) ++last;
        auto const owner = owners_[first];
        ranges.push_back(resp::array(
            {resp::integer(first), resp::integer(last),
             resp::array({resp::bulk("127.0.0.1"), resp::integer(nodes_.at(owner)->port()),
                          resp::bulk(id_of(owner)), resp::array({})})}));
        first = last + 1;
    }
    return resp::array(ranges);
}

std::string fake_cluster::answer(std::size_t node, command_line const& words) {
    auto const is_script = is_command(words, "EVALSHA") || is_command(words, "EVAL");
    auto const key = is_script && words.size() > 4 ? words[3] : words.size() > 1 ? words[1] : "";
    {
        std::lock_guard const lock(mutex_);
        if (is_command(words, "SET") || (is_script && words.size() > 4)) {
            history_.push_back(std::to_string(node) + ' ' + words[0] + ' ' + key);
        }
        if (is_command(words, "ASKING")) history_.push_back(std::to_string(node) + " ASKING");
    }
    if (hook_) {
        if (auto told = hook_(node, words)) return *told;
    }
    std::lock_guard const lock(mutex_);
    auto& here = keys_[node];
    if (is_command(words, "HELLO")) {
        return resp::map({resp::bulk("server"), resp::bulk("redis"), resp::bulk("version"),
                          resp::bulk("7.0.15"), resp::bulk("proto"), resp::integer(3)});
    }
    if (is_command(words, "CLUSTER", "INFO")) {
        return resp::bulk("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
    }
    if (is_command(words, "CLUSTER", "NODES")) {
        std::string lines;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            lines += id_of(i) + ' ' + nodes_[i]->address() + "@1 master - 0 0 1 connected\n";
        }
        return resp::bulk(lines);
    }
    if (is_command(words, "CLUSTER", "SLOTS")) return map_of_slots();
    if (is_command(words, "CLIENT") || is_command(words, "ASKING")) return resp::simple("OK");
    if (is_command(words, "SCRIPT")) return resp::bulk(std::string(40, 'a'));
    if (is_command(words, "CONFIG") && words.back() == "cluster-node-timeout") {
        return resp::map({resp::bulk("cluster-node-timeout"), resp::bulk("15000")});
    }
    if (is_command(words, "CONFIG")) {
        return resp::map({resp::bulk("appendfsync"), resp::bulk("everysec")});
    }
    if (is_command(words, "TIME")) {
        auto const now = std::chrono::system_clock::now().time_since_epoch();
        auto const us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
        return resp::array({resp::bulk(std::to_string(us / 1'000'000)),
                            resp::bulk(std::to_string(us % 1'000'000))});
    }
    if (is_command(words, "INFO")) {
        // As young as the servers beside it: else those would have restarted.
        return resp::bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:" + std::string(39, 'f') +
                          std::to_string(node) +
                          "\r\nuptime_in_seconds:1\r\n# Replication\r\nrole:master\r\n");
    }
    if (is_command(words, "PING")) return resp::simple("PONG");
    if (is_command(words, "SET")) {
        return here.emplace(key, words.at(2)).second ? resp::simple("OK") : resp::null();
    }
    if (is_command(words, "PTTL")) return resp::integer(here.contains(key) ? 60'000 : -2);
    if (is_command(words, "TYPE")) return resp::simple(here.contains(key) ? "string" : "none");
    if (is_command(words, "GETRANGE")) return resp::bulk(here.contains(key) ? here[key] : "");
    if (is_script && words.size() == 5) { // release
        auto const found = here.find(key);
        auto const held = found != here.end() && found->second == words[4];
        if (held) here.erase(found);
        return resp::integer(held ? 1 : 0);
    }
    if (is_script && words.size() == 6) return resp::integer(here.contains(key) ? 1 : 0);
    return resp::error("NOSCRIPT no such script");
}

} // namespace holdfast::test
