#include "redis/server/credential_keeper.hpp"

#include <boost/asio/post.hpp>

#include <mutex>
#include <utility>

namespace holdfast::redis {

namespace {

/// The time that is left, by the wall clock: services report ends of tokens by that.
lease_clock::duration lifetime_of(credentials const& c) {
    using std::chrono::system_clock;
    constexpr auto for_ever = protocol::credential_rules::for_ever;
    auto const now = system_clock::now();
    if (c.valid_until <= now) return lease_clock::duration::zero();
    return c.valid_until >= now + for_ever ? for_ever : c.valid_until - now;
}

} // namespace

/// Takes one reply, from any thread. After close() it posts nothing, so that the context may go.
class credential_keeper::mailbox {
public:
    mailbox(asio::any_io_executor executor, std::weak_ptr<credential_keeper> to)
        : executor_(std::move(executor))
        , to_(std::move(to)) {}

    static void put(std::shared_ptr<mailbox> const& self, error_code ec, credentials c,
                    bool threw = false) {
        std::lock_guard const lock(self->mutex_);
        if (std::exchange(self->closed_, true)) return;
        // The keeper is locked on its executor alone: it may be destroyed there.
        asio::post(self->executor_, [self, ec, threw, c = std::move(c)]() mutable {
            if (auto const to = self->to_.lock(); to && to->mailbox_ == self) {
                to->on_reply(ec, std::move(c), threw);
            }
        });
        self->executor_ = nullptr;
    }
    void close() noexcept {
        std::lock_guard const lock(mutex_);
        closed_ = true;
        executor_ = nullptr;
    }

private:
    std::mutex mutex_;
    bool closed_ = false;
    asio::any_io_executor executor_;
    std::weak_ptr<credential_keeper> const to_;
};

credential_keeper::credential_keeper(asio::any_io_executor const& executor, credentials fixed,
                                     credentials_source source, std::chrono::milliseconds timeout,
                                     instance_owner& owner, credential_user& user,
                                     link_boundary& boundary)
    : source_(std::move(source))
    , current_(std::move(fixed))
    , timeout_(timeout)
    , owner_(owner)
    , user_(&user)
    , boundary_(boundary)
    , executor_(executor)
    , timer_(executor, owner)
    , complete_(!source_) {
    secrets_.add(current_.password);
}

credential_keeper::~credential_keeper() {
    close();
}

void credential_keeper::close() noexcept {
    user_ = nullptr;
    if (auto const m = std::exchange(mailbox_, nullptr)) m->close();
    timer_.cancel();
}

// The source is the user's. It may throw anything, and may reply at once.
void credential_keeper::ask() {
    if (mailbox_ || user_ == nullptr) return;
    arm(owner_.time() + timeout_);
    auto const m = mailbox_ = std::make_shared<mailbox>(executor_, weak_from_this());
    auto threw = false;
    try {
        source_([m](error_code ec, credentials c) { mailbox::put(m, ec, std::move(c)); });
    } catch (...) {
        threw = true;
    }
    if (threw) mailbox::put(m, {}, {}, true);
}

void credential_keeper::on_reply(error_code ec, credentials c, bool threw) {
    in_turn(owner_, [&] {
        if (user_ == nullptr) return;
        boundary_.run([&] { take(ec, std::move(c), threw); });
    });
}

void credential_keeper::take(error_code ec, credentials c, bool threw) {
    mailbox_.reset();
    if (threw) return fail("it threw an exception");
    if (ec) return fail(ec.message());
    // A client without a password would be the default user.
    if (c.password.empty()) return fail("the password is empty");
    auto const changed = !complete_ || c.user != current_.user || c.password != current_.password;
    keep(std::move(c));
    schedule_.obtained(owner_.time(), lifetime_of(current_), owner_.random_bits());
    arm(schedule_.due());
    user_->on_credentials({}, changed);
}

void credential_keeper::keep(credentials c) {
    secrets_.add(c.password);
    current_ = std::move(c);
    complete_ = true;
}

void credential_keeper::fail(std::string_view problem) {
    schedule_.failed(owner_.time());
    arm(schedule_.due());
    user_->on_credentials(problem, false);
}

void credential_keeper::refused() {
    schedule_.failed(owner_.time());
    if (source_ && !mailbox_) arm(schedule_.due());
}

void credential_keeper::arm(lease_clock::time_point when) {
    if (when == lease_clock::time_point::max()) return timer_.cancel();
    timer_.arm(when - owner_.time(), weak_from_this(), &credential_keeper::on_time);
}

void credential_keeper::on_time() {
    if (user_ == nullptr) return;
    boundary_.run([&] {
        if (!mailbox_) return ask();
        std::exchange(mailbox_, nullptr)->close();
        fail("no reply in time");
    });
}

} // namespace holdfast::redis
