// A turn of the client's executor: the unit of its work.
#ifndef HOLDFAST_RUNTIME_TURN_HPP
#define HOLDFAST_RUNTIME_TURN_HPP

#include <holdfast/clock.hpp>

#include <exception>
#include <new>
#include <utility>

namespace holdfast::runtime {

/// Asks for a turn, from any thread.
class turn_source {
public:
    virtual void ask_for_turn() noexcept = 0;

protected:
    ~turn_source() = default;
};

/// All events of a turn have the time at which the turn began. That is before the turn sends its
/// first byte, and after the submission of each operation that it starts.
///
/// Each step of a turn runs in run() or in attempt(). An exception of a user's function is kept,
/// and rethrown when the turn is over.
class turn {
public:
    explicit turn(turn_source& source) noexcept
        : source_(source) {}
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;

    bool running() const noexcept { return depth_ > 0; }
    lease_clock::time_point began() const noexcept { return began_; }
    /// The beginning of the turn; outside of turns, the present time.
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

    /// Ensures that the pending work is done: by the end of the running turn, or by a new turn.
    void ask() noexcept {
        if (!running()) source_.ask_for_turn();
    }
    /// Asks for another turn after the running one.
    void ask_for_another() noexcept {
        if (!running()) return source_.ask_for_turn();
        again_ = true;
    }

    /// Runs a step that may be left unfinished. False if it threw: mostly memory ran out, and the
    /// caller completes the operation concerned.
    template <class Work>
    bool attempt(Work&& work) noexcept {
        try {
            work();
            return true;
        } catch (std::bad_alloc const&) {
        } catch (...) {
            keep_exception();
        }
        return false;
    }
    /// Runs a step of the client. If that throws, what the client knows may be wrong: it ends with
    /// this turn.
    template <class Work>
    void run(Work&& work) noexcept {
        if (!attempt(work)) fail();
    }
    void fail() noexcept {
        failed_ = true;
        ask();
    }
    /// True once after a failure.
    bool take_failure() noexcept { return std::exchange(failed_, false); }
    /// Keeps the exception that is being handled until the turn is over. Of several exceptions it
    /// keeps the first.
    void keep_exception() noexcept {
        if (!thrown_) thrown_ = std::current_exception();
        ask();
    }
    void rethrow() {
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    turn_source& source_;
    lease_clock::time_point began_{};
    std::exception_ptr thrown_;
    unsigned depth_ = 0;
    bool again_ = false;
    bool failed_ = false;
};

} // namespace holdfast::runtime

#endif
