#ifndef HOLDFAST_FENCE_GATE_HPP
#define HOLDFAST_FENCE_GATE_HPP

#include <holdfast/detail/api.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace holdfast {

/// Rejects late holders. A protected resource asks its gate before each write.
///
/// A holder can write after the next holder has, if its process was stopped or its request was
/// under way for long. No lock prevents that; the resource can. Each request carries the lease's
/// fence (its *fencing token*), which is greater for every later lease on the key. The resource
/// rejects a smaller fence than it has seen.
///
/// @par Example
/// @code
/// holdfast::fence_gate gate(100'000);
/// // for each request:
/// if (!gate.admit(key, fence)) return reject(); // a later holder has been here
/// store(key, value);
/// @endcode
///
/// @par Limits
///   - A gate protects only a resource that asks it. Each resource needs a gate of its own, and all
///     writes to the resource ask the same gate.
///   - Check and write must be one step: no request with a later fence may be admitted, or write,
///     between an admit() and the write that follows. If the write is asynchronous, keep the key's
///     requests in line until it is done.
///   - The gate admits a late holder until a later holder has asked. The late write then comes
///     before all later writes, as if it had been in time.
///   - A gate believes the fence that it is given. It protects against late holders, not against a
///     client that makes up fences.
///
/// @par Storage with conditional writes  A storage that can write on a condition needs no gate. It
///     keeps the fence with the data, and checks and writes in one step. In SQL, with a column
///     `fence BIGINT NOT NULL DEFAULT 0`, and $1 never zero; no updated row means rejected:
/// @code
/// UPDATE row SET value = $2, fence = $1 WHERE id = $3 AND fence <= $1
/// @endcode
///
/// @par Bounded memory  The gate remembers at most max_keys keys. Beyond that it forgets the key
///     with the smallest fence, and floor() rises to that fence. A key that is not remembered needs
///     a fence of at least floor(). So a forgotten key never lets a late holder in. But a
///     rightful holder of a forgotten key is kept out if the fence of its lease is below floor().
///     That holder has to acquire anew. This happens only when more than max_keys other keys have
///     been admitted with greater fences. So choose for max_keys the number of keys in use within
///     the longest time for which a lease is held, extensions included. Across keys, fences follow
///     the clocks of the clients, so add the difference of these clocks to that time.
///
/// A key takes 96 bytes. A key longer than 15 bytes takes its length and up to 24 bytes more
/// (measured with 64-bit glibc and libstdc++). The gate stores keys as they are, however long.
/// Limit or hash keys that a stranger can choose.
///
/// @par Restart  A gate forgets all when its process ends. A resource that outlives the gate stores
///     greatest(), before or together with the admitted write, and gives that to the next gate as
///     its floor. All late holders remain late. Rightful holders with older leases have to acquire
///     anew, on each key.
///
/// @par Cost  Logarithmic in the number of remembered keys, in the worst case and for any keys.
/// @par Thread safety  Distinct gates: safe. One gate: unsafe, also for its const functions beside
///     admit().
class HOLDFAST_API fence_gate {
public:
    /// A gate that remembers up to `max_keys` keys, at least 1, and admits no fence below `floor`.
    /// @throws system_error  errc::invalid_options: max_keys is 0.
    explicit fence_gate(std::size_t max_keys, std::uint64_t floor = 0);

    /// A gate that was moved from can only be destroyed or assigned to.
    fence_gate(fence_gate&&) noexcept;
    /// Forgets its own keys and takes over those of the other gate.
    fence_gate& operator=(fence_gate&&) noexcept;
    /// A resource that outlives the gate stores greatest() before.
    ~fence_gate();

    /// Whether the holder of the lease on `key` with this fence may write. True for an equal or a
    /// greater fence, which is then the key's greatest. False if a greater fence was admitted for
    /// the key, or may have been and is forgotten. False for zero, which is a lease without a
    /// fence. The key is any bytes, or none; the gate copies it.
    /// @throws std::bad_alloc  The gate could not remember a new key: it was not admitted, and
    ///     nothing changed.
    [[nodiscard]] bool admit(std::string_view key, std::uint64_t fence);

    /// Whether a reader with this fence may read what admit() protects: true if no greater fence
    /// was admitted for the key, and none may have been and is forgotten. Readers may have equal
    /// fences, or different ones at one time, so the gate does not remember them. False for zero.
    [[nodiscard]] bool admit_shared(std::string_view key, std::uint64_t fence) const;

    /// The least fence for a key that is not remembered: the greatest forgotten one, or the one
    /// given to the constructor. Never falls. If it rises often and holders are rejected, max_keys
    /// is too small.
    std::uint64_t floor() const noexcept;

    /// The greatest fence ever admitted; before that, the floor given to the constructor.
    std::uint64_t greatest() const noexcept;

    /// The number of remembered keys, never more than max_keys.
    std::size_t size() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace holdfast

#endif
