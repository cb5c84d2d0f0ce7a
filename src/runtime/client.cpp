#include <holdfast/client.hpp>

#include "redis/token.hpp"
#include "runtime/engine.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <string>

namespace holdfast {

namespace {

[[noreturn]] void reject(errc code, std::string const& why) {
    throw system_error(make_error_code(code), why);
}

void check_range(char const* name, std::chrono::milliseconds value, std::chrono::milliseconds least,
                 std::chrono::milliseconds most) {
    if (value >= least && value <= most) return;
    reject(errc::invalid_options, std::string(name) + " is " + std::to_string(value.count()) +
                                      " ms, outside " + std::to_string(least.count()) + " to " +
                                      std::to_string(most.count()) + " ms");
}

// Every key byte is allowed, so a key in a message is cut and made printable.
std::string shown(std::string_view key) {
    constexpr std::size_t most = 64;
    std::string text(key.substr(0, most));
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return '"' + text + (key.size() > most ? "...\"" : "\"");
}

void check(client_options const& o) {
    using namespace std::chrono_literals;
    check_range("instance_timeout", o.instance_timeout, 1ms, 60s);
    check_range("connect_timeout", o.connect_timeout, 1ms, 60s);
    check_range("reconnect_delay", o.reconnect_delay, 1ms, 60s);
    check_range("max_ttl", o.max_ttl, min_ttl, 24h);
    check_range("fence_ttl", o.fence_ttl, o.max_ttl, 366 * 24h);
    if (o.max_kept_releases == 0)
        reject(errc::invalid_options, "max_kept_releases is 0; it must be at least 1");
    if (o.key_prefix.size() >= max_key_size) {
        reject(errc::invalid_options, "key_prefix has " + std::to_string(o.key_prefix.size()) +
                                          " bytes; prefix and key together may have " +
                                          std::to_string(max_key_size));
    }
    if (o.owner_label.size() > max_label_size ||
        !std::all_of(o.owner_label.begin(), o.owner_label.end(), redis::fits_label)) {
        reject(errc::invalid_options, "owner_label is " + shown(o.owner_label) + "; it may have up to " +
                                          std::to_string(max_label_size) +
                                          " letters, digits, and any of . _ - @");
    }
    // https://redis.io/docs/latest/commands/client-setname/
    auto const printable = [](char c) { return c > ' ' && c <= '~'; };
    if (o.name.empty() || !std::all_of(o.name.begin(), o.name.end(), printable)) {
        reject(errc::invalid_options, "name is \"" + std::string(o.name) +
                                          "\"; it must not be empty, nor hold spaces or special characters");
    }
}

void check(std::vector<address> const& instances) {
    if (instances.empty()) reject(errc::invalid_options, "no instances are given");
    if (instances.size() > max_instances) {
        reject(errc::invalid_options, std::to_string(instances.size()) + " instances are given; at most " +
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

client::client(detail::configuration, asio::any_io_executor executor, std::vector<address> const& instances,
               client_options const& options) {
    check(options);
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

asio::any_io_executor const& client::checked_executor() const {
    auto const& executor = checked().executor();
    detail::require_context(executor);
    return executor;
}

lock client::make_lock(std::string_view key) const {
    return make_lock(key, lock_options{});
}

lock client::make_lock(std::string_view key, lock_options const& options) const {
    using namespace std::chrono_literals;
    auto const& engine = checked();
    auto const& prefix = engine.key_prefix();
    if (key.empty()) reject(errc::invalid_key, "the key is empty");
    if (prefix.size() + key.size() > max_key_size) {
        reject(errc::invalid_key, "the key " + shown(key) + " has, with its prefix, " +
                                      std::to_string(prefix.size() + key.size()) + " bytes; at most " +
                                      std::to_string(max_key_size) + " are possible");
    }
    check_range("ttl", options.ttl, min_ttl, engine.max_ttl());
    check_range("retry_delay", options.retry_delay, 1ms, 60s);
    if (options.max_hold != 0ms) check_range("max_hold", options.max_hold, min_ttl, 366 * 24h);
    auto const longest_grace =
        options.max_hold == 0ms ? options.ttl / 3 : std::min(options.ttl / 3, options.max_hold / 2);
    if (options.grace >= 0ms) check_range("grace", options.grace, 0ms, longest_grace);
    check_range("handoff_time", options.handoff_time, 0ms, 60s);
    check_range("yield_to_pollers", options.yield_to_pollers, 0ms, 60s);
    if (options.handoff_limit == 0 || options.handoff_limit > max_handoff_limit) {
        reject(errc::invalid_options, "handoff_limit is " + std::to_string(options.handoff_limit) +
                                          ", outside 1 to " + std::to_string(max_handoff_limit));
    }
    return lock(std::make_shared<detail::lock_state const>(
        detail::lock_state{engine_, engine.executor(), prefix + std::string(key), options}));
}

std::vector<instance_status> client::instances() const {
    return checked().instances();
}

stats client::stats() const {
    return checked().statistics();
}

std::string const& lock::key() const noexcept {
    static std::string const none;
    return state_ ? state_->key : none;
}

lock_options const& lock::options() const noexcept {
    static lock_options const defaults;
    return state_ ? state_->options : defaults;
}

std::string const& lease::key() const noexcept {
    static std::string const none;
    return share_ ? share_->core->lock->key : none;
}

lease lease::share() const {
    if (!share_ || share_->released) throw_error(errc::lease_released);
    auto& core = *share_->core;
    auto another = lease(detail::share_ref(new detail::lease_share(&core)));
    core.shares.fetch_add(1);
    core.shared = true;
    return another;
}

void lease::renew_while(std::function<bool()> wanted) {
    auto core = checked();
    auto const lock = core->lock;
    lock->engine->renew_while(std::move(core), std::move(wanted));
}

namespace detail {

using runtime::operation;

void refuse_use(char const* why) {
    throw system_error(make_error_code(errc::shut_down), why);
}

void async_acquire(lock_state_ptr lock, wait_limit limit, acquire_handler handler, configuration) {
    auto& engine = *lock->engine;
    engine.submit(operation::kind::acquire, std::move(lock), limit, {}, std::move(handler));
}

void async_release(lease_ref lease, share_ref share, release_handler handler, configuration) {
    auto const again = share->released.exchange(true);
    auto const shared = lease->shared.load();
    if (shared && again) return std::move(handler)(release_result(errc::lease_released));
    auto const last = !shared || lease->shares.fetch_sub(1) == 1;
    auto const lock = lease->lock;
    try {
        if (last) {
            return lock->engine->submit(operation::kind::release, {}, {}, lease, std::move(handler));
        }
        auto const lasted = !lease->over && lease_clock::now() < lease->deadline.load();
        std::move(handler)(lasted ? release_result() : release_result(errc::lease_lost));
    } catch (...) {
        // It was not given up. Where another took itself for the last meanwhile, the lease has ended anyway.
        if (shared) lease->shares.fetch_add(1);
        share->released.store(again);
        throw;
    }
}

void async_extend(lease_ref lease, error_handler handler, configuration) {
    auto const lock = lease->lock;
    lock->engine->submit(operation::kind::extend, {}, {}, std::move(lease), std::move(handler));
}

void async_lost(lease_ref lease, std::chrono::nanoseconds ahead, error_handler handler, configuration) {
    auto const lock = lease->lock;
    lock->engine->submit(operation::kind::lost, {}, {wait_limit::kind::until, ahead}, std::move(lease),
                         std::move(handler));
}

void async_shutdown(std::shared_ptr<runtime::engine> engine, error_handler handler, configuration) {
    engine->submit(operation::kind::shutdown, {}, {}, {}, std::move(handler));
}

void async_drain(std::shared_ptr<runtime::engine> engine, std::chrono::nanoseconds limit,
                 error_handler handler, configuration) {
    engine->submit(operation::kind::drain, {}, {wait_limit::kind::until, limit}, {}, std::move(handler));
}

bool is_cancellation(std::exception_ptr const& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (system_error const& thrown) {
        return thrown.code() == boost::system::errc::operation_canceled;
    } catch (...) {
        return false;
    }
}

void end(lease_share& share) noexcept {
    auto& core = *share.core;
    if (core.shared && !share.released.exchange(true) && core.shares.fetch_sub(1) == 1) {
        core.lock->engine->give_up(core);
    }
    if (&share != &core.first) delete &share;
    intrusive_ptr_release(&core);
}

void drop(lease_core* core) noexcept {
    core->lock->engine->drop(*core);
}

} // namespace detail
} // namespace holdfast
