// The stage of the rows that need one server.
#ifndef HOLDFAST_TOUR_SINGLE_SERVER_HPP
#define HOLDFAST_TOUR_SINGLE_SERVER_HPP

#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "tour/command_log.hpp"
#include "tour/journal.hpp"
#include "tour/participant.hpp"
#include "tour/wire.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace tour {

inline constexpr auto seat = "seat:12";

/// For locks that outlast the story.
inline constexpr std::chrono::milliseconds long_ttl(60'000);

struct single_server {
    explicit single_server(journal& to)
        : story(to) {}

    wire older_client(std::string name) { return {story, std::move(name), instance.port()}; }
    participant client(std::string name, holdfast::client_options const& options = {}) {
        return client_at(instance.url(), std::move(name), options);
    }
    participant client_at(std::string const& url, std::string name,
                          holdfast::client_options const& options = {}) {
        return {story, {&log}, std::move(name), {url}, options};
    }

    /// Until the server has deleted the key of its own accord.
    void wait_for_expiry() {
        wait_for("the expiry of the key", [&] { return !witness.exists(seat); });
        story.note("the key expires");
    }
    /// The time of the server, not of this process.
    void pass(std::chrono::milliseconds time) {
        witness.set("hourglass", "", time);
        wait_for("the end of the time", [&] { return !witness.exists("hourglass"); });
        story.note(std::to_string(time.count()) + " ms pass");
    }
    std::chrono::milliseconds pttl() {
        auto const left = witness.pttl(seat);
        story.note("PTTL seat:12 is " + std::to_string(left.count()));
        return left;
    }
    /// The value of the key, as proof of its owner.
    std::string value() { return witness.get(seat).value_or("no key"); }
    void restart_empty() {
        instance.kill();
        instance.restart();
        log.take(); // ends the old connection
        log.take();
        story.note("the server crashes, and starts again without its data");
    }
    void begin_with_holdfast() {
        witness.del(seat);
        story.section("The same schedule with holdfast");
    }

    journal& story;
    holdfast::test::server instance{};
    holdfast::test::redis_cli witness{instance};
    command_log log{holdfast::test::redis_cli(instance), holdfast::test::redis_cli(instance), seat};
};

} // namespace tour

#endif
