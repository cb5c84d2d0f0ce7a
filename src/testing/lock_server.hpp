// The server without its sockets: takes the commands of its clients, and writes the bytes of
// replies and pushes for them. It answers all that the library asks a Redis 7.0, and nothing else;
// any other command or script gets an error that names it.
#ifndef HOLDFAST_TESTING_LOCK_SERVER_HPP
#define HOLDFAST_TESTING_LOCK_SERVER_HPP

#include "testing/command_reader.hpp"
#include "testing/database.hpp"
#include "testing/key_watches.hpp"
#include "testing/native_scripts.hpp"
#include "testing/reply.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::testing {

class lock_server {
public:
    struct client {
        std::uint64_t id = 0;
        std::string out{}; ///< for its connection; the owner of the connection takes it out
        std::string name{};
        int protocol = 2; ///< the version of RESP
        bool tracks = false;
        bool opts_in = false; ///< it tracks only what CLIENT CACHING announces
        bool no_loop = false; ///< it does not hear of its own changes
        bool caching = false; ///< the next command is announced
        bool is_over = false; ///< its connection must end
    };

    lock_server();

    client& connect();
    void disconnect(client&);
    std::map<std::uint64_t, client>& clients() { return clients_; }

    void execute(client&, command_line const&);

    /// Tells the clients of keys that have expired.
    void expire();
    /// Whether expire() has to be called now and then.
    bool expires() const { return database_.expires(); }

    /// The process of the server starts again, without its keys. Its connections must have ended.
    void restart();

    // For the owner of the instance, as if another client had sent it.

    reply execute(command_line const&);
    std::vector<std::string> keys();

private:
    struct command;
    static command const* find(std::string_view name);

    reply run(client&, command_line const&);
    reply hello(client&, command_line const&);
    reply auth(client&, command_line const&);
    reply ping(client&, command_line const&);
    reply select(client&, command_line const&);
    reply client_command(client&, command_line const&);
    reply tracking(client&, command_line const&);
    reply caching(client&, command_line const&);
    reply config(client&, command_line const&);
    reply info(client&, command_line const&);
    reply wait(client&, command_line const&);
    reply flushall(client&, command_line const&);
    reply flushdb(client&, command_line const&);
    reply script_command(client&, command_line const&);
    reply eval(client&, command_line const&);
    reply evalsha(client&, command_line const&);

    void update_clock();
    void on_change(std::string const& key);
    void tell(client&, std::string const& key);
    void note_read(client&, std::string const& key);

    std::map<std::uint64_t, client> clients_;
    database database_;
    key_watches watches_;
    std::set<std::string, std::less<>> scripts_; ///< digests of those that are loaded
    std::map<std::string, std::uint64_t, std::less<>> flushes_; ///< calls, by command
    client* current_ = nullptr;                                 ///< whose command is executed
    std::string pushes_after_{}; ///< for the current client, after its reply
    std::string run_id_, replication_id_;
    std::chrono::steady_clock::time_point origin_, started_;
    std::int64_t origin_ms_; ///< the wall clock at `origin_`
    std::uint64_t last_id_ = 0;
};

} // namespace holdfast::testing

#endif
