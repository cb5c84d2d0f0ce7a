// Objects that are made once and used again.
#ifndef HOLDFAST_RUNTIME_POOL_HPP
#define HOLDFAST_RUNTIME_POOL_HPP

#include <deque>
#include <utility>
#include <vector>

namespace holdfast::runtime {

/// Their addresses never change and stay valid as long as the pool, so a stale pointer can be checked.
template <class T>
class pool {
public:
    template <class... Args>
    T& take(Args&&... args) {
        if (free_.empty()) return all_.emplace_back(std::forward<Args>(args)...);
        auto& t = *free_.back();
        free_.pop_back();
        return t;
    }
    void give_back(T& t) { free_.push_back(&t); }

    template <class Visit>
    void for_each(Visit&& visit) {
        for (auto& t : all_) visit(t);
    }

private:
    std::deque<T> all_;
    std::vector<T*> free_;
};

} // namespace holdfast::runtime

#endif
