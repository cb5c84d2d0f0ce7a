// Objects that are made once and used again.
#ifndef HOLDFAST_RUNTIME_POOL_HPP
#define HOLDFAST_RUNTIME_POOL_HPP

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace holdfast::runtime {

/// Their addresses never change and stay valid as long as the pool, so a stale pointer can be checked.
template <class T>
class pool {
public:
    /// Where it throws, the pool is as it was.
    template <class... Args>
    T& take(Args&&... args) {
        if (free_.empty()) {
            // Room to give it back is made now, as that may not fail.
            if (free_.capacity() <= all_.size()) free_.reserve(std::max(all_.size() * 2, smallest));
            return all_.emplace_back(std::forward<Args>(args)...);
        }
        auto& t = *free_.back();
        free_.pop_back();
        return t;
    }
    void give_back(T& t) noexcept { free_.push_back(&t); }

    template <class Visit>
    void for_each(Visit&& visit) {
        for (auto& t : all_) visit(t);
    }

private:
    static constexpr std::size_t smallest = 8;

    std::deque<T> all_;
    std::vector<T*> free_;
};

} // namespace holdfast::runtime

#endif
