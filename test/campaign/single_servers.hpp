// The single servers of a campaign, the lines to them, and the faults of both.
#ifndef HOLDFAST_TEST_CAMPAIGN_SINGLE_SERVERS_HPP
#define HOLDFAST_TEST_CAMPAIGN_SINGLE_SERVERS_HPP

#include "campaign/faults.hpp"
#include "campaign/lines.hpp"
#include "campaign/network.hpp"
#include "support/access.hpp"
#include "support/certificates.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::campaign {

/// Each is an instance. Two of their faults may come one soon after the other.
class single_servers : public group_of_servers {
public:
    /// Every other server keeps its keys in a file. With TLS there are no lines, as a proxy does
    /// not speak it.
    single_servers(fault_context& context, std::size_t count, std::size_t clients, bool tls)
        : group_of_servers(context, clients)
        , spare_lines_(clients) {
        if (tls) {
            authority_.emplace();
            files_.write("ca.pem", authority_->certificate());
        }
        for (std::size_t i = 0; i < count; ++i)
            all_.push_back(std::make_unique<server>(options(i)));
        write_password(access::password);
        write_names();
        if (tls) return;
        spare_ = std::make_unique<server>(options(0));
        for (auto const& each : all_) {
            lines_.add(each->port());
            spare_lines_.add(spare_->port(), other_address, each->port());
        }
        spare_->kill();
    }

    /// The addresses for the clients. Without TLS, they name the servers.
    std::vector<std::string> instances() const {
        std::vector<std::string> urls;
        for (std::size_t i = 0; i < all_.size(); ++i) {
            auto const& s = all_[i];
            if (!authority_) {
                urls.push_back(access::url(name_of(i) + ':' + std::to_string(s->port())));
                continue;
            }
            auto const plain = access::url("127.0.0.1:" + std::to_string(s->port("tls-port")));
            urls.push_back("rediss" + plain.substr(plain.find(':')) +
                           "?ca=" + files_.path("ca.pem"));
        }
        return urls;
    }
    /// Where the clients read their password.
    std::string password_file() const { return files_.path("password"); }
    std::string names_file() const { return files_.path("names"); }
    std::string routes(std::size_t client) const override {
        return lines_.routes(client) + spare_lines_.routes(client);
    }
    std::vector<std::unique_ptr<server>> const& servers() const { return all_; }

    void add_faults(fault_list& list) override {
        add_ends(list);
        add_commands(list);
        add_settings(list);
        // Ahead, and the next time back: fences rest on clocks that are right within a minute.
        add(list, "server: the clock jumps", 5'000ms + end_of_lease, [this] {
            auto& s = any();
            auto const ahead = s.clock_shift() == 0ms;
            if (!ahead) return s.shift_clock(-5s);
            context_.in_window([&] { s.shift_clock(5s); });
        });
        add(list, "server: the password changes", 2 * longest_setting + end_of_lease,
            [this] { change_password(); });
        if (authority_)
            add(list, "server: the certificate changes", end_of_lease,
                [this] { change_certificate(); });
        if (authority_) return;
        add_line_faults(list, "line");
        add_name_faults(list);
    }
    void settle() override {
        if (spare_ && spare_->running()) spare_->kill();
        write_names();
        for (auto const& each : all_) context_.revive(*each);
    }

private:
    inline static std::string const other_address = "127.0.9.1", dead_address = "127.0.9.2";

    server_options options(std::size_t i) {
        server_options all;
        all.shiftable_clock = true;
        if (i % 2 == 1) all.arguments = {"--appendonly", "yes", "--appendfsync", "always"};
        if (!authority_) return all;
        all.extra_ports = {"tls-port"};
        auto const pair = certificate();
        for (std::string const& word :
             {std::string("--tls-ca-cert-file"), files_.path("ca.pem"),
              std::string("--tls-cert-file"), pair, std::string("--tls-key-file"), pair,
              std::string("--tls-auth-clients"), std::string("no")})
            all.arguments.push_back(word);
        return all;
    }
    /// A file with a new one, and its key.
    std::string certificate() {
        auto const made = authority_->issue({.names = "IP:127.0.0.1"});
        return files_.write("server-" + std::to_string(++certificates_),
                            made.certificate + made.key);
    }
    void add_ends(fault_list& list) {
        add(list, "server: freeze and thaw", longest_freeze + end_of_lease,
            [this] { context_.freeze(any()); });
        add(
            list, "server: kill and start", end_of_lease,
            [this] {
                auto& s = any();
                s.kill();
                context_.pause();
                s.restart();
            },
            true);
        add(
            list, "server: restart in a moment", end_of_lease, [this] { restart(any()); }, true);
    }
    void add_commands(fault_list& list) {
        command_fault(list, "server: connections are killed", {"CLIENT", "KILL", "TYPE", "normal"});
        command_fault(list, "server: clients are paused", {"CLIENT", "PAUSE", "900", "ALL"});
        command_fault(list, "server: all keys are deleted", {"FLUSHALL"});
        command_fault(list, "server: the database is emptied", {"FLUSHDB"});
        command_fault(list, "server: databases are swapped", {"SWAPDB", "0", "1"}, true);
    }
    void add_settings(fault_list& list) {
        setting_fault(list, "server: no memory is left", "maxmemory", "1", "0");
        setting_fault(list, "server: no further clients", "maxclients", "1", "10000");
        setting_fault(list, "server: no key can be tracked", "tracking-table-max-keys", "1",
                      "1000000");
        // G5: the policy has been set for a second before it harms.
        auto const evict = [this](server& s, runner const& in) {
            set_for_a_moment(s, {{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "1"}},
                             {{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}}, in);
        };
        add(list, "server: keys are evicted", longest_setting + end_of_lease,
            [this, evict] { evict(any(), [this](auto const& set) { context_.in_window(set); }); });
        add(list, "server: keys are evicted late", longest_outage + longest_setting + end_of_lease,
            [this, evict] {
                auto& s = any();
                evict(s, [&](auto const& set) { context_.in_window([&] { late(s, set); }); });
            });
        add(list, "server: databases are swapped late", longest_outage + end_of_lease, [this] {
            auto& s = any();
            context_.in_window([&] { late(s, [&] { ask(s, {"SWAPDB", "0", "1"}); }); });
        });
    }
    /// Runs what harms.
    using runner = std::function<void(std::function<void()> const&)>;
    static void at_once(std::function<void()> const& harm) { harm(); }
    /// The server stands still at first, as one whose disk is busy, so it does this late.
    void late(server& s, std::function<void()> const& harm) {
        s.freeze();
        auto harmed = std::async(std::launch::async, harm);
        context_.last(longest_outage);
        s.thaw();
        harmed.get();
    }
    using settings = std::vector<std::pair<std::string, std::string>>;
    /// A server that does not take its usual settings again is restarted with them.
    void set_for_a_moment(server& s, settings const& values, settings const& usual,
                          runner const& in = at_once) {
        try {
            redis_cli cli(s);
            in([&] {
                for (auto const& [option, value] : values) cli.config(option, value);
            });
            context_.pause(longest_setting);
            for (auto const& [option, value] : usual) cli.config(option, value);
        } catch (...) {
            restart(s);
            throw;
        }
    }
    static void restart(server& s) {
        s.kill();
        s.restart();
    }
    /// The server at a name dies, and the name leads to an empty one. Then the other way round. The
    /// first is dead meanwhile, and so the clients do not use two servers as one instance.
    void add_name_faults(fault_list& list) {
        add(list, "name: leads to another server", longest_outage + end_of_lease, [this] {
            auto const i = context_.draw(all_.size());
            all_[i]->kill();
            spare_->restart();
            write_names(i, other_address);
            context_.pause(longest_outage);
            spare_->kill();
            write_names();
            all_[i]->restart();
        });
        name_fault(list, "name: unknown", unknown_name);
        name_fault(list, "name: no answer", silent_name);
        name_fault(list, "name: leads nowhere", dead_address);
        name_fault(list, "name: leads nowhere first", dead_address + " 127.0.0.1");
    }
    void name_fault(fault_list& list, std::string name, std::string_view leads_to) {
        add(list, std::move(name), longest_outage + end_of_lease,
            [this, leads_to = std::string(leads_to)] {
                auto const i = context_.draw(all_.size());
                write_names(i, leads_to);
                ask(*all_[i], {"CLIENT", "KILL", "TYPE", "normal"});
                context_.pause(longest_outage);
                write_names();
            });
    }
    static std::string name_of(std::size_t i) { return "server" + std::to_string(i) + ".test"; }
    /// All names lead to their servers, but one.
    void write_names(std::size_t other = ~std::size_t{0}, std::string const& leads_to = {}) const {
        std::string text;
        for (std::size_t i = 0; i < all_.size(); ++i)
            text += name_of(i) + ' ' + (i == other ? leads_to : "127.0.0.1") + '\n';
        files_.write("names", text);
    }
    void command_fault(fault_list& list, std::string name, command_line words,
                       bool opens_window = false) {
        add(list, std::move(name), 1'000ms + end_of_lease,
            [this, words = std::move(words), opens_window] {
                auto& s = any();
                auto const send = [&] { ask(s, words); };
                opens_window ? context_.in_window(send) : send();
            });
    }
    void setting_fault(fault_list& list, std::string name, std::string option, std::string value,
                       std::string usual) {
        add(list, std::move(name), longest_setting + end_of_lease, [=, this] {
            set_for_a_moment(any(), {{option, value}}, {{option, usual}});
        });
    }
    /// All servers take the new password beside the old one, the clients read the new one, the old
    /// one goes, and the connections of one server end. Then the other way round, as a server that
    /// starts again knows the first password alone.
    void change_password() {
        std::string const first(access::password), next = "next-password";
        try {
            replace(first, next);
            context_.pause(longest_setting);
            replace(next, first);
        } catch (...) {
            write_password(first);
            for (auto const& s : all_) restart(*s);
            throw;
        }
    }
    void replace(std::string const& before, std::string const& password) {
        std::string const user(access::user);
        for (auto const& s : all_) ask(*s, {"ACL", "SETUSER", user, '>' + password});
        write_password(password);
        for (auto const& s : all_) ask(*s, {"ACL", "SETUSER", user, '<' + before});
        ask(any(), {"CLIENT", "KILL", "TYPE", "normal"});
    }
    void write_password(std::string_view password) const {
        files_.write("password", std::string(password));
    }
    void change_certificate() {
        auto& s = any();
        auto const pair = certificate();
        ask(s, {"CONFIG", "SET", "tls-cert-file", pair, "tls-key-file", pair});
        ask(s, {"CLIENT", "KILL", "TYPE", "normal"});
    }
    static void ask(server const& s, command_line const& words) {
        auto const said = redis_cli(s).command(words);
        if (said.is_error()) throw std::runtime_error(said.error());
    }
    server& any() { return *all_[context_.draw(all_.size())]; }

    swept_folder const files_;           ///< of passwords and certificates
    std::optional<authority> authority_; ///< with TLS
    int certificates_ = 0;
    std::vector<std::unique_ptr<server>> all_;
    std::unique_ptr<server> spare_; ///< runs while a name leads to it
    client_lines spare_lines_;
};

} // namespace holdfast::campaign

#endif
