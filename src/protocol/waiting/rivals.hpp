// A queue's knowledge of others that want its key: other processes, and clients of other libraries.
#ifndef HOLDFAST_PROTOCOL_RIVALS_HPP
#define HOLDFAST_PROTOCOL_RIVALS_HPP

#include <utility>

namespace holdfast::protocol {

class rivals {
public:
    /// Another client was seen to have the key, or votes for it.
    void meet() { met_ = seen_ = true; }
    /// Other clients want the key now. True if that was known already.
    bool contest() { return std::exchange(contested_, true); }
    /// A tenure begins. Clients that were met before it still want the key.
    void begin_tenure() { contested_ = std::exchange(met_, false); }

    bool contested() const { return contested_; }
    bool ever_seen() const { return seen_; }

private:
    bool contested_ = false;
    bool met_ = false; ///< since the last tenure began
    bool seen_ = false;
};

} // namespace holdfast::protocol

#endif
