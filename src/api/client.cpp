#include <holdfast/client.hpp>
#include <holdfast/detail/access.hpp>

#include "api/option_checks.hpp"
#include "redis/wire/tombstone.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/engine/lock_state.hpp"
#include "runtime/services/call.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {

namespace asio = boost::asio;
using detail::reject;

namespace {

void check(std::vector<address> const& instances) {
    if (instances.empty()) reject(errc::invalid_options, "no instances are given");
    if (instances.size() > max_instances) {
        reject(errc::invalid_options, std::to_string(instances.size()) +
                                          " instances are given; at most " +
                                          std::to_string(max_instances) + " are possible");
    }
    for (auto it = instances.begin(); it != instances.end(); ++it) {
        auto const twin = std::find_if(std::next(it), instances.end(),
                                       [&](address const& a) { return a.same_server(*it); });
        if (twin != instances.end()) {
            reject(errc::invalid_address,
                   it->to_string() + " is given twice; each instance must be a server of its own");
        }
    }
}

} // namespace

client::client(detail::configuration, asio::any_io_executor executor,
               std::vector<address> const& instances, client_options const& options) {
    detail::check(options);
    check(instances);
    engine_ = std::make_shared<runtime::engine>(std::move(executor), instances, options);
    engine_->start();
}

client& client::operator=(client&& other) noexcept {
    if (this != &other) {
        close();
        engine_ = std::move(other.engine_);
    }
    return *this;
}

client::~client() {
    close();
}

void client::close() noexcept {
    if (engine_) engine_->shut_down_in_background();
}

asio::any_io_executor client::get_executor() const noexcept {
    return engine_ ? engine_->executor() : asio::any_io_executor();
}

runtime::engine& client::checked() const {
    if (!engine_) detail::refuse_use("the client was moved from");
    return *engine_;
}

asio::any_io_executor const& client::own_executor() const {
    return checked().executor();
}

asio::any_io_executor const& client::checked_executor() const {
    auto const& executor = own_executor();
    detail::require_context(executor);
    return executor;
}

lock client::make_lock(std::string_view key) const {
    return make_lock(key, lock_options{});
}

lock client::make_lock(std::string_view key, lock_options const& options) const {
    return detail::access::make_lock(runtime::make_lock_state(parts_of(key, options)));
}

lock client::make_multi_lock(std::vector<std::string_view> keys,
                             lock_options const& options) const {
    auto& engine = checked();
    detail::check(options, engine.max_ttl());
    detail::check_keys(engine.key_prefix(), keys, options);
    if (keys.size() == 1) return make_lock(keys.front(), options);
    return detail::access::make_lock(
        runtime::make_lock_state({.settings = engine.find_or_make_settings(options),
                                  .prefix = engine.key_prefix(),
                                  .key = {},
                                  .keys = keys}));
}

read_write_lock client::make_read_write_lock(std::string_view key,
                                             lock_options const& options) const {
    if (options.fair) {
        reject(errc::invalid_options, "fair is set, and readers and writers take turns without it");
    }
    auto const make = [&](lock_access access) {
        auto parts = parts_of(key, options);
        parts.settings = engine_->find_or_make_settings(options, access);
        return detail::access::make_lock(runtime::make_lock_state(std::move(parts)));
    };
    return {make(lock_access::read), make(lock_access::write)};
}

lock client::make_semaphore(std::string_view key, unsigned permits,
                            lock_options const& options) const {
    if (options.fair) {
        reject(errc::invalid_options, "fair is set, and holders of permits take turns without it");
    }
    if (permits == 0 || permits > max_permits) {
        reject(errc::invalid_options, "permits is " + std::to_string(permits) +
                                          "; it must be 1 to " + std::to_string(max_permits));
    }
    auto parts = parts_of(key, options);
    parts.settings = engine_->find_or_make_settings(options, lock_access::permit,
                                                    static_cast<std::uint16_t>(permits));
    return detail::access::make_lock(runtime::make_lock_state(std::move(parts)));
}

detail::lock_parts client::parts_of(std::string_view key, lock_options const& options) const {
    auto& engine = checked();
    detail::check_key(engine.key_prefix(), key);
    detail::check(options, engine.max_ttl());
    return {engine.find_or_make_settings(options), engine.key_prefix(), key, {}};
}

detail::lock_parts client::parts_of(std::string_view key) const {
    auto& engine = checked();
    detail::check_key(engine.key_prefix(), key);
    return {engine.find_or_make_settings({}), engine.key_prefix(), key, {}};
}

detail::lock_state_ptr client::make_state(std::string_view key) const {
    return runtime::make_lock_state(parts_of(key));
}

detail::initiate_adopt client::make_adoption(std::string_view key, lease_token const& token,
                                             lock_options const& options) const {
    auto parts = parts_of(key, options);
    detail::check(token, lock_access::exclusive);
    return {runtime::make_lock_state(std::move(parts)), token};
}

detail::initiate_adopt client::make_adoption(lock const& of, lease_token const& token) {
    auto const& state = detail::access::state_of(of);
    if (!state) detail::refuse_use("the lock was moved from");
    detail::require_context(state->executor());
    detail::check(token, state->access());
    return {state, token};
}

detail::initiate_release_key client::make_release(std::string_view key,
                                                  std::string_view holder_token) const {
    auto parts = parts_of(key);
    if (holder_token.empty()) reject(errc::invalid_options, "the token is empty");
    return {{runtime::make_lock_state(std::move(parts))}, std::string(holder_token)};
}

detail::initiate_release_key client::make_release(lock const& of, std::string_view holder_token) {
    auto const& state = detail::access::state_of(of);
    if (!state) detail::refuse_use("the lock was moved from");
    detail::require_context(state->executor());
    if (!state->keys().empty())
        reject(errc::invalid_options, "a lock on several keys: release each of them");
    if (holder_token.empty()) reject(errc::invalid_options, "the token is empty");
    return {{state}, std::string(holder_token)};
}

detail::initiate_revoke client::make_revocation(key_report const& seen) const {
    auto const& prefix = checked().key_prefix();
    if (!seen.key.starts_with(prefix)) {
        reject(errc::invalid_key, "the report is about " + detail::quoted(seen.key) +
                                      ", which is no key with the prefix " +
                                      detail::quoted(prefix));
    }
    std::vector<std::string> digests;
    for (auto const* const users : {&seen.readers, &seen.permits}) {
        for (auto const& user : *users) digests.push_back(user.digest);
    }
    auto const shown = seen.state == key_state::held || seen.state == key_state::revoked;
    if (digests.empty() && !seen.shared() && !seen.counted()) digests.push_back(seen.digest);
    if (!shown || digests.empty() || digests.front().empty()) {
        reject(errc::invalid_options, "the report shows no holder: " + seen.to_string());
    }
    auto const key = std::string_view(seen.key).substr(prefix.size());
    return {{make_state(key)}, std::move(digests)};
}

detail::initiate_revoke client::make_revocation(std::string_view key,
                                                std::string_view digest) const {
    auto const is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    auto state = make_state(key);
    if (digest.size() != redis::digest_size || !std::ranges::all_of(digest, is_digit)) {
        reject(errc::invalid_options, "the digest is " + detail::quoted(digest) + "; it has " +
                                          std::to_string(redis::digest_size) +
                                          " hexadecimal digits");
    }
    return {{std::move(state)}, {std::string(digest)}};
}

void client::check_list(std::string_view prefix, list_options const& options) const {
    auto const& own = checked().key_prefix();
    if (!prefix.empty()) detail::check_key(own, prefix);
    detail::check(options);
}

std::vector<instance_status> client::instances() const {
    return checked().instances();
}

client_stats client::stats() const {
    return checked().statistics();
}

namespace detail {

void async_adopt(lock_state_ptr lock, lease_token token, acquire_handler handler, configuration) {
    auto& engine = lock->engine();
    auto extras = std::make_unique<runtime::acquire_extras>();
    extras->adopted = std::make_unique<lease_token const>(std::move(token));
    engine.submit(runtime::acquire_call{
        .handler = std::move(handler), .lock = std::move(lock), .extras = std::move(extras)});
}

void async_inspect(lock_state_ptr key, inspect_handler handler, configuration) {
    auto& engine = key->engine();
    engine.submit(runtime::inspect_call{.handler = std::move(handler), .key = std::move(key)});
}

void async_wait_change(lock_state_ptr key, key_report_ptr last, inspect_handler handler,
                       configuration) {
    auto& engine = key->engine();
    engine.submit(runtime::wait_change_call{
        .handler = std::move(handler), .key = std::move(key), .last = std::move(last)});
}

void async_release_key(lock_state_ptr key, std::string token, error_handler handler,
                       configuration) {
    auto& engine = key->engine();
    engine.submit(runtime::release_key_call{
        .handler = std::move(handler), .key = std::move(key), .token = std::move(token)});
}

void async_force_release(lock_state_ptr key, key_report_ptr seen, inspect_handler handler,
                         configuration) {
    auto& engine = key->engine();
    engine.submit(runtime::force_release_call{
        .handler = std::move(handler), .key = std::move(key), .seen = std::move(seen)});
}

void async_revoke(lock_state_ptr key, std::vector<std::string> digests, inspect_handler handler,
                  configuration) {
    auto& engine = key->engine();
    engine.submit(runtime::revoke_call{
        .handler = std::move(handler), .key = std::move(key), .digests = std::move(digests)});
}

void async_list(std::shared_ptr<runtime::engine> engine, std::string_view prefix,
                list_options const& options, list_handler handler, configuration) {
    auto job = runtime::make_list_job(engine->key_prefix() + std::string(prefix), options);
    engine->submit(runtime::list_call{.handler = std::move(handler), .job = std::move(job)});
}

void async_wait_ready(std::shared_ptr<runtime::engine> engine, wait_limit limit,
                      error_handler handler, configuration) {
    engine->submit(runtime::ready_call{.handler = std::move(handler), .limit = limit});
}

void async_shutdown(std::shared_ptr<runtime::engine> engine, error_handler handler, configuration) {
    engine->submit(runtime::shutdown_call{.handler = std::move(handler)});
}

void async_drain(std::shared_ptr<runtime::engine> engine, std::chrono::nanoseconds limit,
                 error_handler handler, configuration) {
    engine->submit(runtime::drain_call{.handler = std::move(handler), .limit = limit});
}

} // namespace detail
} // namespace holdfast
