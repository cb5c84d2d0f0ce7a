#ifndef HOLDFAST_TESTING_INSTANCE_HPP
#define HOLDFAST_TESTING_INSTANCE_HPP

#include <holdfast/address.hpp>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// For the tests of programs that take locks. Link `holdfast::testing`.
namespace holdfast::testing {

class listener;

/// An instance inside this process, for unit tests: it needs no server, and it fails on demand.
///
/// @code
/// BOOST_AUTO_TEST_CASE(a_seat_that_somebody_else_reserves_is_refused) {
///     holdfast::testing::instance instance;
///     boost::asio::io_context context;
///     holdfast::client locks(context.get_executor(), {instance.address()});
///     bool booked = true;
///     instance.hold("seat:12");
///     boost::asio::co_spawn(context, book(locks, 12), [&](std::exception_ptr, bool result) {
///         booked = result;
///         locks.close();
///     });
///     context.run();
///     BOOST_TEST(!booked);
///     BOOST_TEST(instance.holds("seat:12"));
/// }
/// @endcode
///
/// It listens on a free port of 127.0.0.1, and clients reach it as they reach any server. So a test
/// runs the code that runs in production: connections, timeouts, wake-ups, guards. All kinds of
/// locks work on it, and so does each call of a client. For a client with a quorum, make several
/// instances.
///
/// To clients it looks like a Redis 7.0 that has run for a year, keeps its data in memory, and has
/// no replica and no password. It knows only the commands and the scripts that holdfast sends;
/// other ones get an error that names them. Keys may take 64 MiB, a command 1 MiB, and there may be
/// 1,000 connections.
///
/// After restart() or flush(), clients treat it as a server that may have lost locks: it has no
/// vote for client_options::max_ttl. So set `max_ttl` to the ttl of the test, or `on_restart` to
/// restart_policy::off.
///
/// Time is the real one. Give the lease a short `ttl` in a test in which it has to expire.
///
/// @par Thread safety  Distinct objects: safe. Shared objects: safe, but for the destructor and
///     moves. A call returns when the instance has done what it says; it waits for no client.
/// @par Lifetimes  The instance has a thread of its own, which ends in the destructor. Clients may
///     outlive it: to them it is a server that has gone. A child of fork() has no instance, and
///     must not use nor destroy the one of its parent.
class instance {
public:
    /// Listens when this returns.
    /// @throws boost::system::system_error  no free port or descriptor.
    /// @throws std::system_error  no thread.
    instance();
    /// Ends all connections.
    ~instance();
    /// The other one may only be destroyed, or assigned to.
    instance(instance&&) noexcept;
    /// Ends the connections of this one. The other one may only be destroyed, or assigned to.
    instance& operator=(instance&&) noexcept;

    /// For the client. It stays the same in all faults; no program that asks for a free port gets
    /// this one.
    holdfast::address address() const;

    // Faults

    /// Refuses connections, and cuts those that there are. Keys stay, and expire in their time.
    void down();
    /// Ends down().
    void up();
    /// Accepts connections and commands, and answers nothing. Keys expire in their time. What was
    /// sent meanwhile is executed after thaw(). Does nothing while the instance is down.
    void freeze();
    /// Ends freeze().
    void thaw();
    /// As a crash and a new start of a server that keeps nothing on a disk: all keys are lost, all
    /// connections end, and the instance is a new process to its clients. Ends down() and freeze()
    /// too.
    void restart();
    /// As FLUSHALL by another program: all keys are lost, and the clients hear of it. While the
    /// instance is frozen, they hear of it after thaw().
    void flush();

    // Other programs

    /// Another program holds the lock on this key from now on, whoever has held it, until erase()
    /// or the end of `ttl`. A client_options::key_prefix is part of the key here. Inspections name
    /// the holder "somebody-else".
    /// @param ttl  1 ms or more.
    /// @throws std::invalid_argument  `ttl` is too short or too long.
    void hold(std::string_view key, std::chrono::milliseconds ttl = std::chrono::minutes(1));
    /// As DEL by another program: the holder loses the lock, and waiters wake. The holder learns of
    /// it when it next extends its lease, within a third of its ttl. True: there was such a key.
    bool erase(std::string_view key);

    // What is there. A frozen instance and one that is down tell it too.

    /// Whether somebody holds the lock on this key.
    bool holds(std::string_view key) const;
    /// All keys, in order. Beside locks these are the counters of fences, `{key}:fence`, and the
    /// lines of fair locks, `{key}:queue` and `{key}:queue:*`, which stay for a while after a
    /// release.
    std::vector<std::string> keys() const;

private:
    std::unique_ptr<listener> listener_;
};

/// The addresses of several instances, for one client.
std::vector<holdfast::address> addresses(std::span<instance const> instances);

} // namespace holdfast::testing

#endif
