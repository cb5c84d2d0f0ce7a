#ifndef HOLDFAST_FENCE_GATE_HPP
#define HOLDFAST_FENCE_GATE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace holdfast {

/// What a protected resource asks before each write, to reject the holder of a lease that came to
/// its end.
///
/// A holder that was stopped for long, or whose request was under way for long, can write after the
/// next one has. No lock prevents that; the resource can. Each request carries the lease's fence,
/// which is greater for every later lease on the key, and the resource rejects a fence smaller than
/// one it has seen.
///
/// @par Example
/// @code
/// holdfast::fence_gate gate(100'000);
/// // for each request:
/// if (!gate.admit(key, fence)) return reject(); // a later holder has been here
/// store(key, value);
/// @endcode
///
/// @par What it cannot do
///   - It protects only what asks it. Each resource needs a gate of its own, and all writes to the
///     resource ask the same gate.
///   - Check and write must be one: no request with a later fence may be admitted, or write,
///     between an admit() and the write that follows. Where the write is asynchronous, keep the
///     key's requests in line until it is done.
///   - A late holder is admitted until a later one has been here. Its write is then before theirs,
///     as if it had been in time.
///   - It believes what it is told. It guards against late holders, not against a client that makes
///     up fences.
///
/// @par Storage with conditional writes of its own
/// needs no gate: it keeps the fence with the data, and checks and writes in one step. In SQL, with
/// a column `fence BIGINT NOT NULL DEFAULT 0` (64 bits with a sign suffice until the year 2248),
/// where no updated row means rejected, and $1 is never zero:
/// @code
/// UPDATE row SET value = $2, fence = $1 WHERE id = $3 AND fence <= $1
/// @endcode
///
/// @par Bounded memory
/// At most max_keys keys are remembered. Beyond that the one with the smallest fence is forgotten,
/// and floor() rises to that fence: a key that is not remembered needs a fence of at least floor().
/// So what the gate has forgotten never lets a late holder in; it can keep a rightful one out,
/// whose lease is older than the newest one forgotten. That one has to acquire anew. It happens
/// only when more than max_keys other keys have been admitted with greater fences than its own. So
/// choose for max_keys the number of keys in use within the longest time for which a lease is held,
/// extensions included; across keys, fences follow the clocks of the clients, so add to that time
/// by how much these differ.
///
/// A key takes 96 bytes, and its length and up to 24 bytes more if it is longer than 15 (measured
/// with 64-bit glibc and libstdc++). Keys are stored as they are, however long: limit or hash what
/// a stranger can choose.
///
/// @par Restart
/// A gate forgets all when its process ends. A resource that outlives it stores greatest(), before
/// or together with the write that was admitted, and gives it to the next gate as its floor. All
/// that was late remains so; rightful holders with older leases, on whichever key, have to acquire
/// anew.
///
/// @par Cost  Logarithmic in the number of remembered keys, in the worst case and for any keys.
/// @par Thread safety  Distinct gates: safe. One gate: unsafe, also for its const functions beside
///     admit().
class fence_gate {
public:
    /// A gate that remembers up to `max_keys` keys, at least 1, and admits no fence below `floor`.
    /// @throws system_error  errc::invalid_options: max_keys is 0.
    explicit fence_gate(std::size_t max_keys, std::uint64_t floor = 0);

    /// A gate that was moved from can only be destroyed or assigned to.
    fence_gate(fence_gate&&) noexcept;
    fence_gate& operator=(fence_gate&&) noexcept;
    ~fence_gate();

    /// Whether the holder of the lease on `key` with this fence may write. False where a greater
    /// fence was admitted for the key, or may have been and is forgotten; and for zero, which is a
    /// lease without a fence. True for an equal or a greater one, which is then the key's greatest.
    /// The key is any bytes, also none; it is copied.
    /// @throws std::bad_alloc  A new key could not be remembered: it was not admitted, and nothing
    ///     changed.
    [[nodiscard]] bool admit(std::string_view key, std::uint64_t fence);

    /// The least fence that a key needs which is not remembered: the greatest one forgotten, or the
    /// one the gate was made with. Never falls. While it rises often and holders are rejected,
    /// max_keys is too small.
    std::uint64_t floor() const noexcept;

    /// The greatest fence ever admitted; until there is one, the floor that the gate was made with.
    std::uint64_t greatest() const noexcept;

    /// How many keys are remembered, never more than max_keys.
    std::size_t size() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace holdfast

#endif
