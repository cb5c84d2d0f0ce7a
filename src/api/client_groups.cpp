#include <holdfast/client_groups.hpp>
#include <holdfast/error.hpp>

#include "api/option_checks.hpp"
#include "protocol/cluster/hash_slot.hpp"

#include <boost/hash2/xxhash.hpp>

#include <algorithm>
#include <cstdint>

namespace holdfast {

void client_groups::check_names() const {
    if (names_.empty()) detail::reject(errc::invalid_options, "no groups are given");
    for (auto name = names_.begin(); name != names_.end(); ++name) {
        if (name->empty()) detail::reject(errc::invalid_options, "the name of a group is empty");
        if (std::find(names_.begin(), name, *name) != name)
            detail::reject(errc::invalid_options,
                           "the group " + detail::quoted(*name) + " is given twice");
    }
}

std::size_t client_groups::index_of(std::string_view key) const noexcept {
    auto const tag = protocol::hash_tag(key);
    auto const part = tag.empty() ? key : tag;
    boost::hash2::xxhash_64 of_key;
    of_key.update(part.data(), part.size());
    of_key.update("", 1);
    std::size_t best = 0;
    std::uint64_t greatest = 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        auto hash = of_key;
        hash.update(names_[i].data(), names_[i].size());
        auto const weight = hash.result();
        if (i != 0 && (weight < greatest || (weight == greatest && names_[best] < names_[i])))
            continue;
        best = i;
        greatest = weight;
    }
    return best;
}

} // namespace holdfast
