// A thread around poll(): the fake servers and the proxy run on it.
#pragma once

#include "support/net.hpp"

#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::test {

class io_thread {
public:
    // Appends the descriptors to watch; returns the timeout of poll() in ms, -1 for none.
    using prepare_function = std::function<int(std::vector<pollfd>&)>;
    // Gets the descriptors that prepare() appended, in the same order, with `revents`.
    using handle_function = std::function<void(pollfd const*)>;

    io_thread() = default;
    ~io_thread() { stop(); }
    io_thread(io_thread const&) = delete;
    io_thread& operator=(io_thread const&) = delete;

    void start(prepare_function prepare, handle_function handle);
    void stop();

    // Runs `task` in the thread, between two turns of it, and returns when it has run. In the
    // thread itself it runs at once.
    void run(std::function<void()> const& task);

private:
    void serve(prepare_function const& prepare, handle_function const& handle);
    void wake();

    net::unique_fd wake_;
    std::mutex mutex_;
    std::deque<std::packaged_task<void()>> tasks_;
    bool stopping_ = false;
    std::thread thread_;
};

// Writes as many of the `bytes` as the non-blocking socket takes; false when the connection is
// broken.
[[nodiscard]] bool write_some(net::unique_fd const& socket, std::string& bytes);

// Appends the bytes that have come; false at the end of the stream or when the connection is
// broken.
[[nodiscard]] bool read_some(net::unique_fd const& socket, std::string& bytes);

} // namespace holdfast::test
