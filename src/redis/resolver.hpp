// Turns a host's name into endpoints, apart from all other names.
//
// Asio has one resolver thread for each execution context, so a name that DNS does not answer would stop all others.
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

/// For one name. Not thread-safe.
class resolver {
public:
    using endpoints = std::vector<asio::ip::tcp::endpoint>;
    using handler = std::function<void(error_code, endpoints)>;

    resolver(asio::any_io_executor, std::string host, std::uint16_t port);
    /// As cancel(). A look-up that is under way goes on by itself and is told to nobody.
    ~resolver();

    /// The endpoint of a numeric address, IPv4 or IPv6 with or without a zone, which needs no look-up.
    static std::optional<asio::ip::tcp::endpoint> numeric(std::string const& host, std::uint16_t port);

    /// Calls `h` on the executor, later. One at a time. If the look-up of an earlier, cancelled call is still under
    /// way, its result is the result of this call too.
    void resolve(handler h);
    /// The handler is destroyed and not called.
    void cancel() noexcept;

private:
    class lookup;
    std::shared_ptr<lookup> lookup_;
};

} // namespace holdfast::redis

#endif
