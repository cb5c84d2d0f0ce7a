// Releases without a lease: client::release() with a token, and client::force_release(). Each
// instance compares and deletes, with the command of a lease's release.
#ifndef HOLDFAST_RUNTIME_KEY_REMOVER_HPP
#define HOLDFAST_RUNTIME_KEY_REMOVER_HPP

#include "protocol/instance_set.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/turn.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// Hears of the keys that calls of this client have changed: with NOLOOP the server does not push
/// them.
class change_listener {
public:
    virtual void on_own_change(unsigned instance, std::string_view key) = 0;

protected:
    ~change_listener() = default;
};

/// @par Thread safety  On the executor alone.
class key_remover {
public:
    key_remover(services const& s, surveyor& questions, change_listener& listener,
                std::chrono::milliseconds max_ttl)
        : turn_(s.turn)
        , instances_(s.instances)
        , surveyor_(questions)
        , completer_(s.completer)
        , listener_(listener)
        , max_ttl_(max_ttl) {}

    void start_release(operation&);
    void start_force(operation&);
    /// Of a forced release. Has no effect once a key may have been deleted.
    void cancel(operation&);

private:
    class job;
    class removal;

    void on_survey(job&, unsigned instance, redis::answer const&);
    void remove_seen(job&);
    void remove(job&, removal&, protocol::instance_set);
    void on_removal(job&, unsigned instance, redis::answer const&);
    void conclude(job&);
    void conclude_release(job&);
    void conclude_force(job&);
    void fail(job&);

    turn& turn_;
    instance_group& instances_;
    surveyor& surveyor_;
    completer& completer_;
    change_listener& listener_;
    std::chrono::milliseconds const max_ttl_;
};

} // namespace holdfast::runtime

#endif
