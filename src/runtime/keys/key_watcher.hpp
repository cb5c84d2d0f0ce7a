// Calls that wait for a change of a key: client::wait_change(). They take no part in the queue of
// the key.
#ifndef HOLDFAST_RUNTIME_KEY_WATCHER_HPP
#define HOLDFAST_RUNTIME_KEY_WATCHER_HPP

#include <holdfast/clock.hpp>

#include "redis/wire/reply_handler.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include <string_view>

namespace holdfast::runtime {

/// The calls for one key share a watch, which asks the instances in rounds. A call is compared with
/// the first round that begins after it, and with each later round. protocol/key/change_watch.hpp
/// decides when a round begins.
///
/// @par Thread safety  On the executor alone.
class key_watcher {
public:
    key_watcher(services const&, surveyor&);
    ~key_watcher();

    void start(operation&);
    void cancel(operation&);
    /// All calls complete with errc::shut_down.
    void shut_down();

    /// An instance has pushed, or has confirmed a write of this client: with NOLOOP that ends the
    /// registration without a push.
    void on_push(unsigned instance, std::string_view key) {
        if (!watches_.empty() && note(instance, key)) counters::add(counters_.pushes);
    }
    void on_own_write(unsigned instance, std::string_view key) {
        if (!watches_.empty()) note(instance, key);
    }
    void on_push_for_all(unsigned instance);
    void on_came_or_went(unsigned instance);

    /// Forgets all calls. Their operations are destroyed elsewhere.
    void clear() noexcept;

private:
    class watch;
    using watch_ptr = boost::intrusive_ptr<watch>;

    bool note(unsigned instance, std::string_view key);
    watch* find_or_make(operation const&);
    void begin_round(watch&);
    void on_answer(watch&, unsigned instance, protocol::command, std::uint32_t round,
                   redis::answer const&);
    void conclude(watch&);
    void fail(watch&);
    void on_time(watch&);
    void schedule(watch&);
    void drop(watch&) noexcept;

    turn& turn_;
    instance_group& instances_;
    surveyor& surveyor_;
    timer_queue& timers_;
    completer& completer_;
    counters& counters_;
    token_source& random_;
    boost::unordered_flat_map<std::string_view, watch_ptr> watches_; ///< by their own keys
};

} // namespace holdfast::runtime

#endif
