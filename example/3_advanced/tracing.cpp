// Spans of locks, as OpenTelemetry has them: of each acquire, each extension and each time held.
// They belong to the trace of the caller, which a server has from the header `traceparent` of its
// request // (https://www.w3.org/TR/trace-context/).
//   tracing 127.0.0.1:6379
//
// A real server gives the spans to its exporter. This program prints them, one line of JSON each.
#include <holdfast/client.hpp>
#include <holdfast/observer.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct span {
    std::string name;
    holdfast::trace_context trace; ///< of the caller
    std::string key;
    std::uint64_t fence = 0;
    std::chrono::system_clock::time_point begin, end;
    std::string status = "ok";
};

/// Keeps the spans until they are exported. The client calls it in the middle of its work, so it
/// only adds to a vector.
class span_recorder final : public holdfast::observer {
public:
    void on_acquired(holdfast::acquired_event const& e) override {
        add("acquire", e, e.waited, e.fence);
    }
    void on_extended(holdfast::extended_event const& e) override {
        add("extend", e, e.took, e.fence);
    }
    void on_released(holdfast::released_event const& e) override {
        add("hold", e, e.held, e.fence);
    }
    void on_lost(holdfast::lost_event const& e) override {
        add("hold", e, e.held, e.fence, std::string("lost: ") + to_string(e.cause));
    }
    void on_failed(holdfast::failed_event const& e) override {
        if (e.call == holdfast::reported_call::acquire)
            add("acquire", e, e.took, 0, e.code.message());
    }

    std::vector<span> take() {
        std::lock_guard const lock(mutex_);
        return std::exchange(spans_, {});
    }

private:
    void add(char const* name, holdfast::lock_event const& e, std::chrono::nanoseconds took,
             std::uint64_t fence, std::string status = "ok") {
        if (!e.trace) return; // of no request
        auto const ago = holdfast::lease_clock::now() - e.at;
        auto const end = std::chrono::system_clock::now() -
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(ago);
        auto const begin =
            end - std::chrono::duration_cast<std::chrono::system_clock::duration>(took);
        std::lock_guard const lock(mutex_);
        spans_.push_back({name, e.trace, std::string(e.key), fence, begin, end, std::move(status)});
    }

    std::mutex mutex_;
    std::vector<span> spans_;
};

/// A program has one exporter that does this, for example OTLP.
void print(span const& s) {
    static std::mt19937_64 random{std::random_device{}()};
    auto own = s.trace;
    for (auto& byte : own.parent_id) byte = static_cast<std::uint8_t>(random());
    auto const parent = s.trace.to_string();
    auto const nanoseconds = [](std::chrono::system_clock::time_point t) {
        return std::chrono::nanoseconds(t.time_since_epoch()).count();
    };
    std::cout << "{\"traceId\":\"" << parent.substr(3, 32) << "\",\"spanId\":\""
              << own.to_string().substr(36, 16) << "\",\"parentSpanId\":\"" << parent.substr(36, 16)
              << "\",\"name\":\"" << s.name << "\",\"startTimeUnixNano\":" << nanoseconds(s.begin)
              << ",\"endTimeUnixNano\":" << nanoseconds(s.end) << ",\"attributes\":{\"lock.key\":\""
              << s.key << "\",\"lock.fence\":" << s.fence << "},\"status\":\"" << s.status
              << "\"}\n";
}

/// A request, with its header.
asio::awaitable<void> serve(holdfast::client& locks, std::string traceparent) {
    auto const trace = holdfast::trace_context::parse(traceparent);
    holdfast::lock const seat = locks.make_lock(
        "seat:7", {.fencing = true, .trace = trace.value_or(holdfast::trace_context())});
    holdfast::lease lease = co_await seat.acquire();
    co_await lease.extend(20s); // the work takes longer than usual
    co_await lease.release();
}

int main(int argc, char** argv) try {
    if (argc < 2) {
        std::cerr << "usage: tracing ADDRESS...\n";
        return 2;
    }
    auto const recorder = std::make_shared<span_recorder>();
    asio::io_context context(1);
    std::vector<holdfast::address> const instances(argv + 1, argv + argc);
    holdfast::client locks(context.get_executor(), instances, {.observer = recorder.get()});
    auto left = 2;
    for (auto const* const traceparent :
         {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
        asio::co_spawn(context, serve(locks, traceparent), [&](std::exception_ptr e) {
            if (--left == 0) locks.shutdown(asio::detached);
            if (e) std::rethrow_exception(e);
        });
    }
    context.run();
    for (auto const& s : recorder->take()) print(s);
    return 0;
} catch (std::exception const& e) {
    std::cerr << "tracing: " << e.what() << '\n';
    return 1;
}
