// One context and one client for each thread, as servers do that share nothing between threads. A
// client with thread_safe = false has no strand. It and its locks stay on the thread of its
// context.
//   client_per_thread 127.0.0.1:6379 127.0.0.1:6380 127.0.0.1:6381
#include <holdfast/client.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <iostream>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr int threads = 4;
constexpr int turns = 50;

// Two steps on purpose: an increment is lost if two threads overlap here.
void increment(std::atomic<int>& counter) {
    auto const before = counter.load();
    counter.store(before + 1);
}

asio::awaitable<void> count(holdfast::client& locks, std::atomic<int>& counter) {
    auto const lock = locks.make_lock("counter");
    for (int i = 0; i < turns; ++i) {
        holdfast::lease lease = co_await lock.try_acquire_for(5s);
        increment(counter);
        co_await lease.release();
    }
    co_await locks.shutdown();
}

void run_thread(std::vector<holdfast::address> const& instances, std::atomic<int>& counter) {
    asio::io_context context(1); // one thread: no locks inside Asio's scheduler that wait
    holdfast::client locks(context.get_executor(), instances, {.thread_safe = false});
    asio::co_spawn(context, count(locks, counter), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    });
    context.run();
}

int main(int argc, char** argv) {
    try {
        std::vector<holdfast::address> const instances(argv + 1, argv + argc);
        std::atomic<int> counter = 0;
        std::vector<std::future<void>> running;
        for (int i = 0; i < threads; ++i)
            running.push_back(
                std::async(std::launch::async, [&] { run_thread(instances, counter); }));
        for (auto& thread : running) thread.get();
        std::cout << threads << " threads counted to " << counter << " of " << threads * turns
                  << '\n';
        return counter == threads * turns ? 0 : 1;
    } catch (std::exception const& e) {
        std::cerr << "client_per_thread: " << e.what() << '\n';
        return 1;
    }
}
