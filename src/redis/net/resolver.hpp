// Finds the endpoints of a host's name, independently of all other names.
//
// DNS may take many seconds to give up a name. Asio's resolver threads belong to the program's
// context. There are as many as its configuration says, by default one, so as many dead names stop
// all others. The destruction of the context and a fork join these threads, and so wait for DNS.
// Here each look-up has a thread of its own, for which nothing waits.
#ifndef HOLDFAST_REDIS_RESOLVER_HPP
#define HOLDFAST_REDIS_RESOLVER_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::redis {

namespace asio = boost::asio;
using boost::system::error_code;

/// Looks up one name, in one thread at a time.
///
/// @par Thread safety  Use a resolver on its executor only.
class resolver {
public:
    using endpoints = std::vector<asio::ip::tcp::endpoint>;
    using handler = std::function<void(error_code, endpoints)>;
    /// Blocks until the name is resolved. Runs in a thread of its own; nothing waits for that
    /// thread.
    using look_up_function =
        std::function<endpoints(std::string const& host, std::uint16_t port, error_code&)>;

    resolver(asio::any_io_executor, std::string host, std::uint16_t port);
    /// For tests: replaces the look-up.
    resolver(asio::any_io_executor, std::string host, std::uint16_t port, look_up_function);
    /// Calls cancel(). A look-up that is under way goes on to its end, and its result is dropped.
    ~resolver();
    resolver(resolver const&) = delete;
    resolver& operator=(resolver const&) = delete;

    /// The endpoint of a numeric address, IPv4 or IPv6 with or without a zone. Needs no look-up.
    static std::optional<asio::ip::tcp::endpoint> numeric(std::string const& host,
                                                          std::uint16_t port);

    /// Calls `h` on the executor, never within resolve(). One call at a time. If the look-up of an
    /// earlier, cancelled call is still under way, its result is the result of this call too.
    ///
    /// The caller sets the time limit: DNS has none. If resolve() throws, or if memory runs out for
    /// the result, `h` is not called.
    void resolve(handler h);
    /// Destroys the handler and does not call it, even if the result is already there.
    void cancel() noexcept;

private:
    class lookup;

    asio::any_io_executor const executor_;
    std::shared_ptr<lookup> const lookup_;
};

} // namespace holdfast::redis

#endif
