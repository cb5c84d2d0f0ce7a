// Permits of this process: the queue of a key goes on while some of them are held.
#include "runtime/acquire/acquirer.hpp"

namespace holdfast::runtime {

active_queue* acquirer::queue_of(active_tenure const& t) const {
    return keys_.find(t.lock->key()).queue();
}

// Looks at all leases: adoptions and inspections are rare.
bool acquirer::has_permit(std::string_view key, std::string_view text) const {
    auto found = false;
    tenures_.for_each([&](active_tenure const& t) {
        found = found || (t.lease != nullptr && t.is_permit() && t.lock->key() == key &&
                          t.token_text(random_.label()).view() == text);
    });
    return found;
}

/// True if this client has the permit that is to be adopted.
bool acquirer::holds_permit(operation const& adopting) {
    auto const& call = adopting.as<acquire_call>();
    return has_permit(call.lock->key(), call.adopted()->value);
}

} // namespace holdfast::runtime
