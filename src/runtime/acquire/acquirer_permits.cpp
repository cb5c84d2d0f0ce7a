// Permits of this process: the queue of a key goes on while some of them are held.
#include "runtime/acquire/acquirer.hpp"

namespace holdfast::runtime {

active_queue* acquirer::queue_of(active_tenure const& t) const {
    return keys_.find(t.lock->key()).queue();
}

/// True if this client has the permit that is to be adopted. Looks at all its leases: adoptions are
/// rare.
bool acquirer::holds_permit(operation const& adopting) {
    auto const& call = adopting.as<acquire_call>();
    auto const& token = call.adopted()->value;
    auto found = false;
    tenures_.for_each([&](active_tenure const& t) {
        found =
            found || (t.lease != nullptr && t.is_permit() && t.lock->key() == call.lock->key() &&
                      t.token_text(random_.label()).view() == token);
    });
    return found;
}

} // namespace holdfast::runtime
