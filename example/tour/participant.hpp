// A client of holdfast in a story.
#ifndef HOLDFAST_TOUR_PARTICIPANT_HPP
#define HOLDFAST_TOUR_PARTICIPANT_HPP

#include <holdfast/client.hpp>

#include "tour/command_log.hpp"
#include "tour/journal.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tour {

/// Its process runs only inside the calls below. Between them it stands still, as a process does
/// that is stopped.
class participant {
public:
    using predicate = std::function<bool()>;

    /// The journal shows the commands of these servers after each call.
    participant(journal& to, std::vector<command_log*> logs, std::string name,
                std::vector<holdfast::address> const& instances,
                holdfast::client_options options = {});

    /// Waits for the lock. Throws std::runtime_error if the acquire fails.
    holdfast::lease acquire(std::string_view key, holdfast::lock_options const& options);
    std::pair<holdfast::error, holdfast::lease> try_acquire(std::string_view key,
                                                            holdfast::lock_options const& options);
    /// The same, again and again until the instances are reached.
    std::pair<holdfast::error, holdfast::lease>
    try_past_outage(std::string_view key, holdfast::lock_options const& options);
    holdfast::release_result release(holdfast::lease& held);

    /// A call whose end the story awaits later, by finish().
    struct attempt {
        bool done = false;
        holdfast::error how;
        holdfast::lease held;
    };
    std::shared_ptr<attempt> begin_try(std::string_view key, holdfast::lock_options const& options);
    void finish(attempt const& of);
    struct giving_back {
        bool done = false;
        holdfast::release_result how;
    };
    std::shared_ptr<giving_back> begin_release(holdfast::lease& held);
    void finish(giving_back const& of);

    /// Runs the process until `happened()`. Throws std::runtime_error, which names what is awaited,
    /// if that takes too long.
    void run_until(std::string_view awaited, predicate const& happened,
                   std::chrono::seconds limit = std::chrono::seconds(60));
    /// Until so many instances have votes.
    void connect(std::size_t instances = 1);

    /// The process ends at once: nothing more is sent.
    void crash();

private:
    void show_commands();
    void show_result(std::string_view call, holdfast::error const& e);

    journal& journal_;
    std::vector<command_log*> logs_;
    std::string name_;
    std::unique_ptr<boost::asio::io_context> context_;
    std::unique_ptr<holdfast::client> client_;
};

/// Waits for an event that is no client's. Throws as participant::run_until.
void wait_for(std::string_view awaited, participant::predicate const& happened,
              std::chrono::seconds limit = std::chrono::seconds(60));

} // namespace tour

#endif
