// A PostgreSQL server as a child process, in a temporary folder.
#ifndef HOLDFAST_TEST_INTEGRATION_POSTGRES_SERVER_HPP
#define HOLDFAST_TEST_INTEGRATION_POSTGRES_SERVER_HPP

#include "support/net.hpp"
#include "support/swept_folder.hpp"

#include <string>
#include <sys/types.h>

namespace holdfast::test {

/// Starts in the constructor, and answers when that returns. PostgreSQL refuses to run as root, so
/// the server then runs as the user nobody. It ends with the thread that made it.
class postgres_server {
public:
    /// The folder with initdb and postgres; empty where PostgreSQL is not installed.
    static std::string programs();

    postgres_server();
    ~postgres_server();
    postgres_server(postgres_server const&) = delete;
    postgres_server& operator=(postgres_server const&) = delete;

    static constexpr char const* password = "s3cret-of-the-tests";

    std::string url() const { return url_with(password); }
    std::string url_with(std::string const& other_password) const {
        return "postgresql://booking:" + other_password + '@' + port_.address() + "/postgres";
    }

    /// The lines of the result, with `|` between columns.
    std::string query(std::string const& sql) const;

    void stop();
    void start();

private:
    std::string as_server_user() const;

    swept_folder folder_;
    net::reserved_port port_;
    pid_t pid_ = -1;
};

} // namespace holdfast::test

#endif
