// A thread around poll(), on which the fake servers and the proxy run.
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
    // Appends the descriptors to poll. Returns the timeout for poll() in ms, or -1 for none.
    using prepare_function = std::function<int(std::vector<pollfd>&)>;
    // Gets the descriptors of prepare_function in the same order, with `revents`.
    using handle_function = std::function<void(pollfd const*)>;

    io_thread() = default;
    ~io_thread() { stop(); }
    io_thread(io_thread const&) = delete;
    io_thread& operator=(io_thread const&) = delete;

    void start(prepare_function prepare, handle_function handle);
    void stop();

    // Runs `task` in the thread, between two turns, and waits for its end. Within the thread, the
    // task runs at once.
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

// Writes as many of the `bytes` as the non-blocking socket takes. False if the connection is
// broken.
[[nodiscard]] bool write_some(net::unique_fd const& socket, std::string& bytes);

// Appends the received bytes. False at the end of the stream, or if the connection is broken.
[[nodiscard]] bool read_some(net::unique_fd const& socket, std::string& bytes);

} // namespace holdfast::test
