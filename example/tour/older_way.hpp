// A lock as a program without a lock library has it.
#ifndef HOLDFAST_TOUR_OLDER_WAY_HPP
#define HOLDFAST_TOUR_OLDER_WAY_HPP

#include <chrono>
#include <string>

namespace tour {

using std::chrono::milliseconds;

/// A client's lock on a key. Each row of the tour has a class of this kind, written as the articles
/// about it have it.
class older_way {
public:
    virtual ~older_way() = default;

    /// Does not wait. True if the client may take itself for the holder now.
    virtual bool try_lock(milliseconds ttl) = 0;
    virtual void unlock() = 0;

protected:
    static std::string in_seconds(milliseconds ttl) {
        return std::to_string(std::chrono::ceil<std::chrono::seconds>(ttl).count());
    }
    static std::string in_milliseconds(milliseconds ttl) { return std::to_string(ttl.count()); }
};

} // namespace tour

#endif
