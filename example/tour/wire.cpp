#include "tour/wire.hpp"

namespace tour {

wire::wire(journal& to, std::string client, std::uint16_t port, milliseconds timeout,
           std::string password)
    : journal_(to)
    , client_(std::move(client))
    , cli_(port, std::move(password), timeout) {}

reply wire::send(command_line const& words) {
    if (auto stop = stops_.extract(words.front())) stop.mapped()();
    try {
        auto answer = cli_.command(words);
        journal_.command(client_, words, answer);
        return answer;
    } catch (holdfast::test::cli_timeout const&) {
        journal_.unanswered(client_, words, "no answer in time");
        throw;
    } catch (holdfast::test::cli_error const&) {
        journal_.unanswered(client_, words, "no connection");
        throw;
    }
}

void wire::pause_before(std::string const& command, std::function<void()> meanwhile) {
    stops_[command] = [this, command, meanwhile = std::move(meanwhile)] {
        journal_.line(client_, "is stopped before " + command);
        meanwhile();
        journal_.line(client_, "goes on");
    };
}

void wire::crash_before(std::string const& command) {
    stops_[command] = [this, command] {
        journal_.line(client_, "crashes before " + command);
        cli_.disconnect();
        throw crashed{};
    };
}

} // namespace tour
