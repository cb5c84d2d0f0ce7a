// Temporary folders that go with this process, however it ends.
#pragma once

#include <string>

namespace holdfast::test {

// A helper process removes the folder after this process has ended, if it is still there. That
// process outlives SIGKILL, Ctrl-C and a crash of this one. With $HOLDFAST_KEEP_FOLDERS it does
// nothing.
//
// Thread safety: safe.
void sweep_at_end(std::string const& folder);

// A folder that lives as long as the object, or as this process.
class swept_folder {
public:
    swept_folder();
    ~swept_folder();

    swept_folder(swept_folder const&) = delete;
    swept_folder& operator=(swept_folder const&) = delete;

    [[nodiscard]] std::string const& path() const noexcept { return path_; }
    [[nodiscard]] std::string path(std::string const& name) const { return path_ + '/' + name; }
    // Writes the file atomically, as tools that renew certificates do. Returns its path.
    std::string write(std::string const& name, std::string const& text) const;

private:
    std::string path_;
};

} // namespace holdfast::test
