// The commands that a server has executed, for the journal.
#ifndef HOLDFAST_TOUR_COMMAND_LOG_HPP
#define HOLDFAST_TOUR_COMMAND_LOG_HPP

#include "support/redis_cli.hpp"
#include "tour/journal.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tour {

/// Reads MONITOR, for the commands of holdfast's clients that name a key. The name of such a client
/// in the story is its client_options::connection_name.
class command_log {
public:
    struct entry {
        std::string time; ///< with a fixed number of digits
        std::string client;
        command_line words;
    };

    /// `asks` is another connection to the same server. `place` follows the names of the clients.
    command_log(holdfast::test::redis_cli listens, holdfast::test::redis_cli asks, std::string key,
                std::string place = {});

    /// All that the server has executed until now, but for those that an earlier call has returned.
    /// A server that does not answer has executed nothing.
    std::vector<entry> take();

private:
    void listen();
    void learn_names();
    void add_line(std::string_view line, std::vector<entry>& to);

    holdfast::test::redis_cli listens_;
    holdfast::test::redis_cli asks_;
    std::string key_;
    std::string place_;
    std::map<std::string, std::string, std::less<>> names_; ///< by the address of the connection
    std::string runs_script_; ///< the client of the script that the server executes
    int taken_ = 0;
    bool listening_ = false;
};

/// Shows the new commands of all these servers, in their order in time.
void show(journal& in, std::vector<command_log*> const& logs);

} // namespace tour

#endif
