#ifndef HOLDFAST_CLIENT_HPP
#define HOLDFAST_CLIENT_HPP

#include <holdfast/address.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/detail/configuration.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_token.hpp>
#include <holdfast/list_report.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/options.hpp>
#include <holdfast/read_write_lock.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdfast {

namespace detail {

/// Of texts that last as long as the range.
template <class Keys>
concept key_range =
    std::ranges::input_range<Keys> && !std::convertible_to<Keys, std::string_view> &&
    std::convertible_to<std::ranges::range_reference_t<Keys>, std::string_view> &&
    (std::is_reference_v<std::ranges::range_reference_t<Keys>> ||
     std::is_trivially_destructible_v<std::ranges::range_reference_t<Keys>>);

} // namespace detail

/// The locks of a set of independent Redis or Valkey instances. One client per process is enough:
/// all its locks share one connection to each instance.
///
/// A lock is held when a majority of the *configured* instances has granted it. So a minority may
/// be down, frozen or slow. Every client of the same locks needs the same instances.
///
/// The client connects from the start, and reconnects for as long as it lives. A call may wait for
/// the first connection to an instance, up to client_options::instance_timeout. A call does not
/// wait for an instance that is being connected again.
///
/// @par The context's work  A client has connections and timers, so `run()` of its context does not
///     return by itself while the client lives. It returns after shutdown(), drain(), close() or
///     the destructor has ended the client. Do not join a thread that runs the context before that:
///     see close_at_exit.
/// @par Lifetimes  The client, its locks and its leases may outlive the executor's context. When
///     the context is destroyed, operations under way are dropped: no handler is called, nothing is
///     sent, and keys go with their ttl. From then on no lease is held, destructors do nothing, and
///     asynchronous functions throw errc::shut_down from the call. Those that destructors of users
///     may call do not throw then: lease::release(), lease::detach(), shutdown() and drain(). Make
///     no call while another thread destroys the context.
/// @par Forks  A process that forks calls `notify_fork` of the context before and after, as Asio
///     asks. No other thread may be in a call of the client meanwhile, instances() and stats()
///     included. The locks stay the parent's, and nothing changes there. In the child the client is
///     over. Its copies of the connections are closed, it sends nothing, leases are lost, and calls
///     complete with errc::shut_down. A child that needs locks makes a client of its own. Without
///     `notify_fork` the child must not use the client or its context, and must end with `_exit` or
///     start another program. Connections are close-on-exec.
/// @par Executor  Handlers without an executor of their own run on that of the constructor. Where
///     one thread runs its context, they must not run it too: see client_options::thread_safe.
/// @par Thread safety  Safe, one object or many, unless client_options::thread_safe is off.
///     Construction and destruction are not.
/// @par Exception safety  A call that throws was not made: its handler is destroyed and not called.
///     A call that runs out of memory later completes with errc::out_of_memory, and has changed
///     nothing. If memory runs out elsewhere, a connection is lost, or the client ends as by
///     shutdown(): G30 of doc/guarantees.md. A handler that throws, or whose allocator throws, is
///     lost, and all other operations go on. As with Asio's own operations, the exception then
///     leaves through `run()` of the client's context. If several throw in one turn, the first
///     leaves; of those called in place, each.
class HOLDFAST_API client {
public:
    /// Begins to connect. `instances`: 1 to max_instances, each given once.
    /// @throws system_error  errc::invalid_options, errc::invalid_address; what() names the value.
    client(boost::asio::any_io_executor executor, std::vector<address> const& instances)
        : client(std::move(executor), instances, client_options{}) {}
    /// As above, with options.
    client(boost::asio::any_io_executor executor, std::vector<address> const& instances,
           client_options const& options)
        : client(detail::configuration(), std::move(executor), instances, options) {}

    /// A client that was moved from is like a closed one: its functions throw errc::shut_down.
    client(client&&) noexcept = default;
    /// Closes this client, as close(), and takes the other's place.
    client& operator=(client&&) noexcept;
    /// As close().
    ~client();

    /// Empty when the context has been destroyed, and for a client that was moved from.
    boost::asio::any_io_executor get_executor() const noexcept;

    /// A lock on `key`. No I/O.
    ///
    /// The client uses the key as it is (any bytes), behind client_options::key_prefix. So each
    /// Redlock on the same key of the same instances excludes this lock and is excluded.
    /// @throws system_error  errc::invalid_key, errc::invalid_options; what() names the value.
    ///     errc::shut_down for a client that was moved from.
    lock make_lock(std::string_view key) const;
    /// As above, with options of this lock. Without them the lock has the defaults of lock_options.
    lock make_lock(std::string_view key, lock_options const& options) const;

    /// A lock on 1 to max_lock_keys keys: a lease has all of them, with one deadline and one fence,
    /// or there is no lease. No I/O.
    ///
    /// Each key is held as by a lock on that key alone: locks on several keys, on one key, and of
    /// other libraries exclude each other. The order of the keys is of no meaning: no order leads
    /// to a deadlock. First the lock asks for all keys at once, in one round trip, and holds none
    /// while it waits for one. After lock_options::patience refusals it takes them one after the
    /// other, in byte order, and keeps those that it has. In this process it is first come, first
    /// served, over all keys: an acquire that comes later does not pass, also if it wants only one
    /// of the keys. An instance that has lost one of the keys does not have the lock any more, so
    /// the loss of one key is the loss of the lease.
    ///
    /// An acquire that fails or is cancelled releases the keys that it has taken by then, on every
    /// instance that may have one.
    ///
    /// Locks on one of the keys must not be fair: where processes stand in the line of a fair key,
    /// a lock on several keys gets that key only when nobody stands there.
    ///
    /// lock::key() is the common name of the keys; lock::keys() and lease::keys() give each.
    /// Needs the right to run scripts. In a Cluster the keys may have different slots.
    ///
    /// @code
    /// auto both = locks.make_multi_lock({"acct:1", "acct:2"}, {.ttl = 10s});
    /// holdfast::lease lease = co_await both.acquire();
    /// @endcode
    ///
    /// A program that holds a lock while it asks for another can deadlock, as with any two locks:
    /// ask for all keys at once, or use lock::try_acquire_for().
    /// @param options  As for make_lock(); lock_options::fair must be off.
    /// @throws system_error  As make_lock(). errc::invalid_key also for no key, more than
    ///     max_lock_keys, a key that is given twice, or one that the library uses beside another of
    ///     them (`{key}:fence`, `{key}:queue`).
    lock make_multi_lock(std::initializer_list<std::string_view> keys,
                         lock_options const& options = {}) const {
        return make_multi_lock(std::vector<std::string_view>(keys), options);
    }
    /// As above, with the keys of a range, such as `std::vector<std::string>`. The range has the
    /// strings: a range that makes each of them anew does not compile.
    template <detail::key_range Keys>
    lock make_multi_lock(Keys&& keys, lock_options const& options = {}) const {
        std::vector<std::string_view> views;
        for (auto&& key : keys) views.emplace_back(key);
        return make_multi_lock(std::move(views), options);
    }
    /// As above.
    lock make_multi_lock(std::vector<std::string_view> keys,
                         lock_options const& options = {}) const;

    /// Two locks on `key`: for readers, who share it, and for writers. No I/O.
    ///
    /// @param options  Of both. lock_options::fair must be off: writers and readers take turns
    ///     without it.
    /// @throws system_error  As make_lock().
    read_write_lock make_read_write_lock(std::string_view key,
                                         lock_options const& options = {}) const;

    /// A semaphore on `key`: up to `permits` leases at one time, over all clients. No I/O.
    ///
    /// Each acquire takes one permit. A client may hold many of them, also through one lock object;
    /// copies of the lock are the same semaphore. A permit is a lease as any other: it is extended,
    /// handed on and lost on its own. lease::slot() numbers the permits from 0, and no two leases
    /// that are valid have the same slot. So a holder can use the slot as the number of a worker,
    /// a port or a directory.
    ///
    /// The number goes with each request, and the servers keep none. To change it, make the lock
    /// again with another number. While clients differ, at most the greatest number of them hold at
    /// one time. A smaller number counts at once: the client takes no slot above it, and those that
    /// others have there are not taken away.
    ///
    /// Locks of other kinds on the same key, and those of other libraries, exclude all permits, and
    /// are excluded while one is held. Such a lock finds a key that is no lock to it
    /// (errc::wrong_type), and so does this one.
    ///
    /// lease::fence() counts for each slot: it orders the holders of one slot, and says nothing of
    /// those of another. So the resource must be that of the slot.
    ///
    /// @code
    /// auto workers = locks.make_semaphore("workers", 10, {.ttl = 10s});
    /// holdfast::lease permit = co_await workers.acquire();
    /// std::cout << "worker " << *permit.slot() << " of 10\n";
    /// @endcode
    /// @param permits  1 to max_permits.
    /// @param options  As for make_lock(); lock_options::fair must be off.
    /// @par Rights  EVALSHA or EVAL with the keys `{key}:*` beside the key, and TIME;
    ///     doc/production.md has the list. A server that refuses scripts grants no permit.
    /// @throws system_error  As make_lock(); errc::invalid_options also for a number of permits
    /// that
    ///     is out of range.
    lock make_semaphore(std::string_view key, unsigned permits,
                        lock_options const& options = {}) const;

    /// Takes over a lease that another client has acquired: proves to the instances that the key
    /// has its token, and extends the key to a whole ttl from now. The new lease has the fence of
    /// the old one. It is extended, handed on and released as any other.
    ///
    /// The first holder must have given the lease up with lease::detach(). Otherwise both processes
    /// have the lock at one time, under one fence. The first holder's release takes the lock from
    /// this process, which learns of that at its next extension. If both hand the lock on to
    /// waiters of their own, two leases may have one fence.
    ///
    /// A request of the first holder may still be under way to an instance that hangs. If it comes
    /// after the release of the new lease, the key stays there until its ttl is over.
    ///
    /// @param key  Without the client's prefix.
    /// @param token  lease::token() of the lease. Of another library: the value of the key.
    /// @param options  Of the new lease. lock_options::fencing is of no effect: `token` has the
    ///     fence.
    /// @par Handler signature  `void(error, lease)`; the lease is empty if there is an error.
    /// @par Errors
    ///   - errc::lease_lost: a majority of the instances does not have the key with this token.
    ///   - errc::contended: this client itself has the lock, or one of its keys.
    ///   - errc::no_quorum, or the code that all missing instances share: too few instances
    ///     answered. The lease may still last.
    ///   - errc::granted_too_late: the servers take longer than the ttl.
    ///   - errc::cancelled, errc::shut_down, errc::out_of_memory.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled, or with the
    ///     lease if that was proved already; total waits for the outcome. The key may have been
    ///     extended. An adoption that fails never deletes the key.
    /// @throws system_error  From the call itself: errc::invalid_key, errc::invalid_options, also
    ///     for a token that is empty or longer than max_token_size, or a fence that no lease has;
    ///     errc::shut_down as make_lock(). what() names the value, but never the token.
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto adopt(std::string_view key, lease_token const& token,
                             lock_options const& options, Token&& handler = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, lease)>(
            make_adoption(key, token, options), handler);
    }
    /// As above, with the keys and the options of a lock. The only way for a lock on several keys,
    /// for a semaphore, whose token has a slot, and for readers and writers. The lease of a reader
    /// that is lease_token::shared is shared with nobody of this process. Its release sends nothing
    /// and leaves the key to its ttl; it is confirmed() if the lease lasted until then.
    /// @throws system_error  As above; errc::invalid_options also for a semaphore with a token
    ///     without a slot, for another lock with a token that has one, and for a token that is
    ///     `shared` with a lock that is no read_write_lock::read().
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto adopt(lock const& of, lease_token const& token, Token&& handler = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, lease)>(make_adoption(of, token),
                                                                      handler);
    }
    /// As above, with a ttl and else the default options.
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto adopt(std::string_view key, lease_token const& token,
                             std::chrono::milliseconds ttl, Token&& handler = {}) const {
        return adopt(key, token, lock_options{.ttl = ttl}, std::forward<Token>(handler));
    }

    /// Asks all instances for a key: whether it is locked, by whom, and for how long. Takes no
    /// lock, and disturbs neither holders nor waiters. "Free" is never said because instances are
    /// missing: that is key_state::unknown.
    ///
    /// The instances need the rights to PTTL, TYPE, GETRANGE and, for the fence, GET; for readers
    /// and waiting writers, also TIME, ZCARD, ZRANGE and the keys beside the key. Without one of
    /// them the report lacks what the command tells.
    ///
    /// @param key  Without the client's prefix.
    /// @par Handler signature  `void(error, key_report)`
    /// @par Errors  errc::cancelled, errc::shut_down, errc::out_of_memory. An outage is no error:
    ///     the report has each instance. The call completes within twice
    ///     client_options::instance_timeout.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled. The key is as
    ///     it was in any case.
    /// @throws system_error  From the call itself: errc::invalid_key; errc::shut_down for a client
    ///     that was moved from, or when the context has been destroyed.
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto inspect(std::string_view key, Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(
            detail::initiate_inspect{{make_state(key)}}, token);
    }

    /// Waits until an inspection of the key shows something other than `last`: another state, or at
    /// an instance another answer, token, fence, reader or waiting writer. The rest of the ttl
    /// alone is no change, nor is the turn of the readers. Of more readers than a report shows,
    /// only their number counts. An instance that goes down or comes back is a change.
    ///
    /// The call keeps nothing of an earlier call. It inspects the key first, and compares. So this
    /// loop misses no change that lasts:
    ///
    /// @code
    /// auto seen = co_await locks.inspect("seat:7");
    /// for (;;) {
    ///     std::cout << seen << '\n';
    ///     seen = co_await locks.wait_change("seat:7", seen);
    /// }
    /// @endcode
    ///
    /// The servers push changes of the key (CLIENT TRACKING). The client inspects the key after a
    /// push, and at most a hundred times a second, so of faster changes it tells the last. An
    /// instance that does not push is asked every 250 ms. The client also inspects when a key
    /// expires, when an instance goes or comes, and every 10 s. A change of the fence alone may be
    /// told as late as that, and so may a reader who joins others or leaves them, and a writer who
    /// begins to wait.
    ///
    /// Takes no lock, and takes no part in the queue of the key. Calls for one key share their
    /// inspections.
    ///
    /// The instances need the rights that inspect() needs; for pushes, those of waiters.
    ///
    /// @param key  Without the client's prefix.
    /// @param last  The report that the caller knows. An empty report differs from each inspection.
    /// @par Handler signature  `void(error, key_report)`
    /// @par Errors  errc::cancelled, errc::shut_down, errc::out_of_memory. An outage is no error:
    ///     the report has each instance.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled. The key is as
    ///     it was in any case.
    /// @throws system_error  As inspect().
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_change(std::string_view key, key_report const& last,
                                   Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(
            detail::initiate_wait_change{{make_state(key)}, share(last)}, token);
    }

    /// Ends the lock of a program that cannot do so itself, by its token. Each instance deletes the
    /// key if the key has this token, as lease::release() does. So the lock of another holder is
    /// safe. An instance that cannot be reached gets the release when it is back, if that is within
    /// client_options::max_ttl and the client lives.
    ///
    /// A holder that lives is not asked. It learns of the release as force_release() says.
    ///
    /// @param key  Without the client's prefix.
    /// @param holder_token  The value of the key: a secret. No message shows it.
    /// @par Handler signature  `void(error)`; no error means that an instance deleted the key, and
    ///     that a quorum does not have it with this token any more.
    /// @par Errors
    ///   - errc::lease_lost: a quorum does not have the key with this token. It expired, it was
    ///     released, another client has the lock, or the token never was that of the key.
    ///   - errc::no_quorum, or the cause that the instances share: too few instances confirmed it.
    ///     The report has each instance.
    ///   - errc::shut_down, errc::out_of_memory.
    /// @par Cancellation  None. The call completes within client_options::instance_timeout.
    /// @throws system_error  As inspect(); errc::invalid_options for an empty token.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto release(std::string_view key, std::string_view holder_token,
                               Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error)>(make_release(key, holder_token),
                                                               token);
    }
    /// As above, with the key of a lock. The only way for the token of a reader, and for a writer
    /// it lets the readers that wait go first, as lease::release() does. A reader that is
    /// lease_token::shared ends for all that share it.
    ///
    /// @throws system_error  As above; errc::invalid_options for a lock on several keys: release
    ///     each of them.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto release(lock const& of, std::string_view holder_token,
                               Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error)>(make_release(of, holder_token),
                                                               token);
    }

    /// Ends the lock of any holder. Inspects the key, and then each instance deletes the key if it
    /// still has the token that the inspection saw there. So the lock of a client that acquired it
    /// meanwhile is safe.
    ///
    /// **This breaks mutual exclusion if the holder lives.** The holder is not asked. It learns of
    /// the loss at its next extension, at most a third of its ttl later; without a watchdog, when
    /// its lease ends. Until then two clients may believe that they hold the lock. Only a resource
    /// that checks fences rejects the writes of the former holder. revoke() waits for the holder's
    /// deadline instead.
    ///
    /// Waiters get the key as after a release. A key that is no lock, or whose value is longer than
    /// a token, is never deleted. **With readers, all of them lose the lock**, also one that came
    /// after the inspection. So it is with the holders of the permits of a semaphore.
    ///
    /// @param key  Without the client's prefix.
    /// @par Handler signature  `void(error, key_report)`: the key as it was before. With
    ///     key_state::free and no error, there was nothing to release.
    /// @par Errors  All but the first three come with the report.
    ///   - errc::cancelled, errc::shut_down, errc::out_of_memory.
    ///   - errc::lease_lost: nothing was deleted, because each token that was seen had gone: the
    ///     holder released, its key expired, or another client has the lock.
    ///   - errc::wrong_type: the key is no lock at so many instances that no quorum is left.
    ///   - errc::no_quorum: of too few instances it is known that they do not have the key with the
    ///     token seen. The other instances deleted it.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled while the
    ///     inspection is under way; then the key is as it was. Later cancellations have no effect.
    /// @throws system_error  As inspect().
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto force_release(std::string_view key, Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(
            detail::initiate_force_release{{make_state(key)}, nullptr}, token);
    }

    /// The same, but of a lock that the caller has seen: only the tokens that `seen` shows are
    /// deleted. So time may pass between the inspection and the decision of a person. If other
    /// tokens are there now, or readers or permits that `seen` does not show, the call ends with
    /// errc::lease_lost.
    ///
    /// @param seen  Of inspect() or wait_change(), for the same key.
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto force_release(std::string_view key, key_report const& seen,
                                     Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(
            detail::initiate_force_release{{make_state(key)}, share(seen)}, token);
    }

    /// Takes the lock from the holder that `seen` shows, without breaking mutual exclusion. Nobody
    /// else loses a lock: not a client that has acquired it since.
    ///
    /// Where the key has the holder's token, each instance replaces the token by a *tombstone*,
    /// which names this client (client_options::holder_label), and keeps the key's time to live. So
    /// the holder cannot extend its lease any more, and nobody gets the key before it would have
    /// expired without an extension. That is after the holder's last deadline. A tombstone goes by
    /// itself at that time. Until then acquires are refused, their reports name the holder
    /// `revoked@LABEL`, and inspect() says key_state::revoked. A key that never expires stays
    /// closed until somebody calls force_release().
    ///
    /// The holder is not asked. It learns of the loss at its next extension, at most a third of its
    /// ttl later: lease_end::revoked, and lease::revoked_by() has the label. Without a watchdog, or
    /// if it is stopped, its lease ends at its deadline. Whatever the holder does, extend, heal or
    /// release, it does not touch a tombstone.
    ///
    /// If `seen` is held by readers, all that it shows are revoked. Writers then wait for their
    /// times, and other readers go on. Of a semaphore, all permits that it shows are revoked, and
    /// their slots stay closed for their times.
    ///
    /// A second call completes a revocation that has reached too few instances, and changes nothing
    /// if it is complete: an instance with the tombstone counts as done.
    ///
    /// The instances need the rights of inspect(), and those to run a script with GET and SET; for
    /// readers and permits GET, ZSCORE, ZADD and ZREM. Redis 6.0 or later.
    ///
    /// @param seen  Of inspect() or wait_change() of a client with the same prefix. Its state is
    ///     key_state::held or key_state::revoked.
    /// @par Handler signature  `void(error, key_report)`: the key as it is after the call. `found`
    ///     of each instance tells whether it has the tombstone, another token or no key. ttl_left
    ///     says for how long the key stays closed.
    /// @par Errors  All but the first three come with the report.
    ///   - errc::cancelled, errc::shut_down, errc::out_of_memory.
    ///   - errc::lease_lost: no instance has the holder's token or its tombstone: the holder
    ///     released, its key expired, or another client has the lock.
    ///   - errc::wrong_type: the key is no lock at so many instances that no quorum is left.
    ///   - errc::no_quorum, or the code that all missing instances share, such as
    ///     errc::access_denied: of too few instances it is known that the holder cannot extend
    ///     there. The other instances have the tombstone, and keep it. The holder may go on. So may
    ///     a reader at an instance with more than key_answer::max_readers, which are not all shown.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled while the
    ///     instances are asked for the key; then the key is as it was. Later cancellations have no
    ///     effect.
    /// @throws system_error  As inspect(). errc::invalid_options if `seen` shows no holder;
    ///     errc::invalid_key if its key has another prefix than the client's.
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto revoke(key_report const& seen, Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(make_revocation(seen),
                                                                           token);
    }
    /// The same for the holder whose token has this digest, such as one of several readers or
    /// permits (key_user::digest).
    ///
    /// @param key  Without the client's prefix.
    /// @param digest  key_report::digest, key_answer::digest or key_user::digest.
    /// @throws system_error  As inspect(). errc::invalid_options if `digest` is none.
    template <
        boost::asio::completion_token_for<void(error, key_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto revoke(std::string_view key, std::string_view digest,
                              Token&& token = {}) const {
        checked_executor();
        return boost::asio::async_initiate<Token, void(error, key_report)>(
            make_revocation(key, digest), token);
    }

    /// Lists the keys that begin with a prefix, without taking or disturbing a lock. Asks each
    /// instance, and each primary of a Cluster, for its keys (SCAN), a hundred at a time, and joins
    /// what they have. inspect() tells for a key whether it is held: a key may be left over, or
    /// expire meanwhile.
    ///
    /// The list has names of strings, since a lock is one, and the keys of semaphores of which a
    /// permit is taken. It leaves out the names that the library gives to keys beside a lock, which
    /// have `:fence`, `:queue`, `:readers`, `:intent`, `:turn`, `:until` or `:fences` behind a hash
    /// tag. A string of another program looks like a lock, and so does the mark `KEY:last` of
    /// at_most_every().
    ///
    /// A key that is there from the first to the last question is found. One that comes or goes
    /// meanwhile, or migrates in a Cluster, may be missed. A lock that is held is on a quorum. So
    /// it is found as long as the instances that were not scanned to the end are fewer than a
    /// quorum, and it lasts: list_report::instances names them.
    ///
    /// A server with names so long that a hundred of them have more than 1 MiB loses the connection
    /// when it answers, and is not scanned to the end.
    ///
    /// SCAN looks at every key of a server, not only at those with the prefix. So a server with a
    /// million keys takes 10,000 round trips, one after the other: give the call the time.
    ///
    /// The instances need the right to SCAN, which only this call uses. It shows the names of all
    /// keys of the server, whatever patterns the user may access.
    ///
    /// @param prefix  Behind client_options::key_prefix. Empty: all keys with that prefix. Each
    ///     character stands for itself, also `*` and `?`.
    /// @param options  The limits of the call. It reports what it has found when it reaches one.
    /// @par Handler signature  `void(error, list_report)`
    /// @par Errors  errc::cancelled, errc::shut_down, errc::out_of_memory. An outage is no error,
    ///     nor is a limit: the report says which instance was not scanned to the end, and why.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled. Nothing changes
    ///     on the instances in any case.
    /// @throws system_error  From the call itself: errc::invalid_key for a prefix that is longer
    ///     than a key; errc::invalid_options; errc::shut_down for a client that was moved from, or
    ///     when the context has been destroyed. what() names the value.
    template <
        boost::asio::completion_token_for<void(error, list_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto list(std::string_view prefix, list_options const& options,
                            Token&& token = {}) const {
        auto const& executor = checked_executor();
        check_list(prefix, options);
        return boost::asio::async_initiate<Token, void(error, list_report)>(
            detail::initiate_list{{engine_, executor}}, token, std::string(prefix), options);
    }
    /// As above, with the default limits.
    template <
        boost::asio::completion_token_for<void(error, list_report)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto list(std::string_view prefix, Token&& token = {}) const {
        return list(prefix, list_options{}, std::forward<Token>(token));
    }

    /// Waits until the client can lock: a quorum of the instances is connected, and has a vote. For
    /// the start of a program, before it says that it is ready. Locks need no such call: they wait
    /// for instances by themselves.
    ///
    /// @param limit  wait_for(5s), for example; try_now: says how it is now.
    /// @par Handler signature  `void(error)`
    /// @par Errors
    ///   - errc::no_quorum, or the code that all missing instances share
    ///     (error_condition::unavailable): too few instances were ready at the limit. Before that,
    ///     if the errors of so many are permanent that no quorum is left, such as a wrong password.
    ///     The report has each instance.
    ///   - errc::cancelled, errc::shut_down, errc::out_of_memory.
    /// @par Cancellation  total, partial, terminal: the wait ends, and nothing else changes.
    /// @throws system_error  From the call itself: errc::shut_down for a client that was moved
    ///     from, or when the context has been destroyed.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_ready(wait_limit limit, Token&& token = {}) {
        auto const& executor = checked_executor();
        return boost::asio::async_initiate<Token, void(error)>(
            detail::initiate_wait_ready{{engine_, executor}}, token, limit);
    }
    /// As above, without a limit.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_ready(Token&& token = {}) {
        return wait_ready(no_limit, std::forward<Token>(token));
    }

    /// Ends the client. New and waiting acquires complete with errc::shut_down, leases are lost and
    /// released, then the connections are closed.
    ///
    /// @par Handler signature  `void(error)`, without error: it cannot fail.
    /// @par Executor  When the context has been destroyed the client has ended already. The handler
    ///     is called on an executor of its own. A handler without one is destroyed and not called.
    /// @par Cancellation  None. It ends by itself within twice client_options::instance_timeout. An
    ///     instance that does not answer in that time, or refuses the release, keeps its keys until
    ///     they expire.
    /// @throws system_error  From the call itself: errc::shut_down for a client that was moved
    ///     from.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto shutdown(Token&& token = {}) {
        auto const& executor = own_executor();
        return boost::asio::async_initiate<Token, void(error)>(
            detail::initiate_shutdown{{engine_, executor}}, token);
    }

    /// Ends the client when all holders have finished, for example on SIGTERM. New and waiting
    /// acquires complete with errc::shut_down at once. Leases that are held go on: the watchdog
    /// extends them until their holders release or destroy them, and sections run to their ends.
    /// After the last lease, or after `limit`, the rest is as shutdown(): a lease that is left is
    /// lost.
    ///
    /// If several drains are under way, the earliest limit counts. shutdown(), close() and the
    /// destructor end a drain at once.
    ///
    /// @param limit  Zero or less: as shutdown().
    /// @par Handler signature  `void(error)`; no error means that every holder has finished.
    /// @par Errors
    ///   - errc::wait_timeout: leases were left after `limit`, and are lost.
    ///   - errc::shut_down: a shutdown came before the limit; the leases that were left are lost.
    ///     So it ends, too, when the context has been destroyed.
    ///   - errc::lease_lost: no lease is left, and one was lost during the drain.
    ///   - errc::cancelled.
    ///
    /// The call completes within `limit` and twice client_options::instance_timeout in any case.
    /// @par Executor  As shutdown().
    /// @par Cancellation  total, partial, terminal: the wait ends; the drain goes on.
    /// @throws system_error  As shutdown().
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto drain(std::chrono::nanoseconds limit, Token&& token = {}) {
        auto const& executor = own_executor();
        return boost::asio::async_initiate<Token, void(error)>(
            detail::initiate_drain{{engine_, executor}}, token, limit);
    }

    /// Begins a shutdown() and returns at once. Does nothing for a client that is closed or was
    /// moved from, or whose context has been destroyed. Cannot run out of memory.
    void close() noexcept;

    /// Each instance as it is now, in the order of the constructor. None when the context has been
    /// destroyed.
    /// @throws system_error  errc::shut_down for a client that was moved from.
    std::vector<instance_status> instances() const;
    /// Counters since the client was made, and its present numbers.
    /// @throws system_error  As instances().
    client_stats stats() const;

private:
    client(detail::configuration, boost::asio::any_io_executor executor,
           std::vector<address> const& instances, client_options const& options);

    runtime::engine& checked() const;
    /// Checks the key and the options.
    detail::lock_parts parts_of(std::string_view key, lock_options const&) const;
    /// Checks the key. Calls on a key need no options.
    detail::lock_parts parts_of(std::string_view key) const;
    detail::lock_state_ptr make_state(std::string_view key) const;
    /// Checks everything.
    detail::initiate_adopt make_adoption(std::string_view key, lease_token const&,
                                         lock_options const&) const;
    static detail::initiate_adopt make_adoption(lock const& of, lease_token const&);
    /// Checks the token, too.
    static detail::initiate_release_key make_release(lock const& of, std::string_view holder_token);
    detail::initiate_release_key make_release(std::string_view key,
                                              std::string_view holder_token) const;
    detail::initiate_revoke make_revocation(key_report const& seen) const;
    detail::initiate_revoke make_revocation(std::string_view key, std::string_view digest) const;
    /// Checks everything.
    void check_list(std::string_view prefix, list_options const&) const;
    static detail::key_report_ptr share(key_report const& r) {
        return std::make_shared<key_report const>(r);
    }
    /// Empty when the context has been destroyed. Throws for a client that was moved from.
    boost::asio::any_io_executor const& own_executor() const;
    /// The same, and throws when the context has been destroyed.
    boost::asio::any_io_executor const& checked_executor() const;

    std::shared_ptr<runtime::engine> engine_;
};

/// Closes a client at the end of a scope. A thread that runs the client's context ends only after
/// the client. So where one scope has a context, a client and a thread that joins, declare this
/// object after the thread:
///
/// @code
/// boost::asio::io_context context;
/// holdfast::client locks(context.get_executor(), instances);
/// std::jthread thread([&] { context.run(); });
/// holdfast::close_at_exit closes(locks);
/// @endcode
class [[nodiscard]] close_at_exit {
public:
    /// Keeps a reference: the client has to outlive this object.
    explicit close_at_exit(client& c) noexcept
        : client_(c) {}
    /// Calls client::close().
    ~close_at_exit() { client_.close(); }
    close_at_exit(close_at_exit const&) = delete;
    close_at_exit& operator=(close_at_exit const&) = delete;

private:
    client& client_;
};

} // namespace holdfast

#endif
