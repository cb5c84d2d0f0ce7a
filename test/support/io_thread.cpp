#include "support/io_thread.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace holdfast::test {

void io_thread::start(prepare_function prepare, handle_function handle) {
    wake_ = net::unique_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!wake_) throw std::system_error{errno, std::generic_category(), "eventfd"};
    thread_ = std::thread{[this, prepare = std::move(prepare), handle = std::move(handle)] {
        serve(prepare, handle);
    }};
}

void io_thread::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock{mutex_};
        stopping_ = true;
    }
    wake();
    thread_.join();
}

void io_thread::wake() {
    const std::uint64_t increment = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &increment, sizeof increment);
}

void io_thread::run(std::function<void()> const& task) {
    if (!thread_.joinable() || std::this_thread::get_id() == thread_.get_id()) {
        task();
        return;
    }
    std::packaged_task<void()> packaged{task};
    std::future<void> done = packaged.get_future();
    {
        const std::lock_guard lock{mutex_};
        tasks_.push_back(std::move(packaged));
    }
    wake();
    done.get();
}

void io_thread::serve(prepare_function const& prepare, handle_function const& handle) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr); // the test's threads handle signals
    std::vector<pollfd> polled;
    for (;;) {
        std::deque<std::packaged_task<void()>> tasks;
        bool stopping = false;
        {
            const std::lock_guard lock{mutex_};
            tasks.swap(tasks_);
            stopping = stopping_;
        }
        for (auto& task : tasks) task();
        if (stopping) return;

        polled.assign(1, pollfd{wake_.get(), POLLIN, 0});
        int const timeout = prepare(polled);
        if (::poll(polled.data(), polled.size(), timeout) < 0) continue;
        if (polled.front().revents != 0) {
            std::uint64_t count = 0;
            [[maybe_unused]] const ssize_t taken = ::read(wake_.get(), &count, sizeof count);
        }
        handle(polled.data() + 1);
    }
}

bool write_some(net::unique_fd const& socket, std::string& bytes) {
    std::size_t written = 0;
    bool intact = true;
    while (written < bytes.size()) {
        const ssize_t count =
            ::send(socket.get(), bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
        if (count >= 0) {
            written += static_cast<std::size_t>(count);
        } else if (errno != EINTR) {
            intact = errno == EAGAIN;
            break;
        }
    }
    bytes.erase(0, written);
    return intact;
}

bool read_some(net::unique_fd const& socket, std::string& bytes) {
    char buffer[64 * 1024];
    for (;;) {
        const ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (count > 0) {
            bytes.append(buffer, static_cast<std::size_t>(count));
            if (static_cast<std::size_t>(count) < sizeof buffer) return true;
        } else if (count == 0) {
            return false;
        } else if (errno != EINTR) {
            return errno == EAGAIN;
        }
    }
}

} // namespace holdfast::test
