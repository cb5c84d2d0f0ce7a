// Records which instances may have a tenure's key. No other class records this.
//
//             ask()                 deny(), confirm_release()
//   absent ----------> possible ------------------------------> absent
//                        |   ^
//                 heal() |   | heal()        confirm_release()
//                        v   |          ---------------------> absent
//                       healed
//
// A healed key counts as present until the instance answers a release. Answers to other commands
// may be older than the healing, so deny() ignores them for a healed instance.
#ifndef HOLDFAST_PROTOCOL_KEY_PRESENCE_HPP
#define HOLDFAST_PROTOCOL_KEY_PRESENCE_HPP

#include "protocol/instance_set.hpp"

#include <cassert>
#include <cstdint>

namespace holdfast::protocol {

class key_presence {
public:
    explicit key_presence(unsigned configured)
        : configured_(static_cast<std::uint8_t>(configured & 0x3fU))
        , several_(0)
        , heals_(1) {
        assert(configured <= instance_set::capacity);
    }

    /// A command that sets the key is sent to these instances. `again`: they have our token
    /// already, with another slot, which stays if the command fails.
    void ask(instance_set to, bool again = false) {
        assert((to - all()).empty());
        possible_ = possible_ | to;
        if (again) healed_ = healed_ | to;
    }
    /// As ask(), for instances that lost the key of a held lease. Returns those to be asked.
    instance_set heal(instance_set to) {
        if (heals_ == 0) return {};
        ask(to);
        healed_ = healed_ | to;
        return to;
    }
    /// The instance refused the key, or never got the command. `last`: no command that sets the key
    /// is under way there.
    void deny(unsigned instance, bool last = false) {
        if (last || !healed_.contains(instance)) possible_.erase(instance);
    }
    /// An instance has a tombstone in place of our token. One of the same revocation may have
    /// expired elsewhere before the last is set, and a healing would give that instance to the
    /// holder again. So there is none from here on.
    void never_heal() { heals_ = 0; }
    /// The tenure is of several keys. So an instance that lacks one of them may have the others.
    void of_several_keys() { several_ = 1; }
    /// The instance has lost the key, or one of several.
    void lost(unsigned instance) {
        if (several_ == 0) deny(instance);
    }
    /// The instance answered a release: it deleted the key, or did not have it.
    void confirm_release(unsigned instance) { possible_.erase(instance); }

    instance_set possible() const { return possible_; }
    instance_set absent() const { return all() - possible_; }

    unsigned configured() const { return configured_; }

private:
    instance_set all() const { return instance_set::first(configured_); }

    instance_set possible_, healed_;
    // In one byte: the owner has members behind it.
    std::uint8_t configured_ : 6;
    std::uint8_t several_ : 1;
    std::uint8_t heals_ : 1;
};

} // namespace holdfast::protocol

#endif
