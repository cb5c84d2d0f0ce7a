#include "support/topology.hpp"

#include "support/wait.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace holdfast::test::topology {

using namespace std::chrono_literals;

namespace {

constexpr char const* replication_password = "replication-of-the-tests";

} // namespace

std::string password_for_witness(std::optional<login> const& of_servers) {
    return of_servers ? std::string{witness_password} : std::string{};
}

reply checked(redis_cli& cli, command_line const& words) {
    reply answer = cli.command(words);
    if (!answer.is_error()) return answer;
    std::string text;
    for (auto const& word : words) text += word + ' ';
    throw cli_error{text + "was refused: " + answer.error()};
}

std::string field_of(reply const& fields, std::string_view name) {
    auto const& all = fields.elements();
    for (std::size_t i = 0; i + 1 < all.size(); i += 2)
        if (all[i].string() == name) return all[i + 1].string();
    throw std::runtime_error{"a reply has no field " + std::string{name}};
}

void wait_for(std::string_view awaited, std::function<bool()> const& happened,
              std::function<std::string()> const& state, std::chrono::milliseconds timeout) {
    auto const asked = [&] {
        try {
            return happened();
        } catch (cli_error const&) {
            return false;
        }
    };
    // Not more often: the servers share the machine with those who ask.
    if (wait_until(asked, timeout, 3ms)) return;
    throw std::runtime_error{"not within " + std::to_string(timeout.count()) +
                             " ms: " + std::string{awaited} + "\n" + state()};
}

std::optional<std::int64_t> replication_offset(redis_cli& replica,
                                               std::optional<std::uint16_t> of_primary) {
    auto const role = checked(replica, {"ROLE"});
    auto const& words = role.elements();
    if (words.at(0).string() != "slave" || words.at(3).string() != "connected") return std::nullopt;
    if (of_primary && words.at(2).integer() != *of_primary) return std::nullopt;
    return words.at(4).integer();
}

void wait_until_streaming(redis_cli& primary, std::vector<redis_cli>& replicas) {
    auto const state = [&] {
        std::ostringstream text;
        text << primary.command({"ROLE"});
        for (redis_cli& replica : replicas) text << '\n' << replica.command({"ROLE"});
        return text.str();
    };
    auto const all_have = [&](std::int64_t offset) {
        return std::all_of(replicas.begin(), replicas.end(), [&](redis_cli& replica) {
            return replication_offset(replica).value_or(-1) >= offset;
        });
    };
    wait_for(
        "replicas are in sync", [&] { return all_have(0); }, state, 20s);
    checked(primary, {"FLUSHALL"}); // a write that needs no key
    auto const written = checked(primary, {"ROLE"}).elements().at(1).integer();
    // The primary may have missed that a replica has all data, and is told again after 1 s. A link
    // that comes back does not need that.
    if (wait_until([&] { return all_have(written); }, 30ms)) return;
    checked(primary, {"CLIENT", "KILL", "TYPE", "replica"});
    wait_for(
        "writes arrive at the replicas", [&] { return all_have(written); }, state, 20s);
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) != 0 || std::string_view{"-._~"}.find(c) != std::string_view::npos)
            encoded += c;
        else
            encoded += {'%', digits[byte / 16], digits[byte % 16]};
    }
    return encoded;
}

std::string url_user(std::optional<login> const& of_servers) {
    if (!of_servers) return {};
    return percent_encoded(of_servers->user) + ':' + percent_encoded(of_servers->password) + '@';
}

std::string user_line(login const& of_servers) {
    auto line = "user " + of_servers.user + " on \">" + of_servers.password + '"';
    for (auto const& rule : of_servers.rules) line += " \"" + rule + '"';
    return line + '\n';
}

std::string replication_user(std::size_t server) {
    return "replica" + std::to_string(server);
}

std::string users(std::size_t servers, std::optional<login> const& of_servers) {
    std::string lines;
    for (std::size_t i = 0; i < servers; ++i)
        lines += user_line({replication_user(i), replication_password});
    return of_servers ? lines + user_line(*of_servers) : lines;
}

std::vector<std::string> login_arguments(std::size_t server,
                                         std::optional<login> const& of_servers) {
    std::vector<std::string> all{"--masteruser", replication_user(server), "--masterauth",
                                 replication_password};
    if (of_servers) all.insert(all.end(), {"--requirepass", std::string{witness_password}});
    return all;
}

tls_setup::tls_setup(certificates const& of_servers)
    : ca_file_{folder_.write("authority.pem", of_servers.authority)}
    , certificate_file_{folder_.write("certificate.pem", of_servers.certificate)}
    , key_file_{folder_.write("key.pem", of_servers.key)} {}

std::vector<std::string> tls_setup::arguments() const {
    return {"--tls-ca-cert-file", ca_file_,  "--tls-cert-file",    certificate_file_,
            "--tls-key-file",     key_file_, "--tls-auth-clients", "no",
            "--tls-replication",  "yes"};
}

std::uint16_t port_of(server const& member, bool tls) {
    return tls ? member.port("tls-port") : member.port();
}

} // namespace holdfast::test::topology
