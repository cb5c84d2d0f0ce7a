#ifndef HOLDFAST_ERROR_HPP
#define HOLDFAST_ERROR_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/disposition.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/system/error_category.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace holdfast {

/// The error code of Boost.System.
using boost::system::error_code;
/// The exception of Boost.System. The library throws it, and lock_error, which derives from it.
using boost::system::system_error;

/// Why a call failed. Each code has one cause: contended is never an outage, cancelled is never a
/// time limit of this library, and lease_lost is never a release by the holder. doc/errors.md has
/// the cause, the state of the key and the remedy of each code.
///
/// From unreachable to no_sentinel_majority they are errors of one instance. A call fails with one
/// of these when all the instances that kept it from a quorum agree on it, else with no_quorum.
enum class errc {
    contended = 1,    ///< the lock is held: a quorum voted, and too many votes were against
    no_quorum,        ///< too few instances answered; the report says which, and why
    wait_timeout,     ///< the lock was held for all of the time given to try_acquire_for
    cancelled,        ///< the caller cancelled; the code is boost::asio::error::operation_aborted
    granted_too_late, ///< no quorum granted within the ttl: the servers are slower than the lease
                      ///< is long. The client repeats a try that ran out while this process was
                      ///< stopped
    lease_lost,       ///< the lease ended without a release: expired, deleted or taken
    lease_released,   ///< the lease was released before
    shut_down,        ///< the client was shut down or destroyed

    // Errors of one instance.
    unreachable,        ///< no connection could be made, or the connection was closed
    instance_timeout,   ///< the instance is connected and does not answer within instance_timeout
    access_denied,      ///< wrong password, unknown user, or a command that the ACL forbids
    not_redis,          ///< the answer is not that of Redis or Valkey
    read_only,          ///< the instance is a replica
    wrong_type,         ///< the key holds something that is not a string, so it is no lock
    duplicate_instance, ///< two configured addresses lead to one server
    quarantined,        ///< the instance may have forgotten its grants; it has no vote for now
    too_few_replicas,   ///< too few replicas of the instance have the grant (replicas)
    invalid_fence,      ///< the counter of the key's fences holds no number, or one too large
    rejected,           ///< any other error of the server; the report quotes it
    /// No majority of all known sentinels names one primary, or none has done so for 2 s. The
    /// report has the answer of each sentinel.
    no_sentinel_majority,

    invalid_key,     ///< empty, or longer than max_key_size with the prefix
    invalid_options, ///< a value out of its range; the message names it
    invalid_address, ///< an address that cannot be parsed, or is given twice

    out_of_memory, ///< memory ran out for this operation; votes for it are given back
};

/// Groups of codes, for `ec == error_condition::unavailable`.
enum class error_condition {
    unavailable = 1,  ///< too few instances took part: no_quorum, and each instance's own code
    not_held,         ///< lease_lost, lease_released
    invalid_argument, ///< invalid_key, invalid_options, invalid_address
};

/// The category of errc, with the name "holdfast".
HOLDFAST_API boost::system::error_category const& error_category() noexcept;
/// The category of error_condition.
HOLDFAST_API boost::system::error_category const& condition_category() noexcept;

/// errc::cancelled becomes boost::asio::error::operation_aborted, as a cancellation has everywhere
/// in Asio. So a caller that awaits several operations sees one code for it. All other codes belong
/// to error_category().
inline error_code make_error_code(errc e) noexcept {
    if (e == errc::cancelled) return boost::asio::error::operation_aborted;
    return {static_cast<int>(e), error_category()};
}
/// The condition for a group of codes, in condition_category().
inline boost::system::error_condition make_error_condition(error_condition c) noexcept {
    return {static_cast<int>(c), condition_category()};
}

} // namespace holdfast

template <>
struct boost::system::is_error_code_enum<holdfast::errc> : std::true_type {};
template <>
struct boost::system::is_error_condition_enum<holdfast::error_condition> : std::true_type {};

namespace holdfast {

/// The result of an operation: an error code and, for a failed acquire or extend, its report.
///
/// It is the first argument of every handler of this library. It converts to `error_code`, so a
/// handler may take that instead. Asio treats it like an error code (it is a *disposition*).
/// co_await and futures throw it as lock_error, a `boost::system::system_error`
/// with the report.
/// `as_tuple` returns it, and `wait_for_one_error` checks it. `boost::asio::redirect_error` stores
/// the code alone, and `boost::asio::redirect_disposition` all of it.
///
/// @par Thread safety  Distinct objects: safe. The report is immutable and shared.
class HOLDFAST_API error {
public:
    /// Success.
    error() noexcept = default;
    /// A failure with this code, or success for `errc{}`.
    error(errc code) noexcept
        : code_(code == errc{} ? error_code{} : make_error_code(code)) {}
    /// A failure with this code and the answers of the instances; `report` may be null.
    error(errc code, std::shared_ptr<holdfast::acquire_report const> report) noexcept
        : code_(make_error_code(code))
        , report_(std::move(report)) {}

    /// The code, without the report.
    error_code code() const noexcept { return code_; }
    /// As code(): a handler may take an `error_code`.
    operator error_code() const noexcept { return code_; }
    /// True if the operation failed.
    explicit operator bool() const noexcept { return code_.failed(); }

    /// The answers that kept an acquire or an extend from succeeding, instance by instance. Null on
    /// success, and if no instance had a part in the failure.
    holdfast::acquire_report const* report() const noexcept { return report_.get(); }

    /// One readable line: the report, if any, and the message of the code.
    std::string what() const;

    /// Whether the code is `b`.
    friend bool operator==(error const& a, errc b) noexcept {
        return a.code_ == make_error_code(b);
    }
    /// Whether the code belongs to the group `b`.
    friend bool operator==(error const& a, error_condition b) noexcept {
        return a.code_ == make_error_condition(b);
    }
    /// Whether the code is `b`.
    friend bool operator==(error const& a, error_code const& b) noexcept { return a.code_ == b; }
    /// Whether the code belongs to the group `b`.
    friend bool operator==(error const& a, boost::system::error_condition const& b) noexcept {
        return a.code_ == b;
    }

private:
    error_code code_;
    std::shared_ptr<holdfast::acquire_report const> report_;
};

/// As `e.what()`.
HOLDFAST_API std::ostream& operator<<(std::ostream&, error const& e);

/// The exception that co_await and futures throw for an error. what() begins with the text of
/// error::what().
class HOLDFAST_API lock_error : public system_error {
public:
    /// Keeps a copy of the error, with its report.
    explicit lock_error(error const& e);
    /// In the library, so the type has one identity in all of a program.
    ~lock_error() override;

    /// As error::report().
    holdfast::acquire_report const* report() const noexcept { return failure_.report(); }
    /// The error that was thrown.
    holdfast::error const& failure() const noexcept { return failure_; }

private:
    holdfast::error failure_;
};

/// Throws lock_error.
[[noreturn]] HOLDFAST_API void throw_error(error const& e);

namespace detail {

/// The exception that throw_error() throws; null if there is no error.
HOLDFAST_API std::exception_ptr to_exception_ptr(error const& e) noexcept;

/// A handler that takes an error code, called with an error.
template <class Handler>
struct code_handler {
    template <class... Args>
    void operator()(error const& e, Args&&... args) {
        std::move(handler)(e.code(), std::forward<Args>(args)...);
    }
    Handler handler;
};

/// Starts an operation that completes with an error, for a handler that takes an error code.
template <class Initiation>
struct code_initiation : Initiation {
    explicit code_initiation(Initiation i)
        : Initiation(std::move(i)) {}

    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) && {
        static_cast<Initiation&&> (*this)(
            code_handler<std::decay_t<Handler>>{std::forward<Handler>(handler)},
            std::forward<Args>(args)...);
    }
    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) const& {
        static_cast<Initiation const&> (*this)(
            code_handler<std::decay_t<Handler>>{std::forward<Handler>(handler)},
            std::forward<Args>(args)...);
    }
};

} // namespace detail

} // namespace holdfast

template <>
struct boost::asio::disposition_traits<holdfast::error> {
    static bool not_an_error(holdfast::error const& e) noexcept { return !e; }
    static void throw_exception(holdfast::error e) { holdfast::throw_error(e); }
    static std::exception_ptr to_exception_ptr(holdfast::error const& e) noexcept {
        return holdfast::detail::to_exception_ptr(e);
    }
};

template <template <class, class> class Associator, class Handler, class DefaultCandidate>
struct boost::asio::associator<Associator, holdfast::detail::code_handler<Handler>,
                               DefaultCandidate> : Associator<Handler, DefaultCandidate> {
    static auto get(holdfast::detail::code_handler<Handler> const& h) noexcept {
        return Associator<Handler, DefaultCandidate>::get(h.handler);
    }
    static auto get(holdfast::detail::code_handler<Handler> const& h,
                    DefaultCandidate const& c) noexcept {
        return Associator<Handler, DefaultCandidate>::get(h.handler, c);
    }
};

/// Asio's own specialization redirects error codes alone, and would pass our errors on as results.
template <class Token, class R, class... Args>
struct boost::asio::async_result<boost::asio::redirect_error_t<Token>, R(holdfast::error, Args...)>
    : async_result<redirect_error_t<Token>, R(holdfast::error_code, Args...)> {
    template <class Initiation, class RawToken, class... InitArgs>
    static auto initiate(Initiation&& initiation, RawToken&& token, InitArgs&&... args) {
        using of_codes = async_result<redirect_error_t<Token>, R(holdfast::error_code, Args...)>;
        return of_codes::initiate(holdfast::detail::code_initiation<std::decay_t<Initiation>>(
                                      std::forward<Initiation>(initiation)),
                                  std::forward<RawToken>(token), std::forward<InitArgs>(args)...);
    }
};

#endif
