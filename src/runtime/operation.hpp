// One call of a user, from its start to its handler.
#ifndef HOLDFAST_RUNTIME_OPERATION_HPP
#define HOLDFAST_RUNTIME_OPERATION_HPP

#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/report.hpp>

#include "protocol/tally.hpp"
#include "redis/exchange.hpp"
#include "runtime/deadline_queue.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/intrusive/list.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace holdfast::runtime {

class engine;
class holding;

using operation_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class operation final : public timed, public operation_hook {
public:
    enum class kind : std::uint8_t {
        acquire,
        release,
        extend,
        lost,
        shutdown
    };
    enum class stage : std::uint8_t {
        starting,   ///< handed in, not yet looked at
        round,      ///< acquire: votes are being counted
        inspecting, ///< acquire: refused, and asking what is in the way
        pausing,    ///< acquire: refused, and waiting to try again
        attached,   ///< waits for what happens to its lease, or to the client
    };
    using any_handler =
        std::variant<std::monostate, detail::acquire_handler, detail::release_handler, detail::error_handler>;

    explicit operation(engine&);
    ~operation();

    void on_time(lease_clock::time_point now) override;

    engine& engine_;
    /// Counts the uses of this object, so that a late cancellation finds that it comes too late.
    std::uint32_t generation = 0;
    kind what{};
    stage where{};
    bool cancel_requested = false; ///< in a way that must wait for the round's end
    any_handler handler;
    detail::lease_ref lease;

    // acquire
    struct vote_detail {
        errc why{};
        bool held = false;
        bool ttl_known = false;
        std::optional<std::chrono::milliseconds> ttl_left;
        std::chrono::nanoseconds round_trip{0};
        std::string message;
    };
    detail::lock_state_ptr lock;
    detail::wait_limit limit;
    lease_clock::time_point started{}, give_up{}, round_started{};
    unsigned attempts = 0;
    protocol::tally votes;    ///< of the last round, once it has been refused
    unsigned inspections = 0; ///< answers that are awaited
    unsigned wrong_types = 0; ///< of this round
    bool inspected = false;
    bool has_details = false;
    boost::intrusive_ptr<holding> current;
    std::vector<vote_detail> details; ///< by instance, of the last round, where has_details
};

using operation_list = boost::intrusive::list<operation, boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
