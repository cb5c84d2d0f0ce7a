// Makes the TLS context of an instance from its options: once, and again when a file has changed.
#ifndef HOLDFAST_REDIS_TLS_CONTEXT_SOURCE_HPP
#define HOLDFAST_REDIS_TLS_CONTEXT_SOURCE_HPP

#include <holdfast/address.hpp>
#include <holdfast/tls_options.hpp>

#include "redis/net/file_monitor.hpp"

#include <boost/asio/ssl/context.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::redis {

namespace asio = boost::asio;

/// A context takes up to 26 ms, with the system's authorities. So instances with the same options
/// share a source.
///
/// @par Thread safety  None.
class tls_context_source {
public:
    using context_ptr = std::shared_ptr<asio::ssl::context>;

    /// Reads the files.
    /// @throws system_error  errc::invalid_options; the message names the option and its file.
    explicit tls_context_source(tls_options);

    tls_options const& options() const { return options_; }

    /// For a new connection. If a file has changed, reads the files again. If they cannot be used,
    /// the earlier context stays; see problem().
    context_ptr const& context();
    /// Why the present files are not in use. Empty: they are.
    std::string const& problem() const { return problem_; }

    /// Whether a file has changed since it was read.
    bool files_changed() const noexcept { return files_.changed(); }
    /// Grows with each change that was read.
    std::uint64_t version() const noexcept { return version_; }

private:
    tls_options const options_;
    file_monitor files_;
    context_ptr context_;
    std::string problem_;
    std::uint64_t version_ = 0;
};

/// The sources of a client.
class tls_context_sources {
public:
    /// Null for an address without TLS.
    /// @throws system_error  As the constructor of a source.
    std::shared_ptr<tls_context_source> find_for(address const& a) {
        return a.tls() ? find_or_make(a.tls_options()) : nullptr;
    }
    std::shared_ptr<tls_context_source> find_or_make(tls_options const&);

private:
    std::vector<std::shared_ptr<tls_context_source>> all_;
};

} // namespace holdfast::redis

#endif
