// The credentials of an instance: those of its address, or those of a source, which is asked again
// and again.
#ifndef HOLDFAST_REDIS_CREDENTIAL_KEEPER_HPP
#define HOLDFAST_REDIS_CREDENTIAL_KEEPER_HPP

#include <holdfast/credentials.hpp>

#include "protocol/server/credential_schedule.hpp"
#include "redis/net/link_boundary.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/server/instance.hpp"
#include "redis/wire/secret_list.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/system/error_code.hpp>

#include <chrono>
#include <memory>
#include <string_view>

namespace holdfast::redis {

namespace asio = boost::asio;
using boost::system::error_code;

/// Called within a turn.
class credential_user {
public:
    /// The source was asked, and has replied or failed. `problem`: the failure in words, or empty.
    /// `changed`: current() is new.
    virtual void on_credentials(std::string_view problem, bool changed) noexcept = 0;

protected:
    ~credential_user() = default;
};

/// Asks the source by itself before the credentials end, and after a failure. The owner asks before
/// each connection.
///
/// @par Thread safety  Use it on the executor only. The reply of the source comes on any thread.
class credential_keeper : public std::enable_shared_from_this<credential_keeper> {
public:
    /// `timeout`: for the reply of the source, which may be empty. The boundary is the user's.
    credential_keeper(asio::any_io_executor const&, credentials fixed, credentials_source,
                      std::chrono::milliseconds timeout, instance_owner&, credential_user&,
                      link_boundary&);
    ~credential_keeper();
    credential_keeper(credential_keeper const&) = delete;
    credential_keeper& operator=(credential_keeper const&) = delete;

    bool has_source() const { return static_cast<bool>(source_); }
    /// Ends with on_credentials(), and never within the call. One question at a time: while it is
    /// under way, a further call does nothing.
    void ask();

    credentials const& current() const { return current_; }
    /// The source has given some, or there is none.
    bool complete() const { return complete_; }
    /// All that were current once.
    secret_list const& secrets() const { return secrets_; }

    /// The server has refused the present ones: other ones are asked for, after a pause.
    void refused();
    /// The user gets no more calls, and may go.
    void close() noexcept;

private:
    class mailbox;

    void on_reply(error_code, credentials, bool threw);
    void take(error_code, credentials, bool threw);
    void keep(credentials);
    void fail(std::string_view problem);
    void arm(lease_clock::time_point);
    void on_time();

    credentials_source source_;
    credentials current_;
    secret_list secrets_;
    std::chrono::milliseconds timeout_;
    instance_owner& owner_;
    credential_user* user_;
    link_boundary& boundary_;
    asio::any_io_executor executor_;
    turn_timer timer_;
    std::shared_ptr<mailbox> mailbox_; ///< while the source is being asked
    protocol::credential_schedule schedule_;
    bool complete_;
};

} // namespace holdfast::redis

#endif
