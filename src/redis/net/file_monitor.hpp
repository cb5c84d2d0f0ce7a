// Notices that files have changed, by stat(). Files may be symbolic links, as in the secrets of
// Kubernetes.
#ifndef HOLDFAST_REDIS_FILE_MONITOR_HPP
#define HOLDFAST_REDIS_FILE_MONITOR_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace holdfast::redis {

class file_monitor {
public:
    /// Folders count too: they change when a file is added or removed.
    explicit file_monitor(std::vector<std::string> paths)
        : paths_(std::move(paths))
        , states_(paths_.size()) {}

    /// Whether a file has changed since the last call of note(). True if there was none.
    bool changed() const noexcept {
        for (std::size_t i = 0; i < paths_.size(); ++i) {
            if (state_of(paths_[i]) != states_[i]) return true;
        }
        return false;
    }
    /// To be called before the files are read: a later change is noticed then. True: a file has
    /// changed.
    bool note() noexcept {
        auto found = false;
        for (std::size_t i = 0; i < paths_.size(); ++i) {
            auto const before = std::exchange(states_[i], state_of(paths_[i]));
            found = found || before != states_[i];
        }
        return found;
    }

private:
    /// Device, inode, size, and the times of the last changes to the content and to the inode. The
    /// latter changes with the permissions, too.
    using state = std::array<std::int64_t, 7>;

    static state state_of(std::string const& path) noexcept {
        struct stat s {};
        if (::stat(path.c_str(), &s) != 0) return {-1};
        return {static_cast<std::int64_t>(s.st_dev),
                static_cast<std::int64_t>(s.st_ino),
                s.st_size,
                s.st_mtim.tv_sec,
                s.st_mtim.tv_nsec,
                s.st_ctim.tv_sec,
                s.st_ctim.tv_nsec};
    }

    std::vector<std::string> paths_;
    std::vector<state> states_;
};

} // namespace holdfast::redis

#endif
