// Requests and their answers.
#ifndef BOOKING_ROUTES_HPP
#define BOOKING_ROUTES_HPP

#include "http_session.hpp"
#include "metrics.hpp"
#include "seats.hpp"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace booking {

/// @par Thread safety  Safe.
class routes {
public:
    /// `deadline`: of requests without their own.
    routes(seats& all, metrics& figures, holdfast::client const& locks,
           std::chrono::milliseconds deadline)
        : seats_(all)
        , metrics_(figures)
        , locks_(locks)
        , deadline_(deadline) {}

    boost::asio::awaitable<response> answer(request const& asked);

private:
    struct routed;

    boost::asio::awaitable<routed> route(request const& asked);
    std::optional<int> seat_of(std::string const& number, response& problem) const;
    std::optional<std::chrono::milliseconds> limit_of(request const& asked,
                                                      response& problem) const;
    boost::asio::awaitable<response> look(request const& asked, std::string const& number);
    boost::asio::awaitable<response> change(request const& asked, std::string const& number,
                                            action wanted);
    boost::asio::awaitable<response> list();
    response health() const;

    seats& seats_;
    metrics& metrics_;
    holdfast::client const& locks_;
    std::chrono::milliseconds deadline_;
};

} // namespace booking

#endif
