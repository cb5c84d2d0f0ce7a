// A turn of the client's executor: the unit of its work.
#ifndef HOLDFAST_RUNTIME_TURN_HPP
#define HOLDFAST_RUNTIME_TURN_HPP

#include <holdfast/clock.hpp>

#include <exception>
#include <new>
#include <utility>

namespace holdfast::runtime {

/// Sees to it that there is a turn soon. From any thread.
class turn_source {
public:
    virtual void ask_for_turn() noexcept = 0;

protected:
    ~turn_source() = default;
};

/// Everything in a turn has one time, that of its beginning: before the first byte is sent, and
/// after every call that the turn answers.
///
/// An exception belongs to one operation. attempt() contains it: for a lack of memory the caller
/// has an answer of its own, and any other exception is kept and leaves when the turn is over.
class turn {
public:
    explicit turn(turn_source& source) noexcept
        : source_(source) {}
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;

    bool running() const noexcept { return depth_ > 0; }
    lease_clock::time_point began() const noexcept { return began_; }
    /// Outside of turns it is the present time.
    lease_clock::time_point time() const noexcept {
        return running() ? began_ : lease_clock::now();
    }

    void begin() noexcept {
        if (depth_++ == 0) began_ = lease_clock::now();
    }
    /// For tests: a turn at another time.
    void begin_at(lease_clock::time_point when) noexcept {
        ++depth_;
        began_ = when;
    }
    void end() noexcept {
        --depth_;
        if (std::exchange(again_, false)) ask();
    }

    /// The present turn ends with the pending work, or else a turn follows.
    void ask() noexcept {
        if (!running()) source_.ask_for_turn();
    }
    /// Another turn follows.
    void ask_for_another() noexcept {
        if (!running()) return source_.ask_for_turn();
        again_ = true;
    }

    /// Whether it did not throw.
    template <class Work>
    bool attempt(Work&& work) noexcept {
        try {
            work();
            return true;
        } catch (std::bad_alloc const&) {
            // The caller tells the operations that got no memory.
        } catch (...) {
            keep_exception();
        }
        return false;
    }
    /// The exception that is being handled leaves when the turn is over. Of several the first does.
    void keep_exception() noexcept {
        if (!thrown_) thrown_ = std::current_exception();
        ask();
    }
    void throw_kept() {
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    turn_source& source_;
    lease_clock::time_point began_{};
    std::exception_ptr thrown_;
    unsigned depth_ = 0;
    bool again_ = false;
};

} // namespace holdfast::runtime

#endif
