// The services that the parts of the engine share. The engine owns them.
#ifndef HOLDFAST_RUNTIME_SERVICES_HPP
#define HOLDFAST_RUNTIME_SERVICES_HPP

namespace holdfast::runtime {

class completer;
class event_sink;
class instance_group;
class timer_queue;
class token_source;
class turn;
struct counters;

/// Each part takes from it what it uses.
struct services {
    runtime::turn& turn;
    instance_group& instances;
    timer_queue& timers;
    runtime::completer& completer;
    runtime::counters& counters;
    event_sink const& events;
    token_source& random;
};

} // namespace holdfast::runtime

#endif
