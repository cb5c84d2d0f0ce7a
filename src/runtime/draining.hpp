// The end of a client that waits for those who hold a lease.
#ifndef HOLDFAST_RUNTIME_DRAINING_HPP
#define HOLDFAST_RUNTIME_DRAINING_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "runtime/deadline_queue.hpp"

namespace holdfast::runtime {

class engine;

/// Waits for its limit.
class draining final : public timed {
public:
    explicit draining(engine& e)
        : engine_(e) {}

    void on_time(lease_clock::time_point now) override;

    bool begun = false; ///< no lease is given any more
    bool lost = false;  ///< a lease was, since then
    errc result{};      ///< once the shutdown has begun: none if every holder has finished

private:
    engine& engine_;
};

} // namespace holdfast::runtime

#endif
