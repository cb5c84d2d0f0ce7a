// The name of a fence counter in a Cluster: in the slot of its lock key, for every key.
#ifndef HOLDFAST_REDIS_SLOT_FENCE_KEY_HPP
#define HOLDFAST_REDIS_SLOT_FENCE_KEY_HPP

#include <array>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Four letters from `@` to `O` that hash to the slot.
std::array<char, 4> tag_of_slot(unsigned slot);

/// Sets `name` to the key of the counter that belongs to `key`, in a Cluster. Both keys have the
/// same hash slot. The name is that of name_fence_key() if that name has the slot of the key. It
/// has not if the key contains `}` and no hash tag, or is empty. The name then begins with a tag of
/// four letters.
void name_cluster_fence_key(std::string& name, std::string_view key);

} // namespace holdfast::redis

#endif
