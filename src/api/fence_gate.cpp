#include <holdfast/error.hpp>
#include <holdfast/fence_gate.hpp>

#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index_container.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace holdfast {

namespace {

namespace mi = boost::multi_index;

struct entry {
    std::string key;
    std::uint64_t fence;
};

struct by_key {};
struct by_fence {};

// The keys are ordered and not hashed. So no call pays for a rehash, or for keys that were chosen
// to collide.
using entries = mi::multi_index_container<
    entry,
    mi::indexed_by<mi::ordered_unique<mi::tag<by_key>, mi::member<entry, std::string, &entry::key>,
                                      std::less<>>,
                   mi::ordered_non_unique<mi::tag<by_fence>,
                                          mi::member<entry, std::uint64_t, &entry::fence>>>>;

} // namespace

// For a key that is not remembered, the gate never admitted a fence above the floor. A remembered
// key has a fence of at least the floor.
struct fence_gate::impl {
    std::size_t max_keys;
    std::uint64_t floor;
    std::uint64_t greatest;
    entries remembered;
};

fence_gate::fence_gate(std::size_t max_keys, std::uint64_t floor) {
    if (max_keys == 0)
        throw system_error(make_error_code(errc::invalid_options),
                           "max_keys is 0; it must be at least 1");
    impl_ = std::make_unique<impl>(impl{max_keys, floor, floor, {}});
}

fence_gate::fence_gate(fence_gate&&) noexcept = default;
fence_gate& fence_gate::operator=(fence_gate&&) noexcept = default;
fence_gate::~fence_gate() = default;

bool fence_gate::admit(std::string_view key, std::uint64_t fence) {
    auto& self = *impl_;
    if (fence == 0 || fence < self.floor) return false;
    auto& keys = self.remembered.get<by_key>();
    auto const known = keys.lower_bound(key);
    if (known != keys.end() && known->key == key) {
        if (fence < known->fence) return false;
        keys.modify(known, [fence](entry& e) { e.fence = fence; });
    } else {
        keys.insert(known, entry{std::string(key), fence});
        if (keys.size() > self.max_keys) {
            // Forgets the key with the lowest fence, which may be the new key. The floor is then
            // that fence, and keeps out all late holders.
            auto& fences = self.remembered.get<by_fence>();
            self.floor = fences.begin()->fence;
            fences.erase(fences.begin());
        }
    }
    self.greatest = std::max(self.greatest, fence);
    return true;
}

bool fence_gate::admit_shared(std::string_view key, std::uint64_t fence) const {
    auto const& self = *impl_;
    if (fence == 0 || fence < self.floor) return false;
    auto const& keys = self.remembered.get<by_key>();
    auto const known = keys.find(key);
    return known == keys.end() || fence >= known->fence;
}

std::uint64_t fence_gate::floor() const noexcept {
    return impl_->floor;
}

std::uint64_t fence_gate::greatest() const noexcept {
    return impl_->greatest;
}

std::size_t fence_gate::size() const noexcept {
    return impl_->remembered.size();
}

} // namespace holdfast
