// Where a tenure's key may be. All knowledge of that is written here.
//
//             ask()                 deny(), confirm_release()
//   absent ----------> possible ------------------------------> absent
//                        |   ^
//                 heal() |   | heal()        confirm_release()
//                        v   |          ---------------------> absent
//                       healed
//
// A healed key exists until a release is answered. Answers to other commands may be about the time
// before the healing, so deny() changes nothing then.
#ifndef HOLDFAST_PROTOCOL_KEY_PRESENCE_HPP
#define HOLDFAST_PROTOCOL_KEY_PRESENCE_HPP

#include "protocol/instance_set.hpp"

#include <cassert>

namespace holdfast::protocol {

class key_presence {
public:
    explicit key_presence(unsigned configured)
        : all_(instance_set::first(configured)) {}

    /// A command that sets the key is sent to these instances.
    void ask(instance_set to) {
        assert((to - all_).empty());
        possible_ = possible_ | to;
    }
    /// The same, for instances that lost the key of a held lease. Returns them.
    instance_set heal(instance_set to) {
        ask(to);
        healed_ = healed_ | to;
        return to;
    }
    /// The instance refused the key, never got the command, or has lost the key.
    void deny(unsigned instance) {
        if (!healed_.contains(instance)) possible_.erase(instance);
    }
    /// The instance answered a release: it deleted the key, or did not have it.
    void confirm_release(unsigned instance) { possible_.erase(instance); }

    instance_set possible() const { return possible_; }
    instance_set absent() const { return all_ - possible_; }

private:
    instance_set all_, possible_, healed_;
};

} // namespace holdfast::protocol

#endif
