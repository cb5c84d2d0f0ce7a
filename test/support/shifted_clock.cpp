#include "support/shifted_clock.hpp"

#include "support/net.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace holdfast::test {

namespace fs = std::filesystem;

shifted_clock::shifted_clock(std::string const& folder)
    : file_{folder + "/clock_shift"}
    , library_{folder + "/clock_shift.so"} {
    // In LD_PRELOAD, spaces and colons separate libraries. The library's own path may contain them,
    // so it gets a second name.
    if (library_.find_first_of(" :") != std::string::npos)
        throw std::runtime_error{
            "a clock cannot be shifted from a folder with a space or a colon: " + folder};
    fs::create_symlink(HOLDFAST_CLOCK_SHIFT_LIBRARY, library_);

    const net::unique_fd file{::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    const std::int64_t none = 0;
    if (!file || ::write(file.get(), &none, sizeof none) != static_cast<ssize_t>(sizeof none))
        throw std::system_error{errno, std::generic_category(), file_};
    void* const mapped =
        ::mmap(nullptr, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED)
        throw std::system_error{errno, std::generic_category(), "mmap " + file_};
    nanoseconds_ = static_cast<std::int64_t*>(mapped);
}

shifted_clock::~shifted_clock() {
    ::munmap(nanoseconds_, sizeof *nanoseconds_);
}

void shifted_clock::advance(std::chrono::milliseconds by) noexcept {
    std::atomic_ref{* nanoseconds_} += std::chrono::nanoseconds{by}.count();
}

std::chrono::milliseconds shifted_clock::shift() const noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::nanoseconds{std::atomic_ref{*nanoseconds_}.load()});
}

std::vector<std::string> shifted_clock::environment() const {
    char const* const others = std::getenv("LD_PRELOAD");
    std::string preload = "LD_PRELOAD=" + library_;
    if (others != nullptr && *others != '\0') preload.append(":").append(others);
    return {preload, "HOLDFAST_CLOCK_SHIFT=" + file_};
}

bool shifted_clock::used_by(int pid) const {
    // The kernel may use other names for the parents of the folder.
    const fs::path path{file_};
    std::string const end = (path.parent_path().filename() / path.filename()).string();
    std::ifstream maps{"/proc/" + std::to_string(pid) + "/maps"};
    for (std::string line; std::getline(maps, line);)
        if (line.ends_with('/' + end)) return true;
    return false;
}

} // namespace holdfast::test
