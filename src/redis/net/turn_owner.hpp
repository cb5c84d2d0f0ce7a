// The owner of everything that has a handler of Asio: it runs the work of the handler as a turn.
#ifndef HOLDFAST_REDIS_TURN_OWNER_HPP
#define HOLDFAST_REDIS_TURN_OWNER_HPP

#include <holdfast/clock.hpp>

namespace holdfast::redis {

/// in_turn() is called on the client's executor, and the rest within a turn.
class turn_owner {
public:
    class turn_work {
    public:
        virtual void run() = 0;

    protected:
        ~turn_work() = default;
    };

    /// Runs the work as a turn, or as part of the running turn. A turn has one time, and at its end
    /// each instance sends its commands. If a user's handler throws, the exception leaves in_turn()
    /// after the end of the turn.
    virtual void in_turn(turn_work&) = 0;
    /// The beginning of the present turn: before the first byte of the turn is sent, and after the
    /// bytes that the turn handles have come.
    virtual lease_clock::time_point time() const noexcept = 0;

protected:
    ~turn_owner() = default;
};

template <class Function>
void in_turn(turn_owner& owner, Function function) {
    struct call final : turn_owner::turn_work {
        explicit call(Function& f)
            : function_(f) {}
        void run() override { function_(); }
        Function& function_;
    } work(function);
    owner.in_turn(work);
}

} // namespace holdfast::redis

#endif
