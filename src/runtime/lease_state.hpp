// A lease in production: what its holder has in hand, and who waits for what becomes of it.
#ifndef HOLDFAST_RUNTIME_LEASE_STATE_HPP
#define HOLDFAST_RUNTIME_LEASE_STATE_HPP

#include <holdfast/detail/lease_core.hpp>

#include "runtime/operation.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstdint>

namespace holdfast::runtime {

class engine;
class holding;

/// In the inbox, of those that nobody has any more.
using drop_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_drops>>;

class lease_state final : public detail::lease_core,
                          public boost::intrusive::list_base_hook<>,
                          public drop_hook {
public:
    enum class end : std::uint8_t {
        none,
        lost,
        released
    };

    explicit lease_state(engine&) {}

    boost::intrusive_ptr<holding> tenure; ///< what it is a lease of, until it ends
    operation_list waiters;               ///< extend and lost
    wish_ptr wanted;                      ///< asked before each renewal
    end ended = end::none;
    std::atomic<bool> counted{false}; ///< as held; until it ends or nobody has it
    bool dropped = false;             ///< under the inbox's mutex: it has no handle any more
};

using drop_list = boost::intrusive::list<lease_state, boost::intrusive::base_hook<drop_hook>,
                                         boost::intrusive::constant_time_size<false>>;
using lease_list = boost::intrusive::list<lease_state, boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
