// Questions of users about a key: client::inspect(). They take no part in the queue of the key.
#ifndef HOLDFAST_RUNTIME_INSPECTOR_HPP
#define HOLDFAST_RUNTIME_INSPECTOR_HPP

#include <holdfast/clock.hpp>
#include <holdfast/key_report.hpp>

#include "protocol/messages.hpp"
#include "redis/lock_command.hpp"
#include "redis/reply_handler.hpp"
#include "runtime/acquirer.hpp"
#include "runtime/completer.hpp"
#include "runtime/instance_group.hpp"
#include "runtime/operation.hpp"
#include "runtime/turn.hpp"

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone.
class inspector {
public:
    inspector(turn& t, instance_group& instances, completer& c, acquirer const& a)
        : turn_(t)
        , instances_(instances)
        , completer_(c)
        , acquirer_(a) {}

    void start(operation&);
    /// Completes the operation. The answers that are still to come are dropped.
    void cancel(operation&);

private:
    class question;

    void ask(question&, unsigned instance);
    void on_answer(question&, unsigned instance, redis::answer const&);
    void conclude(question&);
    key_answer answer_of(unsigned instance, redis::answer const&, question const&) const;

    turn& turn_;
    instance_group& instances_;
    completer& completer_;
    acquirer const& acquirer_;
    redis::encoder encoder_;
};

} // namespace holdfast::runtime

#endif
