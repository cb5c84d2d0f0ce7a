// Handlers that are kept for a call in place. In an executable that replaces operator new.
#include "runtime/services/completer.hpp"
#include "runtime/services/operation.hpp"

#include "support/failing_new.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;

namespace {

namespace asio = boost::asio;

bool everywhere(void* const*, std::size_t) {
    return true;
}

/// A completer of a client that runs on a context with one thread.
class parts : private turn_source {
public:
    using result = std::optional<error>;

    operation& acquire(result& r) {
        auto& op = operations.emplace_back(0U);
        op.call =
            acquire_call{.handler = detail::erased<error, lease>(
                             [&r](error e, lease) { r.emplace(std::move(e)); }, executor, true)};
        return op;
    }

    asio::io_context context{1};
    asio::any_io_executor executor{context.get_executor()};
    counters count;
    turn now_turn{*this};
    timer_queue timers{executor};
    completer all{now_turn, timers, count, {&executor, &context}};
    std::list<operation> operations;

private:
    void ask_for_turn() noexcept override {}
};

auto make_report(char const* key) {
    acquire_report r;
    r.key = key;
    return std::make_shared<acquire_report const>(std::move(r));
}

/// Notes the sizes of the blocks that were asked for.
template <class T>
struct noting_allocator {
    using value_type = T;

    explicit noting_allocator(std::vector<std::size_t>& s)
        : sizes(&s) {}
    template <class U>
    noting_allocator(noting_allocator<U> const& other)
        : sizes(other.sizes) {}
    T* allocate(std::size_t n) {
        sizes->push_back(n * sizeof(T));
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) { std::allocator<T>().deallocate(p, n); }
    template <class U>
    bool operator==(noting_allocator<U> const& other) const {
        return sizes == other.sizes;
    }

    std::vector<std::size_t>* sizes;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(completer, parts)

BOOST_AUTO_TEST_CASE(an_acquire_that_fails_is_called_later_with_its_own_report) {
    std::vector<result> results(4);
    std::vector<operation*> ops;
    for (auto& r : results) ops.push_back(&acquire(r));
    all.complete(*ops[0], errc::shut_down);
    all.complete(*ops[1], errc::wait_timeout, make_report("first"));
    all.complete(*ops[2], errc::cancelled);
    all.complete(*ops[3], errc::no_quorum, make_report("second"));
    for (auto const& r : results) BOOST_TEST(!r.has_value());
    BOOST_TEST(all.has_calls());
    all.make_calls(2, lease_clock::time_point::max());
    BOOST_REQUIRE(results[1].has_value());
    BOOST_TEST(!results[2].has_value());
    all.make_calls(10, lease_clock::time_point::max());
    BOOST_REQUIRE(results[3].has_value());
    BOOST_TEST(!all.has_calls());
    BOOST_CHECK(*results[0] == errc::shut_down);
    BOOST_CHECK(*results[1] == errc::wait_timeout);
    BOOST_CHECK(*results[2] == errc::cancelled);
    BOOST_CHECK(*results[3] == errc::no_quorum);
    BOOST_TEST(results[0]->report() == nullptr);
    BOOST_TEST(results[2]->report() == nullptr);
    BOOST_REQUIRE(results[1]->report() != nullptr);
    BOOST_REQUIRE(results[3]->report() != nullptr);
    BOOST_TEST(results[1]->report()->key == "first");
    BOOST_TEST(results[3]->report()->key == "second");
    BOOST_TEST(context.poll() == 0U); // none went through the executor
}

BOOST_AUTO_TEST_CASE(a_call_in_place_needs_no_memory) {
    result failed, succeeded;
    auto& first = acquire(failed);
    auto& second = acquire(succeeded);
    test::count_allocations();
    all.complete(first, errc::out_of_memory);
    all.complete(second, detail::lease_ref());
    all.make_calls(10, lease_clock::time_point::max());
    test::allocate_as_ever();
    BOOST_TEST(test::allocations_counted() == 0U);
    BOOST_REQUIRE(failed.has_value());
    BOOST_REQUIRE(succeeded.has_value());
    BOOST_CHECK(*failed == errc::out_of_memory);
    BOOST_CHECK(succeeded->code() == error_code());
}

BOOST_AUTO_TEST_CASE(without_memory_for_its_report_a_handler_gets_the_code) {
    std::vector<result> results(200);
    std::vector<operation*> ops;
    std::vector<runtime::completer::report_ptr> reports;
    for (auto& r : results) {
        ops.push_back(&acquire(r));
        reports.push_back(make_report("k"));
    }
    test::fail_allocation(0, everywhere);
    for (std::size_t i = 0; i < ops.size(); ++i)
        all.complete(*ops[i], errc::wait_timeout, reports[i]);
    test::allocate_as_ever();
    BOOST_TEST(test::last_failed_allocation().failed);
    all.make_calls(ops.size(), lease_clock::time_point::max());
    unsigned without = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
        BOOST_REQUIRE(results[i].has_value());
        BOOST_CHECK(*results[i] == errc::wait_timeout);
        if (results[i]->report() == nullptr) {
            ++without;
        } else {
            BOOST_TEST(results[i]->report() == reports[i].get());
        }
    }
    BOOST_TEST(without == 1U);
}

BOOST_AUTO_TEST_CASE(a_handler_that_is_called_in_place_has_no_room_for_its_completion) {
    auto const asked = [&](bool in_place) {
        std::vector<std::size_t> sizes;
        auto const handler =
            asio::bind_allocator(noting_allocator<void>(sizes), [](error, lease) {});
        { auto const made = detail::erased<error, lease>(handler, executor, in_place); }
        BOOST_REQUIRE(sizes.size() == 1U);
        return sizes.front() - sizeof(handler);
    };
    BOOST_TEST(asked(true) <= sizeof(void*)); // Asio's state of the cancellation
    BOOST_TEST(asked(false) >= sizeof(error) + sizeof(lease));
}

BOOST_AUTO_TEST_SUITE_END()
