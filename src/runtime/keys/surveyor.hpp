// Asks instances for all that they have of a key, and makes a report of the answers.
#ifndef HOLDFAST_RUNTIME_SURVEYOR_HPP
#define HOLDFAST_RUNTIME_SURVEYOR_HPP

#include <holdfast/clock.hpp>
#include <holdfast/key_report.hpp>

#include "protocol/instance_set.hpp"
#include "redis/wire/lock_command.hpp"
#include "redis/wire/reply_handler.hpp"
#include "runtime/acquire/acquirer.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <string>
#include <string_view>

namespace holdfast::runtime {

/// The state of the key, by the answers of the instances.
void evaluate(key_report&);

/// True if a caller that knows `last` has to be notified: another state, or another answer, token,
/// fence, reader or waiting writer at an instance. The rest of a ttl, the round trip, the words and
/// the turn of the readers are no change.
bool shows_change(key_report const& last, key_report const& now);

/// @par Thread safety  On the executor alone.
class surveyor {
public:
    surveyor(services const& s, acquirer const& a)
        : turn_(s.turn)
        , instances_(s.instances)
        , random_(s.random)
        , acquirer_(a) {}

    unsigned size() const { return instances_.size(); }
    /// A report without answers.
    key_report begin(std::string_view key);
    /// The instances that can be asked.
    protocol::instance_set reachable() const { return instances_.reachable(); }
    /// Sends a command about the key. Returns the instances whose link has failed: they do not
    /// answer.
    protocol::instance_set ask(redis::reply_handler&, protocol::command, protocol::instance_set,
                               std::uint32_t round);
    /// Notes the answer of an instance to command::survey.
    void take(key_report&, unsigned instance, redis::answer const&, lease_clock::time_point asked);

private:
    key_answer answer_of(unsigned instance, redis::answer const&, std::string const& key,
                         lease_clock::time_point asked) const;
    std::string name_of(std::string const& key, std::string_view token) const;
    void note_waits(key_answer&, redis::key_companions const&) const;
    void note_readers(key_answer&, redis::key_companions const&, std::string const& key) const;
    void note_permits(key_answer&, redis::key_companions const&, std::string const& key) const;

    turn& turn_;
    instance_group& instances_;
    token_source const& random_;
    acquirer const& acquirer_;
    redis::encoder encoder_;
};

} // namespace holdfast::runtime

#endif
