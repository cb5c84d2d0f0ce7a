// Lists of keys by their prefix: client::list().
//
// Each server is asked for a part of its keys after the other, until its cursor is zero. All
// servers are asked side by side. A server may answer with anything: the keys, their length and the
// time are bounded here, and the size of a reply by the reader.
#ifndef HOLDFAST_RUNTIME_LISTER_HPP
#define HOLDFAST_RUNTIME_LISTER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/list_report.hpp>

#include "redis/wire/lock_command.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/turn.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// `prefix`: with the client's.
std::shared_ptr<list_job> make_list_job(std::string prefix, list_options const&);

/// @par Thread safety  On the executor alone.
class lister final : private operation_timer_owner {
public:
    explicit lister(services const& s)
        : turn_(s.turn)
        , instances_(s.instances)
        , timers_(s.timers)
        , completer_(s.completer) {}

    void start(operation&);
    /// The servers of the instance may be known now, or will not be.
    void on_came_or_went(unsigned instance);
    /// All calls complete with errc::shut_down.
    void shut_down();

private:
    friend class list_job;
    class server_scan;

    void on_time(operation&, lease_clock::time_point now) override;
    void prepare(operation&, list_job&);
    void plan(list_job&, unsigned instance);
    void ask_all(list_job&);
    void ask(server_scan&);
    void on_answer(server_scan&, redis::answer const&);
    void end(server_scan&, std::string_view problem);
    void conclude(list_job&, std::string const& reason);
    void fail(operation&);

    turn& turn_;
    instance_group& instances_;
    timer_queue& timers_;
    completer& completer_;
    redis::encoder encoder_;
    operation_list open_;
};

} // namespace holdfast::runtime

#endif
