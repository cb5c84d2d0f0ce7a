// Memory runs out when a folded queue is made again. In an executable that replaces operator new.
#include "runtime/acquire/active_queue.hpp"
#include "runtime/memory/pool.hpp"

#include "support/failing_new.hpp"
#include "unit/runtime/held_keys.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>

using namespace holdfast;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

class two_keys : public test::held_keys {
public:
    two_keys() {
        at(0ms, [&] { first = &acquire(make_lock({}, "seat:1"), 1min); });
        at(1ms, [&] {
            fakes[0]->answer(command::acquire, verdict::yes);
            fakes[1]->answer(command::acquire, verdict::yes);
        });
        BOOST_REQUIRE(first->granted());
        fakes[2]->questions.front().asking->on_answer(2, command::acquire, 0,
                                                      {.verdict = verdict::no}); // opposed
        fakes[2]->questions.clear();
        // These acquires take all queues of the pool's block.
        at(2ms, [&] {
            for (std::size_t i = 0; i < others; ++i)
                acquire(make_lock({}, "other:" + std::to_string(i)), 1min);
        });
        BOOST_REQUIRE(queues() == others);
        for (auto const& f : fakes) f->questions.clear();
    }

    /// Lets the first allocation of `work` fail.
    template <class Work>
    void without_memory(Work work) {
        test::fail_allocation(0, nullptr);
        work();
        test::allocate_as_ever();
        BOOST_TEST(test::last_failed_allocation().failed);
    }

    call* first = nullptr;
    /// As large as a queue of the acquirer, which is an active_queue and a reference.
    struct like_a_queue {
        alignas(runtime::active_queue) char bytes[sizeof(runtime::active_queue) + sizeof(void*)];
    };
    std::size_t const others = runtime::pool<like_a_queue>().block_objects();
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(folded_queues_memory, two_keys)

BOOST_AUTO_TEST_CASE(only_the_second_acquire_fails) {
    auto const lock = make_lock({}, "seat:1");
    auto& c = calls.emplace_back();
    auto& op = make_operation(runtime::acquire_call{
        .handler = detail::acquire_handler(
            [&c](detail::delivery, error e, lease) { c.result = std::move(e); }),
        .lock = lock});
    at(3ms, [&] {
        without_memory([&] { room.start(op, [](runtime::lease_record&) { return false; }); });
    });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_CHECK(c.result->code() == errc::out_of_memory);
    BOOST_TEST(first->held());
    BOOST_TEST(queues() == others);
    call* next = nullptr;
    at(4ms, [&] { next = &acquire(lock, 1min); });
    at(5ms, [&] { release(*first); });
    BOOST_TEST(next->granted());
    BOOST_TEST(count.handoffs.load() == 1U);
}

BOOST_AUTO_TEST_CASE(a_release_without_memory_does_not_stand_back) {
    at(3ms, [&] {
        auto& op = make_operation(runtime::release_call{
            .handler = detail::release_handler([](detail::delivery, release_result const&) {}),
            .lease = first->handle});
        runtime::active_queue* concerned = nullptr;
        without_memory([&] { concerned = keeper.start_release(op); });
        BOOST_TEST(concerned == nullptr);
    });
    BOOST_TEST(queues() == others);
    at(4ms, [&] {
        fakes[0]->answer(command::release, verdict::yes);
        fakes[1]->answer(command::release, verdict::yes);
    });
    at(5ms, [&] { acquire(make_lock({}, "seat:1"), 1min); });
    BOOST_TEST(asked(command::acquire) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
