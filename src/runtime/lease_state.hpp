// A lease in production: what its holder has in hand, and who waits for what becomes of it.
#ifndef HOLDFAST_RUNTIME_LEASE_STATE_HPP
#define HOLDFAST_RUNTIME_LEASE_STATE_HPP

#include <holdfast/detail/lease_core.hpp>

#include "runtime/operation.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace holdfast::runtime {

class engine;
class holding;

class lease_state final : public detail::lease_core, public boost::intrusive::list_base_hook<> {
public:
    enum class end : std::uint8_t {
        none,
        lost,
        released
    };

    explicit lease_state(engine&) {}

    boost::intrusive_ptr<holding> tenure;          ///< what it is a lease of, until it ends
    operation_list waiters;                        ///< extend and lost
    std::unique_ptr<std::function<bool()>> wanted; ///< asked before each renewal
    end ended = end::none;
};

using lease_list = boost::intrusive::list<lease_state, boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
