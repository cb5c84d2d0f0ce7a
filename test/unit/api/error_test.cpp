// The error of every operation: its codes and conditions, and its way through Asio's completion
// tokens.
#include <holdfast/error.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace asio = boost::asio;
using holdfast::errc;
using holdfast::error_code;
using holdfast::error_condition;
using holdfast::system_error;

namespace {

constexpr std::array every_code{errc::contended,          errc::no_quorum,
                                errc::wait_timeout,       errc::cancelled,
                                errc::granted_too_late,   errc::lease_lost,
                                errc::lease_released,     errc::shut_down,
                                errc::unreachable,        errc::instance_timeout,
                                errc::access_denied,      errc::not_redis,
                                errc::read_only,          errc::wrong_type,
                                errc::duplicate_instance, errc::quarantined,
                                errc::too_few_replicas,   errc::invalid_fence,
                                errc::rejected,           errc::no_sentinel_majority,
                                errc::invalid_key,        errc::invalid_options,
                                errc::invalid_address,    errc::out_of_memory};
constexpr std::array every_condition{error_condition::unavailable, error_condition::not_held,
                                     error_condition::invalid_argument};

std::shared_ptr<holdfast::acquire_report const> some_report() {
    auto r = std::make_shared<holdfast::acquire_report>();
    r->key = "seat:7";
    r->quorum = 2;
    r->attempts = 1;
    r->instances.push_back({.address = "a:1",
                            .outcome = holdfast::instance_outcome::rejected,
                            .ttl_left = {},
                            .message = "OOM command not allowed"});
    return r;
}

/// An operation that completes with `e`, initiated as the library's own functions are.
template <class Token>
auto ends_with(asio::io_context& context, holdfast::error e, Token&& token) {
    return asio::async_initiate<Token, void(holdfast::error, int)>(
        [&context](auto handler, holdfast::error how) {
            asio::post(context, [h = std::move(handler), how = std::move(how)]() mutable {
                std::move(h)(std::move(how), 42);
            });
        },
        token, std::move(e));
}

/// The code and the message of the exception that `throwing` throws; empty if there is none.
template <class Throwing>
std::optional<std::pair<error_code, std::string>> thrown_by(Throwing&& throwing) {
    try {
        throwing();
    } catch (system_error const& e) {
        return std::pair(e.code(), std::string(e.what()));
    }
    return std::nullopt;
}

} // namespace

BOOST_AUTO_TEST_SUITE(error)

BOOST_AUTO_TEST_CASE(every_code_has_a_message_of_its_own) {
    std::set<std::string> messages;
    for (auto const e : every_code) {
        auto const code = make_error_code(e);
        BOOST_TEST(code.failed());
        if (e != errc::cancelled) {
            BOOST_TEST((code.category() == holdfast::error_category()));
            BOOST_TEST(code.value() == static_cast<int>(e));
        }
        BOOST_TEST(!code.message().empty());
        BOOST_TEST(code.message().find("unknown") == std::string::npos);
        BOOST_TEST(messages.insert(code.message()).second);
    }
    // No code exists beyond the last.
    BOOST_TEST(every_code.size() == static_cast<std::size_t>(errc::out_of_memory));
    BOOST_TEST(holdfast::error_category().message(0) == "unknown holdfast error 0");
    BOOST_TEST(holdfast::error_category().message(25) == "unknown holdfast error 25");
    BOOST_TEST(std::string(holdfast::error_category().name()) == "holdfast");
}

BOOST_AUTO_TEST_CASE(every_condition_has_a_message_of_its_own) {
    std::set<std::string> messages;
    for (auto const c : every_condition) {
        auto const message = make_error_condition(c).message();
        BOOST_TEST(!message.empty());
        BOOST_TEST(message.find("unknown") == std::string::npos);
        BOOST_TEST(messages.insert(message).second);
    }
    BOOST_TEST(holdfast::condition_category().message(99) == "unknown holdfast condition 99");
    BOOST_TEST(std::string(holdfast::condition_category().name()) == "holdfast.condition");
}

BOOST_AUTO_TEST_CASE(each_code_belongs_to_its_conditions_and_to_no_other) {
    std::set<errc> const unavailable{
        errc::no_quorum,           errc::unreachable,        errc::instance_timeout,
        errc::access_denied,       errc::not_redis,          errc::read_only,
        errc::wrong_type,          errc::duplicate_instance, errc::quarantined,
        errc::too_few_replicas,    errc::invalid_fence,      errc::rejected,
        errc::no_sentinel_majority};
    std::set<errc> const not_held{errc::lease_lost, errc::lease_released};
    std::set<errc> const invalid{errc::invalid_key, errc::invalid_options, errc::invalid_address};
    for (auto const e : every_code) {
        BOOST_TEST_CONTEXT(make_error_code(e).message()) {
            error_code const code = e;
            BOOST_TEST((code == error_condition::unavailable) == unavailable.contains(e));
            BOOST_TEST((code == error_condition::not_held) == not_held.contains(e));
            BOOST_TEST((code == error_condition::invalid_argument) == invalid.contains(e));
            // A holdfast::error compares as its code does.
            holdfast::error const whole = e;
            for (auto const c : every_condition) BOOST_TEST((whole == c) == (code == c));
            for (auto const other : every_code) BOOST_TEST((whole == other) == (e == other));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_foreign_code_belongs_to_no_condition_of_ours) {
    for (int value = 1; value < 30; ++value) {
        error_code const foreign(value, boost::system::generic_category());
        for (auto const c : every_condition) BOOST_TEST(!(foreign == c));
    }
    for (auto const c : every_condition) BOOST_TEST(!(error_code{} == c));
}

BOOST_AUTO_TEST_CASE(generic_conditions_understand_our_codes) {
    namespace generic = boost::system::errc;
    BOOST_TEST((make_error_code(errc::contended) == generic::device_or_resource_busy));
    BOOST_TEST((make_error_code(errc::wait_timeout) == generic::timed_out));
    BOOST_TEST((make_error_code(errc::cancelled) == generic::operation_canceled));
    BOOST_TEST((make_error_code(errc::out_of_memory) == generic::not_enough_memory));
    for (auto const e : {errc::invalid_key, errc::invalid_options, errc::invalid_address}) {
        BOOST_TEST((make_error_code(e) == generic::invalid_argument));
    }
    // Each generic condition corresponds to one code.
    for (auto const e : every_code) {
        auto const code = make_error_code(e);
        BOOST_TEST((code == generic::timed_out) == (e == errc::wait_timeout));
        BOOST_TEST((code == generic::operation_canceled) == (e == errc::cancelled));
        BOOST_TEST((code == generic::device_or_resource_busy) == (e == errc::contended));
        BOOST_TEST((code == generic::not_enough_memory) == (e == errc::out_of_memory));
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_is_that_of_asio) {
    error_code const aborted = asio::error::operation_aborted;
    error_code const code = errc::cancelled;
    BOOST_TEST((code == asio::error::operation_aborted));
    BOOST_TEST((aborted == errc::cancelled));
    holdfast::error const whole(errc::cancelled, some_report());
    BOOST_TEST((whole == errc::cancelled));
    BOOST_TEST((whole == asio::error::operation_aborted));
    BOOST_TEST((whole == boost::system::errc::operation_canceled));
    BOOST_TEST((whole == aborted));
    for (auto const e : every_code) {
        holdfast::error const other = e;
        BOOST_TEST((other == asio::error::operation_aborted) == (e == errc::cancelled));
        BOOST_TEST((other == boost::system::errc::operation_canceled) == (e == errc::cancelled));
        BOOST_TEST((other == make_error_code(e)));
    }
    auto const thrown = thrown_by([&] { holdfast::throw_error(whole); });
    BOOST_REQUIRE(thrown.has_value());
    BOOST_TEST((thrown->first == asio::error::operation_aborted));
    BOOST_TEST(thrown->second.starts_with(whole.what()));
}

BOOST_AUTO_TEST_CASE(a_new_error_is_success) {
    holdfast::error const ok;
    BOOST_TEST(!ok);
    BOOST_TEST(!ok.code().failed());
    BOOST_TEST(ok.report() == nullptr);
    for (auto const e : every_code) BOOST_TEST(!(ok == e));
    for (auto const c : every_condition) BOOST_TEST(!(ok == c));
}

BOOST_AUTO_TEST_CASE(an_error_is_its_code_and_its_report) {
    auto const report = some_report();
    holdfast::error const e(errc::no_quorum, report);
    BOOST_TEST(static_cast<bool>(e));
    BOOST_TEST((e.code() == errc::no_quorum));
    BOOST_TEST(e.report() == report.get());
    error_code const code = e;
    BOOST_TEST((code == errc::no_quorum));
    auto const copy = e;
    BOOST_TEST(copy.report() == report.get()); // the report is shared, not copied
}

BOOST_AUTO_TEST_CASE(what_is_the_report_and_the_codes_message) {
    auto const report = some_report();
    BOOST_TEST(holdfast::error(errc::no_quorum, report).what() ==
               report->to_string() + ": too few instances answered");
    BOOST_TEST(holdfast::error(errc::contended).what() == "the lock is held");
    BOOST_TEST(holdfast::error(errc::no_quorum, report).what().find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_thrown_carries_the_code_and_reads_as_what) {
    for (auto const& e :
         {holdfast::error(errc::no_quorum, some_report()), holdfast::error(errc::lease_lost)}) {
        auto const thrown = thrown_by([&] { holdfast::throw_error(e); });
        BOOST_REQUIRE(thrown.has_value());
        BOOST_TEST((thrown->first == e.code()));
        // Boost appends the code in brackets.
        BOOST_TEST_CONTEXT(thrown->second) BOOST_TEST(thrown->second.starts_with(e.what()));
    }
}

BOOST_AUTO_TEST_CASE(asio_takes_it_for_a_disposition) {
    static_assert(asio::is_disposition<holdfast::error>::value);
    using traits = asio::disposition_traits<holdfast::error>;
    BOOST_TEST(traits::not_an_error(holdfast::error()));
    BOOST_TEST((asio::no_error == holdfast::error()));
    for (auto const e : every_code) {
        BOOST_TEST(!traits::not_an_error(holdfast::error(e)));
        BOOST_TEST((asio::no_error != holdfast::error(e)));
        auto const thrown = thrown_by([&] { traits::throw_exception(holdfast::error(e)); });
        BOOST_REQUIRE(thrown.has_value());
        BOOST_TEST((thrown->first == e));
    }
}

BOOST_AUTO_TEST_CASE(success_is_no_exception_and_a_failure_is_one) {
    using traits = asio::disposition_traits<holdfast::error>;
    BOOST_TEST((traits::to_exception_ptr(holdfast::error()) == nullptr));
    holdfast::error const e(errc::no_quorum, some_report());
    auto const pointer = traits::to_exception_ptr(e);
    BOOST_REQUIRE((pointer != nullptr));
    auto const thrown = thrown_by([&] { std::rethrow_exception(pointer); });
    BOOST_REQUIRE(thrown.has_value());
    BOOST_TEST((thrown->first == errc::no_quorum));
    BOOST_TEST(thrown->second.starts_with(e.what()));
}

BOOST_AUTO_TEST_CASE(co_await_throws_it_and_gives_the_rest) {
    asio::io_context context;
    int got = 0;
    std::optional<std::pair<error_code, std::string>> thrown;
    auto const body = [&]() -> asio::awaitable<void> {
        got = co_await ends_with(context, holdfast::error(), asio::deferred);
        try {
            got = co_await ends_with(context, holdfast::error(errc::contended, some_report()),
                                     asio::deferred);
            got = 0;
        } catch (system_error const& e) {
            thrown.emplace(e.code(), e.what());
        }
    };
    std::exception_ptr unexpected;
    asio::co_spawn(context, body(), [&](std::exception_ptr e) { unexpected = e; });
    context.run_for(std::chrono::seconds(10));
    BOOST_TEST((unexpected == nullptr));
    BOOST_TEST(got == 42);
    BOOST_REQUIRE(thrown.has_value());
    BOOST_TEST((thrown->first == errc::contended));
    BOOST_TEST(thrown->second.find("OOM command not allowed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(as_tuple_returns_it_with_its_report) {
    asio::io_context context;
    auto const report = some_report();
    holdfast::error got;
    int value = 0;
    auto const body = [&]() -> asio::awaitable<void> {
        auto [e, v] =
            co_await ends_with(context, holdfast::error(errc::no_quorum, report), asio::as_tuple);
        got = e;
        value = v;
    };
    std::exception_ptr unexpected;
    asio::co_spawn(context, body(), [&](std::exception_ptr e) { unexpected = e; });
    context.run_for(std::chrono::seconds(10));
    BOOST_TEST((unexpected == nullptr));
    BOOST_TEST((got == errc::no_quorum));
    BOOST_TEST(got.report() == report.get());
    BOOST_TEST(value == 42);
}

BOOST_AUTO_TEST_CASE(a_future_throws_it) {
    asio::io_context context;
    auto good = ends_with(context, holdfast::error(), asio::use_future);
    auto bad = ends_with(context, holdfast::error(errc::read_only), asio::use_future);
    context.run_for(std::chrono::seconds(10));
    BOOST_REQUIRE((bad.wait_for(std::chrono::seconds(0)) == std::future_status::ready));
    BOOST_TEST(good.get() == 42);
    auto const thrown = thrown_by([&] { bad.get(); });
    BOOST_REQUIRE(thrown.has_value());
    BOOST_TEST((thrown->first == errc::read_only));
    BOOST_TEST((thrown->first == error_condition::unavailable));
}

BOOST_AUTO_TEST_CASE(a_handler_may_take_a_plain_error_code) {
    asio::io_context context;
    error_code got;
    ends_with(context, holdfast::error(errc::wrong_type, some_report()),
              [&](error_code ec, int) { got = ec; });
    context.run_for(std::chrono::seconds(10));
    BOOST_TEST((got == errc::wrong_type));
}

BOOST_AUTO_TEST_CASE(its_code_may_be_redirected) {
    asio::io_context context;
    holdfast::error const bad(errc::no_quorum, some_report());
    error_code to_callback, to_future, ec;
    int by_callback = 0, awaited = 0;
    ends_with(context, bad, asio::redirect_error([&](int v) { by_callback = v; }, to_callback));
    auto by_future = ends_with(context, bad, asio::redirect_error(asio::use_future, to_future));
    auto const body = [&]() -> asio::awaitable<void> {
        awaited += co_await ends_with(context, bad, asio::redirect_error(ec));
        BOOST_TEST((ec == errc::no_quorum));
        awaited +=
            co_await ends_with(context, errc::contended, asio::redirect_error(asio::deferred, ec));
        BOOST_TEST((ec == errc::contended));
        auto const kept = asio::redirect_error(asio::use_awaitable, ec);
        awaited += co_await ends_with(context, errc::read_only, kept);
        BOOST_TEST((ec == errc::read_only));
        auto both = co_await ends_with(context, errc::granted_too_late,
                                       asio::redirect_error(asio::as_tuple, ec));
        awaited += std::get<0>(both);
        BOOST_TEST((ec == errc::granted_too_late));
        awaited += co_await ends_with(context, holdfast::error(), asio::redirect_error(ec));
        BOOST_TEST(!ec);
    };
    std::exception_ptr unexpected;
    asio::co_spawn(context, body(), [&](std::exception_ptr e) { unexpected = e; });
    context.run_for(std::chrono::seconds(10));
    BOOST_TEST((unexpected == nullptr));
    BOOST_TEST(awaited == 5 * 42);
    BOOST_TEST(by_callback == 42);
    BOOST_TEST((to_callback == errc::no_quorum));
    BOOST_REQUIRE((by_future.wait_for(std::chrono::seconds(0)) == std::future_status::ready));
    BOOST_TEST(by_future.get() == 42);
    BOOST_TEST((to_future == errc::no_quorum));
}

BOOST_AUTO_TEST_CASE(a_redirected_handler_keeps_its_executor_and_its_slot) {
    asio::io_context context, other;
    asio::cancellation_signal signal;
    error_code ec;
    auto connected = false;
    auto ran_on_its_own = false;
    auto const start = [&](auto handler) {
        connected = asio::get_associated_cancellation_slot(handler).is_connected();
        auto const executor = asio::get_associated_executor(handler, context.get_executor());
        asio::post(executor, [h = std::move(handler)]() mutable {
            std::move(h)(holdfast::error(errc::wait_timeout), 42);
        });
    };
    auto token = asio::redirect_error(
        asio::bind_executor(other, asio::bind_cancellation_slot(
                                       signal.slot(), [&](int) { ran_on_its_own = true; })),
        ec);
    asio::async_initiate<decltype(token), void(holdfast::error, int)>(start, token);
    BOOST_TEST(connected);
    BOOST_TEST(context.poll() == 0U);
    BOOST_TEST(other.poll() == 1U);
    BOOST_TEST(ran_on_its_own);
    BOOST_TEST((ec == errc::wait_timeout));
}

BOOST_AUTO_TEST_CASE(success_is_the_success_of_everybody) {
    holdfast::error const none{holdfast::errc{}};
    BOOST_TEST((none.code() == boost::system::error_code()));
    BOOST_TEST(!none);
}

BOOST_AUTO_TEST_CASE(the_exception_has_the_report) {
    auto const report = some_report();
    holdfast::error const e(errc::no_quorum, report);
    try {
        holdfast::throw_error(e);
    } catch (holdfast::lock_error const& caught) {
        BOOST_TEST(caught.report() == report.get());
        BOOST_TEST((caught.failure() == errc::no_quorum));
        BOOST_TEST((caught.code() == errc::no_quorum));
        BOOST_TEST(std::string_view(caught.what()).starts_with(e.what()));
    }
    BOOST_CHECK_THROW(holdfast::throw_error(errc::shut_down), holdfast::lock_error);
}

BOOST_AUTO_TEST_CASE(an_error_is_printed_as_it_reads) {
    std::ostringstream out;
    out << holdfast::error(errc::no_quorum, some_report()) << " | " << holdfast::error();
    BOOST_TEST(out.str() == holdfast::error(errc::no_quorum, some_report()).what() + " | " +
                                holdfast::error().what());
}

BOOST_AUTO_TEST_SUITE_END()
