// Questions of users about a key: client::inspect(). They take no part in the queue of the key.
#ifndef HOLDFAST_RUNTIME_INSPECTOR_HPP
#define HOLDFAST_RUNTIME_INSPECTOR_HPP

#include "redis/wire/reply_handler.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/turn.hpp"

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone.
class inspector {
public:
    inspector(services const& s, surveyor& questions)
        : turn_(s.turn)
        , surveyor_(questions)
        , completer_(s.completer) {}

    void start(operation&);
    /// Completes the operation. The answers that are still to come are dropped.
    void cancel(operation&);

private:
    class question;

    void on_answer(question&, unsigned instance, redis::answer const&);
    void conclude(question&);
    void fail(question&);

    turn& turn_;
    surveyor& surveyor_;
    completer& completer_;
};

} // namespace holdfast::runtime

#endif
