#ifndef HOLDFAST_READ_WRITE_LOCK_HPP
#define HOLDFAST_READ_WRITE_LOCK_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/lock.hpp>

#include <string_view>
#include <utility>

namespace holdfast {

/// Two locks on one key: many holders may read at one time, and one writes alone. Made by
/// client::make_read_write_lock().
///
/// @code
/// holdfast::read_write_lock page = locks.make_read_write_lock("page:7");
/// holdfast::lease r = co_await page.read().acquire();
/// holdfast::lease w = co_await page.write().acquire();
/// @endcode
///
/// Both are a holdfast::lock, with all its functions. A writer's lease can become a reader's
/// without a gap: lease::downgrade(). There is no way back: two readers that both waited for it
/// would wait for each other.
///
/// **Who is excluded.** A writer has the key as any Redlock has it, with its token as the value.
/// While there are readers, the key holds a value that is nobody's token. So locks of
/// client::make_lock() on the same key, locks on several keys, and those of other libraries exclude
/// readers and writers, and are excluded. Such a lock does not keep new readers waiting, so readers
/// who always overlap can starve it: use write().
///
/// **Fairness.** A writer that waits leaves a note on the instances, and then new readers wait
/// until it has had its turn. After a writer, the readers that wait come before the next writer. In
/// this process it is first come, first served, and readers that stand next to each other get the
/// lock together. A writer or a reader that does not wait (lock::try_acquire()) leaves no note.
///
/// **Readers of one process** share one reader on the servers: while there is one, the next reader
/// gets its lease without I/O. After some time, five times that of its acquire and at most 50 ms,
/// the next one asks the instances again, as a writer may wait. Each has a lease of its own. The
/// calls that concern the keys on the servers concern all that share: see lease::extend(),
/// lease::extend_while(), lease::detach() and lease::token(). A reader with lock_options::max_hold
/// or without a watchdog shares with nobody.
///
/// **Fences** (lock_options::fencing). A writer's fence is greater than those of all writers and
/// readers that held the lock before. A reader's fence is greater than those of all writers before,
/// and less than those of all writers after. Readers may have equal fences. A resource asks
/// fence_gate::admit() for a write and fence_gate::admit_shared() for a read.
///
/// @par Rights  EVALSHA or EVAL with the keys `{key}:*` beside the key, and TIME; doc/production.md
///     has the list. A server that refuses scripts grants no such lock.
/// @par Thread safety  As lock.
class HOLDFAST_API read_write_lock {
public:
    /// Of two locks on one key: what client::make_read_write_lock() gives.
    read_write_lock(lock read, lock write) noexcept
        : read_(std::move(read))
        , write_(std::move(write)) {}

    /// To hold together with other readers.
    lock const& read() const noexcept { return read_; }
    /// To hold alone.
    lock const& write() const noexcept { return write_; }
    /// The key on the servers, with the client's prefix.
    std::string_view key() const noexcept { return read_.key(); }

private:
    lock read_, write_;
};

} // namespace holdfast

#endif
