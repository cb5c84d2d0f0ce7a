// The single servers of a campaign, the lines to them, and the faults of both.
#ifndef HOLDFAST_TEST_CAMPAIGN_SINGLE_SERVERS_HPP
#define HOLDFAST_TEST_CAMPAIGN_SINGLE_SERVERS_HPP

#include "campaign/faults.hpp"
#include "campaign/lines.hpp"
#include "support/access.hpp"
#include "support/certificates.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
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
        : group_of_servers(context)
        , lines_(clients) {
        if (tls) {
            authority_.emplace();
            files_.write("ca.pem", authority_->certificate());
        }
        for (std::size_t i = 0; i < count; ++i) {
            auto const& s = *all_.emplace_back(std::make_unique<server>(options(i)));
            if (!tls) lines_.add(s);
        }
        write_password(access::password);
    }

    /// The addresses for a client.
    std::vector<std::string> instances(std::size_t client) const {
        if (!authority_) return lines_.instances(client);
        std::vector<std::string> urls;
        for (auto const& s : all_) {
            auto const plain = access::url("127.0.0.1:" + std::to_string(s->port("tls-port")));
            urls.push_back("rediss" + plain.substr(plain.find(':')) +
                           "?ca=" + files_.path("ca.pem"));
        }
        return urls;
    }
    /// Where the clients read their password.
    std::string password_file() const { return files_.path("password"); }
    std::vector<std::unique_ptr<server>> const& servers() const { return all_; }

    void add_faults(fault_list& list) override {
        add_ends(list);
        add_commands(list);
        add_settings(list);
        // Ahead, and the next time back: fences rest on clocks that are right within a minute.
        add(list, "server: the clock jumps", [this] {
            auto& s = any();
            auto const ahead = s.clock_shift() == 0ms;
            if (ahead) context_.open_window();
            s.shift_clock(ahead ? 5s : -5s);
        });
        add(list, "server: the password changes", [this] { change_password(); });
        if (authority_)
            add(list, "server: the certificate changes", [this] { change_certificate(); });
        if (!authority_) add_lines(list);
    }
    void settle() override {
        for (auto const& each : all_) context_.revive(*each);
    }

private:
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
        add(list, "server: freeze and thaw", [this] { context_.freeze(any()); });
        add(list, "server: kill and start", [this] {
            auto& s = any();
            s.kill();
            context_.pause();
            s.restart();
        });
        add(list, "server: restart in a moment", [this] { restart(any()); });
    }
    void add_commands(fault_list& list) {
        command_fault(list, "server: connections are killed", {"CLIENT", "KILL", "TYPE", "normal"});
        command_fault(list, "server: clients are paused", {"CLIENT", "PAUSE", "900", "ALL"});
        command_fault(list, "server: all keys are deleted", {"FLUSHALL"});
        command_fault(list, "server: the database is emptied", {"FLUSHDB"});
        command_fault(list, "server: databases are swapped", {"SWAPDB", "0", "1"}, unannounced);
    }
    void add_settings(fault_list& list) {
        setting_fault(list, "server: no memory is left", "maxmemory", "1", "0");
        setting_fault(list, "server: no further clients", "maxclients", "1", "10000");
        setting_fault(list, "server: no key can be tracked", "tracking-table-max-keys", "1",
                      "1000000");
        add(list, "server: keys are evicted", [this] {
            auto& s = any();
            // G5: the policy has been set for a second before it harms.
            context_.open_window();
            set_for_a_moment(s, {{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "1"}},
                             {{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}});
        });
    }
    using settings = std::vector<std::pair<std::string, std::string>>;
    /// A server that does not take its usual settings again is restarted with them.
    void set_for_a_moment(server& s, settings const& values, settings const& usual) {
        try {
            redis_cli cli(s);
            for (auto const& [option, value] : values) cli.config(option, value);
            context_.pause(1'500);
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
    /// Of those of the lines between a client and some servers. What a client sent before it gave
    /// up may come later.
    void add_lines(fault_list& list) {
        line_fault(list, "line: commands come late", &proxy::hold_requests, &proxy::resume);
        line_fault(list, "line: replies come late", &proxy::hold_replies, &proxy::resume);
        line_fault(list, "line: replies are lost", &proxy::hold_replies, [](proxy& p) {
            p.cut(proxy::cut_kind::reset);
            p.resume();
        });
        line_fault(list, "line: a client is cut off", &proxy::down, &proxy::up);
        line_fault(
            list, "line: slow", [](proxy& p) { p.delay_replies(300ms); },
            [](proxy& p) { p.delay_replies(0ms); });
        line_fault(
            list, "line: pushes are lost", [](proxy& p) { p.swallow_pushes(); },
            [](proxy& p) { p.swallow_pushes(false); });
        line_fault(
            list, "line: hostile replies", [](proxy& p) { p.intercept(hostile()); },
            [](proxy& p) { p.intercept({}); });
    }
    template <class Begin, class End>
    void line_fault(fault_list& list, std::string name, Begin begin, End end) {
        list.push_back(
            {std::move(name), [this, begin, end] {
                 auto const client = context_.draw(lines_.clients());
                 auto const first = context_.draw(lines_.servers());
                 auto const count = 1 + context_.draw(lines_.servers());
                 lines_.each(client, first, count, [&](proxy& p) { std::invoke(begin, p); });
                 context_.pause(2'500);
                 lines_.each(client, first, count, [&](proxy& p) { std::invoke(end, p); });
             }});
    }
    /// Answers every third command as no server does. None is a grant: a server that lies is no
    /// fault that a quorum can bear.
    static proxy::interceptor hostile() {
        // The proxy asks a copy for each command.
        auto const asked = std::make_shared<std::size_t>(0);
        return [asked](command_line const&) -> std::optional<std::string> {
            static constexpr std::array<std::string_view, 10> replies{"-ERR hostile\r\n",
                                                                      "$-1\r\n",
                                                                      "*-1\r\n",
                                                                      "+HOSTILE\r\n",
                                                                      "*2\r\n+a\r\n-b\r\n",
                                                                      "?\r\n",
                                                                      "*0\r\n",
                                                                      "$3\r\nabcdef\r\n",
                                                                      ":-9\r\n",
                                                                      "*9999999\r\n"};
            auto const n = ++*asked;
            if (n % 3 != 0) return std::nullopt;
            return std::string(replies[n / 3 % replies.size()]);
        };
    }
    /// `length`: of the window after it, in which two may have a lock.
    void command_fault(fault_list& list, std::string name, command_line words,
                       milliseconds length = 0ms) {
        add(list, std::move(name), [this, words = std::move(words), length] {
            if (length > 0ms) context_.open_window(length);
            ask(any(), words);
        });
    }
    void setting_fault(fault_list& list, std::string name, std::string option, std::string value,
                       std::string usual) {
        add(list, std::move(name), [=, this] {
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
            context_.pause(1'500);
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
    client_lines lines_;
};

} // namespace holdfast::campaign

#endif
