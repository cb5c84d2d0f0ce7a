// A timer whose work is part of a turn.
#include "redis/net/turn_timer.hpp"

#include "support/lone_owner.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <memory>

using namespace holdfast::redis;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

class counting_owner final : public holdfast::test::lone_owner {
public:
    void in_turn(turn_work& work) override {
        ++turns;
        work.run();
    }
    int turns = 0;
};

struct user : std::enable_shared_from_this<user> {
    user(asio::io_context& context, instance_owner& owner)
        : timer(context.get_executor(), owner) {}

    void arm() { timer.arm(0s, weak_from_this(), &user::on_time); }
    void on_time() { work(); }

    turn_timer timer;
    std::function<void()> work = [] {};
};

struct fixture {
    asio::io_context context{1};
    counting_owner owner;
    std::shared_ptr<user> first = std::make_shared<user>(context, owner);
    std::shared_ptr<user> second = std::make_shared<user>(context, owner);
    int calls = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(turn_timer, fixture)

BOOST_AUTO_TEST_CASE(the_work_is_a_turn) {
    first->work = [&] { ++calls; };
    first->arm();
    context.run();
    BOOST_TEST(calls == 1);
    BOOST_TEST(owner.turns == 1);
}

// Both have expired when the first runs, and the handler of the other is queued.
BOOST_AUTO_TEST_CASE(a_timer_that_was_cancelled_begins_no_turn) {
    auto const cancels = [this](user& other) {
        return [this, &other] {
            ++calls;
            other.timer.cancel();
        };
    };
    first->work = cancels(*second);
    second->work = cancels(*first);
    first->arm();
    second->arm();
    context.run();
    BOOST_TEST(calls == 1);
    BOOST_TEST(owner.turns == 1);
}

BOOST_AUTO_TEST_CASE(a_timer_that_is_armed_again_calls_once) {
    auto const arms = [this](user& other) {
        return [this, &other] {
            if (++calls == 1) other.arm();
        };
    };
    first->work = arms(*second);
    second->work = arms(*first);
    first->arm();
    second->arm();
    context.run();
    BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(a_user_that_has_gone_is_not_called) {
    first->work = [&] { ++calls; };
    first->arm();
    first.reset();
    context.run();
    BOOST_TEST(calls == 0);
    BOOST_TEST(owner.turns == 0);
}

BOOST_AUTO_TEST_SUITE_END()
