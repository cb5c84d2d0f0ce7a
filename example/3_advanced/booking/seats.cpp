#include "seats.hpp"

#include <holdfast/with_lock.hpp>

#include "on_pool.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <exception>
#include <optional>
#include <tuple>

namespace booking {

namespace asio = boost::asio;

namespace {

std::string name_of(int id) {
    return "seat " + std::to_string(id);
}

/// Sorts the errors of with_lock() and of its body.
outcome failed(int id, std::exception_ptr error) {
    using enum outcome::kind;
    try {
        std::rethrow_exception(error);
    } catch (holdfast::system_error const& e) {
        if (e.code() == holdfast::errc::lease_lost)
            return {lost, "the lock of " + name_of(id) + " was lost: " + e.what()};
        if (e.code() == holdfast::errc::cancelled)
            return {deadline, name_of(id) + " is busy: the deadline of the request has passed"};
        if (e.code() == holdfast::errc::shut_down) return {unavailable, "this server is ending"};
        return {unavailable, e.what()};
    } catch (store_error const& e) {
        return {unavailable, e.what()};
    }
}

outcome late(int id) {
    return {outcome::kind::lost, "a later holder of " + name_of(id) + " was here"};
}

} // namespace

std::int64_t wall_clock() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A buyer hears at once of an outage, and can try again.
holdfast::read_write_lock seats::lock_of(int id) const {
    return locks_.make_read_write_lock(
        "seat:" + std::to_string(id),
        {.ttl = settings_.ttl, .fencing = true, .on_outage = holdfast::outage_policy::fail});
}

asio::awaitable<outcome> seats::change(action wanted, int id, std::string owner,
                                       std::chrono::milliseconds limit) {
    auto const lock = lock_of(id).write();
    std::optional<outcome> ended;
    auto const section = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        ended = co_await under_lease(wanted, id, owner, lease.fence());
    };
    // The deadline cancels the wait for the lock, and the payment.
    auto const finished = co_await holdfast::with_lock(
        lock, section, asio::cancel_after(limit, asio::as_tuple(asio::deferred)));
    // The database has accepted the fence of this lease, or the seat was another's. So the result
    // stands, although the lease may have been lost since.
    if (ended) co_return *ended;
    co_return failed(id, std::get<0>(finished));
}

asio::awaitable<outcome> seats::under_lease(action wanted, int id, std::string const& owner,
                                            std::uint64_t fence) {
    auto claim = [&] { return database_.claim(id, fence); };
    auto const found = co_await on_pool(pool_, claim);
    if (!found) co_return late(id);
    if (found->sold) {
        if (found->owner == owner && wanted == action::buy)
            co_return outcome{outcome::kind::done, {}, fence};
        co_return outcome{outcome::kind::taken, name_of(id) + " is sold"};
    }
    if (found->owner != owner && found->held_until > wall_clock())
        co_return outcome{outcome::kind::taken, name_of(id) + " is held by another buyer"};

    if (wanted == action::buy) {
        // Stands for the call of a payment service. So a row lock of the database would not do: its
        // transaction would stay open meanwhile.
        asio::steady_timer payment(co_await asio::this_coro::executor, settings_.payment);
        co_await payment.async_wait();
    }
    auto const until = wanted == action::hold ? wall_clock() + settings_.hold.count() : 0;
    seat const changed{id, owner, wanted == action::buy, until, found->version + 1};
    auto write = [&] { return database_.write(changed, fence); };
    auto const written = co_await on_pool(pool_, write);
    if (!written) co_return late(id);
    co_return outcome{outcome::kind::done, {}, fence};
}

asio::awaitable<outcome> seats::look(int id, std::chrono::milliseconds limit) {
    auto const lock = lock_of(id).read();
    std::optional<outcome> ended;
    auto const section = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        auto read = [&] { return database_.read(id, lease.fence()); };
        auto const found = co_await on_pool(pool_, read);
        ended = found ? outcome{outcome::kind::done, {}, lease.fence(), *found} : late(id);
    };
    auto const finished = co_await holdfast::with_lock(
        lock, section, asio::cancel_after(limit, asio::as_tuple(asio::deferred)));
    if (ended) co_return *ended;
    co_return failed(id, std::get<0>(finished));
}

asio::awaitable<std::vector<seat>> seats::all() {
    auto read = [&] { return database_.all(); };
    co_return co_await on_pool(pool_, read);
}

} // namespace booking
