// The property that a schedule violates, and the story of the schedule.
//
// A search runs without a story. A schedule that fails runs again with one, from the same seed.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_TRACE_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_TRACE_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"

#include <array>
#include <cstddef>
#include <ostream>
#include <string>

namespace holdfast::test {

inline char const* name(protocol::command c) {
    static constexpr std::array names{"acquire", "extend", "release", "heal",   "contend", "raise",
                                      "inspect", "track",  "survey",  "revoke", "scan"};
    static_assert(names.size() == protocol::commands);
    return names[static_cast<std::size_t>(c)];
}

inline char const* name(protocol::verdict v) {
    static constexpr std::array names{"yes", "no", "unsent", "unknown", "refused"};
    return names[static_cast<std::size_t>(v)];
}

inline std::string text(protocol::instance_set s) {
    std::string t;
    s.for_each([&](unsigned i) { t += std::to_string(i) + ' '; });
    return t;
}

class trace {
protected:
    explicit trace(std::ostream* story = nullptr)
        : story_(story) {}
    trace(trace const&) = delete;
    trace& operator=(trace const&) = delete;
    ~trace() = default;

    /// Adds a line to the story.
    template <class... Words>
    void write_story(Words const&... words) {
        if (story_ != nullptr) (*story_ << ... << words) << '\n';
    }
    /// Reports a violation. The first one ends the schedule.
    void fail(char const* property, std::string const& how) {
        if (!violation_.empty()) return;
        violation_ = std::string(property) + ": " + how;
        write_story(violation_);
    }
    std::string const& violation() const { return violation_; }

private:
    std::ostream* story_;
    std::string violation_;
};

} // namespace holdfast::test

#endif
