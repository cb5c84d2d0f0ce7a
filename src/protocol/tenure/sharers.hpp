// How many leases share a tenure of readers, and whether other processes share it, too.
//
// The readers of a process have one token on the servers. If one of them is handed to another
// process, that process has the token as well, and its release would end the reader for all. So who
// hands a reader over says whether it is shared; then nobody releases it, and it is left to its
// ttl. That must stay true: from the hand-over on no other lease joins the tenure.
//
// Both facts are one value. Holders ask for their token on any thread, so production exchanges the
// value atomically: a lease has joined before the hand-over, which then sees it, or cannot join.
#ifndef HOLDFAST_PROTOCOL_SHARERS_HPP
#define HOLDFAST_PROTOCOL_SHARERS_HPP

#include <cassert>
#include <cstdint>

namespace holdfast::protocol {

class sharers {
public:
    constexpr sharers() noexcept = default;
    /// The first lease of a tenure. `elsewhere`: it is adopted, and its reader is shared.
    constexpr explicit sharers(bool elsewhere) noexcept
        : closed_(elsewhere)
        , elsewhere_(elsewhere) {}

    /// Whether another lease may join.
    constexpr bool open() const noexcept { return closed_ == 0; }
    /// After hand_over(): whether the reader is shared.
    constexpr bool elsewhere() const noexcept { return elsewhere_ != 0; }

    void join() noexcept {
        assert(open());
        ++leases_;
    }
    void leave() noexcept {
        assert(leases_ > 0);
        --leases_;
    }
    void hand_over() noexcept {
        closed_ = 1;
        if (leases_ > 1) elsewhere_ = 1;
    }

private:
    std::uint32_t leases_ : 30 = 1, closed_ : 1 = 0, elsewhere_ : 1 = 0;
};

} // namespace holdfast::protocol

#endif
