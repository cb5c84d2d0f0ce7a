// The turns of a client: the events that begin one, its steps, and the handlers that follow it.
#include "runtime/engine/engine.hpp"
#include "runtime/engine/engine_service.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/scope/scope_exit.hpp>

namespace holdfast::runtime {

void engine::start() {
    asio::use_service<engine_service>(asio::query(user_executor_, asio::execution::context))
        .add(weak_from_this());
    timers_.call([weak = weak_from_this()](boost::system::error_code ec) {
        auto const self = weak.lock();
        if (!self) return;
        if (ec == asio::error::no_memory)
            return self->inbox_.ask_for_turn(); // a turn calls rearm()
        if (self->stopped_) return;
        if (ec) return self->timers_.woken_early();
        self->in_a_turn([&] { self->timers_.run_due(self->turn_.began()); });
    });
    asio::post(executor_, [self = shared_from_this()] {
        self->in_a_turn([&] {
            for (auto const& i : self->instances_) i->start();
        });
    });
    running_ = shared_from_this();
}

void engine::run_turn() {
    auto const arrivals = inbox_.open(completer_.finished());
    in_a_turn([&] { take_calls(arrivals); });
}

void engine::take_calls(inbox::arrivals arrivals) {
    timers_.run_late(turn_.began());
    if (inbox_.deliver(arrivals, receiver{*this})) turn_.ask_for_another();
}

void engine::in_turn(turn_work& work) {
    if (turn_.running()) return work.run();
    in_a_turn([&] { work.run(); });
}

template <class Work>
void engine::in_a_turn(Work&& work) {
    // A handler, or the end of the shutdown, may give up the last reference elsewhere.
    auto const alive = weak_from_this().lock();
    struct on_stack {
        explicit on_stack(unsigned& of)
            : count(of) {
            ++count;
        }
        ~on_stack() { --count; }
        unsigned& count;
    } const counted(turns_on_stack_);
    boost::scope::scope_exit rest([this] {
        if (completer_.has_calls()) inbox_.ask_for_turn();
    });
    in_one_turn(work);
    call_handlers();
    rest.set_active(false);
}

// Calls the handlers that were kept for a call in place. The next turn follows at once with the
// calls that they make. So a coroutine that releases a lease and acquires the next needs no way
// through the executor. After a while the rest waits for a turn that was asked for. Timers, replies
// and other work of the context come before that turn, however many handlers are left.
void engine::call_handlers() {
    auto const until = turn_.began() + longest_row;
    for (unsigned turns = 0; turns < turns_in_a_row && completer_.has_calls(); ++turns) {
        if (turn_.began() >= until) break;
        inbox::gathering new_calls(inbox_);
        if (!new_calls) return; // the turn that was asked for makes the calls
        if (!completer_.make_calls(inbox::calls_a_turn, until)) break;
        if (!new_calls.end()) continue;
        auto const arrivals = inbox_.open(completer_.finished());
        in_one_turn([&] { take_calls(arrivals); });
    }
    if (completer_.has_calls()) inbox_.ask_for_turn();
}

template <class Work>
void engine::in_one_turn(Work&& work) {
    turn_.begin();
    if (counters_.stalls.note(timers_.first_due(), turn_.began())) events_.stalled();
    instances_.changed();
    keeper_.destroy_retired();
    timers_.rearm();
    tenures_.answer_outstanding();
    turn_.run([&] {
        work();
        end_drain_if_done();
        acquirer_.leave_late_instances();
        acquirer_.continue_turns();
        readiness_.check();
    });
    if (turn_.began() >= next_give_back_) give_back_memory();
    if (states_changed_) notify_states();
    if (turn_.take_failure()) end_at_once();
    if (!instances_.flush()) turn_.ask_for_another();
    turn_.end();
    inbox_.ask_again();
    finish_shutdown_if_done();
    turn_.rethrow();
}

} // namespace holdfast::runtime
