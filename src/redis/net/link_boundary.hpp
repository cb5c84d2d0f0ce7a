// The boundary at which a failure, mostly of memory, ends a link.
#ifndef HOLDFAST_REDIS_LINK_BOUNDARY_HPP
#define HOLDFAST_REDIS_LINK_BOUNDARY_HPP

#include <utility>

namespace holdfast::redis {

/// What fails while a link works ends its connection, as any loss of the connection does. So no
/// step of a link has to undo the steps before it. A link runs each of its events here, and looks
/// at the end of the turn whether one has failed.
class link_boundary {
public:
    /// False if `work` threw.
    template <class Work>
    bool run(Work&& work) noexcept {
        try {
            work();
            return true;
        } catch (...) {
            broken_ = true;
            return false;
        }
    }
    void break_off() noexcept { broken_ = true; }
    bool broken() const noexcept { return broken_; }
    /// True once after a failure.
    bool take() noexcept { return std::exchange(broken_, false); }

private:
    bool broken_ = false;
};

} // namespace holdfast::redis

#endif
