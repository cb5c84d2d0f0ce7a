// Checks the options of a client and its locks, when the user passes them in.
#ifndef HOLDFAST_API_OPTION_CHECKS_HPP
#define HOLDFAST_API_OPTION_CHECKS_HPP

#include <holdfast/error.hpp>
#include <holdfast/lease_token.hpp>
#include <holdfast/list_report.hpp>
#include <holdfast/options.hpp>

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// @throws system_error  what() begins with `message`.
[[noreturn]] void reject(errc code, std::string const& message);

/// A key or label for a message: quoted, shortened and printable, because it may hold any byte.
std::string quoted(std::string_view key);

/// @throws system_error  errc::invalid_options; what() names the option, its value and its range.
void check(client_options const&);
void check(lock_options const&, std::chrono::milliseconds max_ttl);
/// `access`: of the lock that takes it over.
void check(lease_token const&, lock_access);
void check(list_options const&);
/// @throws system_error  errc::invalid_key; what() shows the key.
void check_key(std::string_view prefix, std::string_view key);
/// Of a lock on several keys: sorts them. `options` are its options, which are valid for one key.
void check_keys(std::string_view prefix, std::span<std::string_view> keys, lock_options const&);
void check_interval(std::chrono::milliseconds);
void check_ttl(std::chrono::milliseconds ttl, std::chrono::milliseconds max_ttl);

} // namespace holdfast::detail

#endif
