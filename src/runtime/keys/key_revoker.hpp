// Revocations: client::revoke(). Where an instance has the token of the holder, a tombstone takes
// its place. So the holder cannot extend, and nobody else gets the key before the holder's last
// deadline.
//
//   survey: who has which token? --> revoke, wherever a holder is found --> survey: what is there?
//
// The last survey is the report, and decides together with the replies to the revocations.
#ifndef HOLDFAST_RUNTIME_KEY_REVOKER_HPP
#define HOLDFAST_RUNTIME_KEY_REVOKER_HPP

#include "protocol/instance_set.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/keys/key_remover.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/event_sink.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <chrono>
#include <string_view>

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone.
class key_revoker {
public:
    key_revoker(services const& s, surveyor& questions, change_listener& listener,
                std::chrono::milliseconds max_ttl)
        : turn_(s.turn)
        , instances_(s.instances)
        , random_(s.random)
        , surveyor_(questions)
        , completer_(s.completer)
        , counters_(s.counters)
        , events_(s.events)
        , listener_(listener)
        , max_ttl_(max_ttl) {}

    void start(operation&);
    /// Has no effect once a token may have been replaced.
    void cancel(operation&);

private:
    class job;
    class order;
    struct target;

    void survey(job&);
    void on_survey(job&, unsigned instance, redis::answer const&);
    void judge(job&, target&, unsigned instance, redis::answer const&);
    void judge_users(job&, target&, unsigned instance, redis::answer const&, redis::token_place);
    static void plan(target&, unsigned instance, std::string_view token, std::string const& holder,
                     redis::token_place);
    void note(job&, unsigned instance, std::string_view reason);
    void revoke(job&);
    void send(job&, target&, protocol::instance_set, redis::token_place);
    void on_revoked(job&, order&, unsigned instance, redis::answer const&);
    void conclude(job&);
    void report(job&, target const&);
    void fail(job&);

    turn& turn_;
    instance_group& instances_;
    token_source const& random_;
    surveyor& surveyor_;
    completer& completer_;
    counters& counters_;
    event_sink const& events_;
    change_listener& listener_;
    std::chrono::milliseconds const max_ttl_;
};

} // namespace holdfast::runtime

#endif
