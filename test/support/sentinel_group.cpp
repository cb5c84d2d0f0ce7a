#include "support/sentinel_group.hpp"

#include "support/text.hpp"

#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace holdfast::test {

using namespace std::chrono_literals;
using topology::checked;
using topology::field_of;
using topology::witness_password;

namespace {

constexpr char const* host = "127.0.0.1";
constexpr auto answer_time = 10s;

std::string random_id() {
    static std::mt19937_64 random{std::random_device{}()};
    std::string id;
    while (id.size() < 40) id += "0123456789abcdef"[random() % 16];
    return id;
}

void append(std::vector<std::string>& to, std::vector<std::string> const& more) {
    to.insert(to.end(), more.begin(), more.end());
}

// Of a sentinel to a server in its list.
bool lacks_link(reply const& listed) {
    auto const flags = field_of(listed, "flags");
    return contains(flags, "s_down") || contains(flags, "disconnected");
}

} // namespace

sentinel_group::sentinel_group(sentinel_group_options options)
    : options_{std::move(options)} {
    if (options_.tls) tls_.emplace(*options_.tls);
    for (std::size_t i = 0; i < options_.sentinels; ++i) sentinel_ids_.push_back(random_id());
    // A replica that does not find its primary waits for 1 s.
    members_.push_back(std::make_unique<server>(data_options(0)));
    for (std::size_t i = 1; i <= options_.replicas; ++i) {
        server_options of_replica = data_options(i);
        auto const usual = of_replica.arguments;
        // By a file, Valkey takes 1 s to notice that the file is complete.
        append(of_replica.arguments, {"--repl-diskless-load", "on-empty-db"});
        members_.push_back(std::make_unique<server>(of_replica, server::without_waiting{}));
        members_.back()->set_arguments(usual);
    }
    for (auto const& m : members_) m->wait_ready();
    // A sentinel that sees a replica before that is in sync asks again after 1 s.
    wait_for_replicas();
    for (std::size_t i = 0; i < options_.sentinels; ++i)
        sentinels_.push_back(
            std::make_unique<server>(sentinel_options(i), server::without_waiting{}));
    for (auto const& s : sentinels_) s->wait_ready();
    for (std::size_t i = 0; i < options_.sentinels; ++i) {
        sentinel_clis_.push_back(sentinel_cli(i));
        sentinel_clis_.back().set_timeout(answer_time);
    }
    introduce_sentinels();
    wait_until_settled();
}

void sentinel_group::wait_for_replicas() {
    redis_cli primary = cli(0);
    std::vector<redis_cli> replicas;
    for (std::size_t i = 1; i < members_.size(); ++i) replicas.push_back(cli(i));
    topology::wait_until_streaming(primary, replicas);
    for (redis_cli& replica : replicas)
        replica.config("repl-diskless-load", "disabled"); // the default
}

server_options sentinel_group::data_options(std::size_t i) const {
    auto config = topology::users(1 + options_.replicas, options_.user);
    if (i != 0) config += "replicaof " + std::string{host} + ' ' + std::to_string(port(0)) + '\n';
    server_options of_member;
    of_member.kind = options_.kind;
    of_member.config = config;
    of_member.arguments = topology::login_arguments(i, options_.user);
    append(of_member.arguments, {"--repl-diskless-sync-delay", "0"});
    if (i < options_.priorities.size())
        append(of_member.arguments, {"--replica-priority", std::to_string(options_.priorities[i])});
    if (tls_) {
        append(of_member.arguments, tls_->arguments());
        of_member.extra_ports = {"tls-port"};
    }
    append(of_member.arguments, options_.data_arguments);
    of_member.shiftable_clock = options_.shiftable_clocks;
    return of_member;
}

server_options sentinel_group::sentinel_options(std::size_t i) const {
    auto const& name = options_.primary_name;
    std::ostringstream config;
    auto const address_of = [&](std::size_t member) {
        return name + ' ' + host + ' ' + std::to_string(port(member));
    };
    config << "sentinel myid " << sentinel_ids_[i] << '\n'
           << "sentinel monitor " << address_of(0) << ' ' << options_.quorum << '\n'
           << "sentinel down-after-milliseconds " << name << ' ' << options_.down_after.count()
           << '\n'
           << "sentinel failover-timeout " << name << ' ' << options_.failover_timeout.count()
           << '\n';
    if (options_.user) config << "sentinel auth-pass " << name << ' ' << witness_password << '\n';
    if (options_.sentinel_user)
        config << "sentinel sentinel-pass " << witness_password << '\n'
               << topology::user_line(*options_.sentinel_user);
    // Else a sentinel may learn them 10 s later, with its second INFO.
    for (std::size_t m = 1; m < members_.size(); ++m)
        config << "sentinel known-replica " << address_of(m) << '\n';
    server_options of_sentinel;
    of_sentinel.kind = options_.kind;
    of_sentinel.config = config.str();
    of_sentinel.arguments = {"--sentinel"};
    if (options_.sentinel_user)
        append(of_sentinel.arguments, {"--requirepass", std::string{witness_password}});
    if (tls_) {
        append(of_sentinel.arguments, tls_->arguments());
        of_sentinel.extra_ports = {"tls-port"};
    }
    append(of_sentinel.arguments, options_.sentinel_arguments);
    return of_sentinel;
}

// As sentinels do it by the servers that they watch, but at once and not every 2 s.
void sentinel_group::introduce_sentinels() {
    for (std::size_t to = 0; to < sentinels_.size(); ++to) {
        for (std::size_t from = 0; from < sentinels_.size(); ++from) {
            if (from == to) continue;
            std::ostringstream hello;
            hello << host << ',' << sentinel_port(from) << ',' << sentinel_ids_[from] << ",0,"
                  << options_.primary_name << ',' << host << ',' << port(0) << ",0";
            checked(sentinel_clis_[to], {"PUBLISH", "__sentinel__:hello", hello.str()});
        }
    }
}

std::string sentinel_group::url() const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < sentinels_.size(); ++i) all.push_back(i);
    return url(all);
}

std::string sentinel_group::url(std::vector<std::size_t> const& of_sentinels) const {
    std::string hosts;
    for (std::size_t const i : of_sentinels)
        hosts +=
            (hosts.empty() ? "" : ",") + std::string{host} + ':' + std::to_string(sentinel_port(i));
    std::string query;
    auto const add = [&](std::string const& option, std::string const& value) {
        query += (query.empty() ? '?' : '&') + option + '=' + topology::percent_encoded(value);
    };
    if (options_.sentinel_user) {
        add("sentinel_user", options_.sentinel_user->user);
        add("sentinel_password", options_.sentinel_user->password);
    }
    if (tls_) add("ca", tls_->ca_file());
    return (tls_ ? "rediss+sentinel://" : "redis+sentinel://") + topology::url_user(options_.user) +
           hosts + '/' + topology::percent_encoded(options_.primary_name) + query;
}

std::uint16_t sentinel_group::port(std::size_t of_member) const {
    return topology::port_of(*members_.at(of_member), tls_.has_value());
}

std::uint16_t sentinel_group::sentinel_port(std::size_t i) const {
    return topology::port_of(*sentinels_.at(i), tls_.has_value());
}

std::string sentinel_group::ca_file() const {
    return tls_ ? tls_->ca_file() : std::string{};
}

redis_cli sentinel_group::cli(std::size_t of_member) const {
    return redis_cli{*members_.at(of_member), topology::password_for_witness(options_.user)};
}

redis_cli sentinel_group::sentinel_cli(std::size_t i) const {
    return redis_cli{*sentinels_.at(i), topology::password_for_witness(options_.sentinel_user)};
}

bool sentinel_group::usable(server& s) const {
    return s.running() && !s.frozen();
}

std::optional<sentinel_group::named> sentinel_group::named_by(std::size_t sentinel) {
    if (!usable(*sentinels_.at(sentinel))) return std::nullopt;
    redis_cli& cli = sentinel_clis_[sentinel];
    auto const& name = options_.primary_name;
    try {
        auto const address = checked(cli, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name});
        auto const primary = checked(cli, {"SENTINEL", "MASTER", name});
        if (!address.is_array()) return std::nullopt;
        return named{static_cast<std::uint16_t>(std::stoi(address.elements().at(1).string())),
                     std::stoll(field_of(primary, "config-epoch"))};
    } catch (cli_error const&) {
        return std::nullopt;
    }
}

std::optional<sentinel_group::named> sentinel_group::majority() {
    std::map<std::pair<std::uint16_t, std::int64_t>, std::size_t> votes;
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
        auto const said = named_by(i);
        if (said && ++votes[{said->port, said->epoch}] > sentinels_.size() / 2) return said;
    }
    return std::nullopt;
}

std::size_t sentinel_group::primary() {
    if (auto const said = majority()) return member_at(said->port);
    throw std::runtime_error{"no majority of the sentinels names a primary\n" + state()};
}

std::size_t sentinel_group::member_at(std::uint16_t port_of_member) const {
    for (std::size_t i = 0; i < members_.size(); ++i)
        if (port(i) == port_of_member) return i;
    throw std::runtime_error{"no member has the port " + std::to_string(port_of_member)};
}

std::string sentinel_group::role(std::size_t of_member) const {
    redis_cli asked = cli(of_member);
    return checked(asked, {"ROLE"}).elements().at(0).string();
}

sentinel_group::named sentinel_group::wait_for_switch(named const& before, milliseconds timeout) {
    std::optional<named> now;
    topology::wait_for(
        "a majority of the sentinels names another primary",
        [&] {
            now = majority();
            return now && (now->port != before.port || now->epoch > before.epoch);
        },
        [&] { return state(); }, timeout);
    return *now;
}

// Also its links to peers and members, without which it starts no fail-over.
bool sentinel_group::sentinel_knows_all(std::size_t i) {
    redis_cli& cli = sentinel_clis_[i];
    auto const& name = options_.primary_name;
    auto const primary = checked(cli, {"SENTINEL", "MASTER", name});
    if (field_of(primary, "flags") != "master" ||
        field_of(primary, "num-other-sentinels") != std::to_string(sentinels_.size() - 1))
        return false;
    auto const primary_port = field_of(primary, "port");
    reply const peers = checked(cli, {"SENTINEL", "SENTINELS", name});
    for (auto const& peer : peers.elements()) {
        auto const peer_port = field_of(peer, "port");
        for (std::size_t p = 0; p < sentinels_.size(); ++p)
            if (std::to_string(sentinel_port(p)) == peer_port && usable(*sentinels_[p]) &&
                lacks_link(peer))
                return false;
    }
    std::size_t seen = 0;
    reply const replicas = checked(cli, {"SENTINEL", "REPLICAS", name});
    for (auto const& replica : replicas.elements()) {
        std::size_t const member =
            member_at(static_cast<std::uint16_t>(std::stoi(field_of(replica, "port"))));
        if (!usable(*members_[member])) continue;
        if (lacks_link(replica) || field_of(replica, "master-link-status") != "ok" ||
            field_of(replica, "master-port") != primary_port)
            return false;
        ++seen;
    }
    std::size_t running = 0;
    for (auto const& m : members_) running += usable(*m) ? 1U : 0U;
    return seen + 1 == running;
}

bool sentinel_group::settled() {
    auto const said = majority();
    if (!said) return false;
    std::size_t const primary = member_at(said->port);
    if (!usable(*members_[primary])) return false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        if (!usable(*members_[i])) continue;
        redis_cli asked = cli(i);
        if (i == primary ? role(i) != "master" : !topology::replication_offset(asked, said->port))
            return false;
    }
    for (std::size_t i = 0; i < sentinels_.size(); ++i)
        if (usable(*sentinels_[i]) && (named_by(i) != said || !sentinel_knows_all(i))) return false;
    return true;
}

void sentinel_group::wait_until_settled(milliseconds timeout) {
    topology::wait_for(
        "all servers agree on the primary", [&] { return settled(); }, [&] { return state(); },
        timeout);
}

void sentinel_group::begin_failover(std::size_t by_sentinel) {
    checked(sentinel_clis_.at(by_sentinel), {"SENTINEL", "FAILOVER", options_.primary_name});
}

void sentinel_group::begin_coordinated_failover(std::size_t by_sentinel) {
    checked(sentinel_clis_.at(by_sentinel),
            {"SENTINEL", "FAILOVER", options_.primary_name, "COORDINATED"});
}

void sentinel_group::cut_replication(std::size_t of_member) {
    redis_cli on_primary = cli(primary());
    auto const user = topology::replication_user(of_member);
    checked(on_primary, {"ACL", "SETUSER", user, "off"});
    checked(on_primary, {"CLIENT", "KILL", "USER", user});
}

void sentinel_group::restore_replication(std::size_t of_member) {
    redis_cli on_primary = cli(primary());
    checked(on_primary, {"ACL", "SETUSER", topology::replication_user(of_member), "on"});
}

void sentinel_group::set_priority(std::size_t of_member, int priority) {
    redis_cli on_member = cli(of_member);
    checked(on_member, {"CONFIG", "SET", "replica-priority", std::to_string(priority)});
    auto const known_by = [&](std::size_t i) {
        auto const all =
            checked(sentinel_clis_[i], {"SENTINEL", "REPLICAS", options_.primary_name});
        for (auto const& replica : all.elements())
            if (field_of(replica, "port") == std::to_string(port(of_member)))
                return field_of(replica, "slave-priority") == std::to_string(priority);
        return false;
    };
    topology::wait_for(
        "the sentinels know the priority of a replica",
        [&] {
            for (std::size_t i = 0; i < sentinels_.size(); ++i)
                if (usable(*sentinels_[i]) && !known_by(i)) return false;
            return true;
        },
        [&] { return state(); }, 20s);
}

void sentinel_group::restart_empty(std::size_t member) {
    server& of = *members_.at(member);
    of.kill();
    std::error_code ignored;
    std::filesystem::remove(of.folder() + "/dump.rdb", ignored);
    std::filesystem::remove_all(of.folder() + "/appendonlydir", ignored);
    of.restart();
}

std::string sentinel_group::state() {
    std::ostringstream text;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        text << "  member " << i << ", port " << port(i) << ": ";
        if (!usable(*members_[i])) {
            text << "killed or frozen\n";
            continue;
        }
        try {
            redis_cli asked = cli(i);
            text << asked.command({"ROLE"}) << '\n';
        } catch (cli_error const& error) {
            text << error.what() << '\n';
        }
    }
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
        text << "  sentinel " << i << ", port " << sentinel_port(i) << ": ";
        auto const said = named_by(i);
        if (!said) {
            text << "no answer\n";
            continue;
        }
        text << "names " << said->port << ", epoch " << said->epoch << '\n';
        for (char const* list : {"REPLICAS", "SENTINELS"}) {
            auto const all = sentinel_clis_[i].command({"SENTINEL", list, options_.primary_name});
            if (!all.is_array()) continue;
            for (auto const& other : all.elements())
                text << "    " << field_of(other, "port") << ' ' << field_of(other, "flags")
                     << '\n';
        }
    }
    return text.str();
}

} // namespace holdfast::test
