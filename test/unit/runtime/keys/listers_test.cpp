// Lists of keys without an engine: the instances are fakes, and may answer with anything.
#include "redis/scan/key_scan.hpp"
#include "runtime/keys/lister.hpp"

#include "support/text.hpp"
#include "unit/runtime/rooms.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using holdfast::test::contains;
using protocol::command;
using protocol::verdict;

namespace {

using strings = std::vector<std::string>;

std::string packed(strings const& keys) {
    std::string all;
    for (auto const& key : keys) {
        auto const size = static_cast<redis::packed_size>(key.size());
        all.append(reinterpret_cast<char const*>(&size), sizeof size).append(key);
    }
    return all;
}

class lister_alone : public test::rooms {
public:
    explicit lister_alone(unsigned count_of = 2)
        : rooms(count_of) {}
    ~lister_alone() override {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
    }

    void start(std::string const& prefix, list_options const& options = {}) {
        auto job = make_list_job(prefix, options);
        op = &make_operation(
            list_call{.handler = detail::list_handler([this](detail::delivery, error e, auto r) {
                          how = std::move(e);
                          report = std::move(r);
                      }),
                      .job = std::move(job)});
        at(0s, [&] { all.start(*op); });
    }
    /// After the last keys of a server it is asked for those of semaphores, and has none.
    void answer(unsigned i, std::uint64_t cursor, strings const& keys) {
        answer_alone(i, cursor, keys);
        auto& all_asked = fakes[i]->questions;
        auto const next = std::ranges::find_if(all_asked, [](auto const& q) {
            return q.asking->arguments(command::scan).permits != 0;
        });
        if (cursor != 0 || next == all_asked.end()) return;
        std::rotate(all_asked.begin(), next, next + 1);
        answer_alone(i, 0, {});
    }
    void answer_alone(unsigned i, std::uint64_t cursor, strings const& keys) {
        auto const value = packed(keys);
        at(0s, [&] {
            fakes[i]->answer(command::scan,
                             {.verdict = verdict::yes, .number = cursor, .value = value});
        });
    }
    void fail(unsigned i, redis::answer const& a) {
        at(0s, [&] { fakes[i]->answer(command::scan, a); });
    }
    /// The arguments of the question that waits at the instance.
    redis::command_args asked(unsigned i) const {
        BOOST_REQUIRE(fakes[i]->questions.size() == 1U);
        return fakes[i]->questions.front().asking->arguments(command::scan);
    }

    lister all{shared};
    operation* op = nullptr;
    std::optional<error> how;
    list_report report;

protected:
    void lead_answer(active_tenure&, unsigned, command, std::uint32_t,
                     redis::answer const&) override {}
    void lead_time(active_tenure&, lease_clock::time_point) override {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(listers)

BOOST_AUTO_TEST_CASE(each_server_is_asked_on_with_its_own_cursor_until_zero) {
    lister_alone a;
    a.start("k");
    BOOST_TEST(a.asked(0).number == 0U);
    a.answer(0, 7, {"k2", "k1"});
    BOOST_TEST(a.asked(0).number == 7U);
    BOOST_TEST(a.asked(0).key == "k");
    BOOST_TEST(a.asked(1).number == 0U);
    a.answer(1, 18'446'744'073'709'551'615U, {});
    BOOST_TEST(a.asked(1).number == 18'446'744'073'709'551'615U);
    a.answer(1, 0, {"k2", "k3"});
    BOOST_TEST(!a.how);
    BOOST_TEST(a.fakes[1]->questions.empty());
    a.answer(0, 0, {"k1"});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!*a.how);
    BOOST_TEST(a.report.keys == (strings{"k1", "k2", "k3"}), boost::test_tools::per_element());
    BOOST_TEST(a.report.complete);
}

BOOST_AUTO_TEST_CASE(names_that_no_lock_with_the_prefix_has_are_left_out) {
    lister_alone a(1);
    a.start("k");
    a.answer(0, 0,
             {"other", "", "k", "k{x}:fence", "k{x}:queue", "k:last",
              "k" + std::string(max_key_size, 'x'), "k" + std::string(max_key_size - 1, 'x')});
    BOOST_TEST(a.report.keys == (strings{"k", "k:last", "k" + std::string(max_key_size - 1, 'x')}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_cursor_that_never_ends_ends_with_the_time_limit) {
    lister_alone a;
    a.start("k", {.time_limit = 3s});
    a.answer(1, 0, {"k1"});
    for (auto i = 0; i < 10'000; ++i) a.answer(0, 1, {"k0"});
    a.wait_until(2s);
    BOOST_TEST(!a.how);
    a.wait_until(3s);
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!*a.how);
    BOOST_TEST(a.report.keys == (strings{"k0", "k1"}), boost::test_tools::per_element());
    BOOST_TEST(!a.report.complete);
    BOOST_TEST(a.report.instances[0].message == "not scanned to the end within 3000 ms");
    BOOST_TEST(a.report.instances[1].complete);
    // The answer that was under way is dropped.
    a.answer(0, 1, {"k9"});
    BOOST_TEST(a.fakes[0]->questions.empty());
}

BOOST_AUTO_TEST_CASE(keys_beyond_the_limit_are_not_kept) {
    lister_alone a;
    a.start("k", {.max_keys = 2});
    a.answer(0, 0, {"k1", "k2", "k1"});
    BOOST_TEST(!a.how);
    a.answer(1, 5, {"k2", "k1", "k3", "k4"});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(a.report.keys == (strings{"k1", "k2"}), boost::test_tools::per_element());
    BOOST_TEST(a.report.limited);
    BOOST_TEST(!a.report.complete);
    BOOST_TEST(a.report.instances[0].complete);
    BOOST_TEST(a.report.instances[1].message == "stopped at 2 keys");
}

BOOST_AUTO_TEST_CASE(a_server_that_fails_is_told_and_the_others_go_on) {
    lister_alone a(4);
    a.fakes[1]->up = false;
    a.fakes[2]->starved = true;
    a.start("k");
    BOOST_TEST(a.fakes[1]->questions.empty());
    a.answer(0, 3, {"k1"});
    a.fail(0, {.verdict = verdict::refused, .cause = errc::rejected, .message = "ERR no"});
    BOOST_TEST(a.fakes[0]->questions.empty());
    a.answer(3, 0, {"k3"});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!*a.how);
    BOOST_TEST(a.report.keys == (strings{"k1", "k3"}), boost::test_tools::per_element());
    BOOST_TEST(!a.report.complete);
    BOOST_TEST(a.report.instances[0].message == "ERR no");
    BOOST_TEST(a.report.instances[1].message == "unplugged");
    BOOST_TEST(a.report.instances[2].message == "the connection was lost");
    BOOST_TEST(a.report.instances[3].complete);
}

BOOST_AUTO_TEST_CASE(no_instance_can_be_asked) {
    lister_alone a;
    for (auto const& f : a.fakes) f->up = false;
    a.start("k");
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!*a.how);
    BOOST_TEST(!a.report.complete);
}

BOOST_AUTO_TEST_CASE(the_servers_of_a_cluster_are_named_and_awaited) {
    lister_alone a(1);
    a.fakes[0]->servers = {};
    a.start("k");
    BOOST_TEST(!a.how);
    a.at(0s, [&] { a.all.on_came_or_went(0); }); // not yet
    BOOST_TEST(a.fakes[0]->questions.empty());
    a.fakes[0]->servers = {
        .servers = {{.node = 4, .name = "n4"}, {.node = 9, .name = "n9"}}, .layout = 1, .gap = {}};
    a.at(0s, [&] { a.all.on_came_or_went(0); });
    BOOST_REQUIRE(a.fakes[0]->questions.size() == 2U);
    BOOST_TEST(a.fakes[0]->questions[0].asking->arguments(command::scan).node == 4U);
    BOOST_TEST(a.fakes[0]->questions[1].asking->arguments(command::scan).node == 9U);
    a.answer(0, 0, {"k1"});
    a.fail(0, {.verdict = verdict::unknown, .cause = errc::instance_timeout});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(a.report.keys == (strings{"k1"}), boost::test_tools::per_element());
    BOOST_TEST(!a.report.complete);
    BOOST_TEST(a.report.instances[0].message.starts_with("n9: "));
}

BOOST_AUTO_TEST_CASE(slots_that_move_or_have_no_primary_are_told) {
    lister_alone a;
    a.fakes[1]->servers.gap = "3 slots have no primary";
    a.start("k");
    a.answer(1, 0, {});
    a.fakes[0]->servers.layout = 1;
    a.answer(0, 0, {});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!a.report.complete);
    BOOST_TEST(contains(a.report.instances[0].message, "slots have moved"));
    BOOST_TEST(a.report.instances[1].message == "3 slots have no primary");
}

BOOST_AUTO_TEST_CASE(a_shutdown_completes_the_call_and_drops_answers) {
    lister_alone a;
    a.start("k");
    a.at(0s, [&] { a.all.shut_down(); });
    BOOST_REQUIRE(a.how);
    BOOST_TEST((*a.how == errc::shut_down));
    a.answer(0, 3, {"k1"});
    a.answer(1, 0, {});
    BOOST_TEST(a.fakes[0]->questions.empty());
}

// Their keys are sorted sets, as those of many a program, but not every one has deadlines beside
// it.
BOOST_AUTO_TEST_CASE(semaphores_are_found_by_the_deadlines_beside_their_keys) {
    lister_alone a(1);
    a.start("k");
    BOOST_TEST(a.asked(0).permits == 0U);
    a.answer_alone(0, 7, {"k1"});
    BOOST_TEST(a.asked(0).permits == 0U);
    a.answer_alone(0, 0, {"k2"});
    BOOST_TEST(!a.how);
    BOOST_TEST(a.asked(0).permits != 0U);
    BOOST_TEST(a.asked(0).number == 0U);
    BOOST_TEST(a.asked(0).key == "k");
    a.answer_alone(0, 9, {"{k3}:until", "k{x}4:until:own", "k5", "x", "k:until"});
    BOOST_TEST(a.asked(0).permits != 0U);
    BOOST_TEST(a.asked(0).number == 9U);
    a.answer_alone(0, 0, {"{abcd}k}6:until:slot", "{x}:until", "{k{y}:readers}:until", "{}:until"});
    BOOST_REQUIRE(a.how);
    BOOST_TEST(!*a.how);
    BOOST_TEST(a.report.keys == (strings{"k1", "k2", "k3", "k{x}4", "k}6"}),
               boost::test_tools::per_element());
    BOOST_TEST(a.report.complete);
}

BOOST_AUTO_TEST_SUITE_END()
