// The tokens of leases, as `acquire` prints them and other commands read them.
#ifndef HOLDFAST_COMMAND_LOCK_TOKEN_INPUT_HPP
#define HOLDFAST_COMMAND_LOCK_TOKEN_INPUT_HPP

#include <holdfast/lease_token.hpp>

#include <CLI/CLI.hpp>
#include <string>

namespace holdfast::command {

/// Where a command gets a token from. It is a secret, and no message shows it.
struct token_input {
    std::string token, file; ///< at most one of them

    /// Adds the options.
    void add_to(CLI::App&);
    bool given() const { return token_option->count() + file_option->count() > 0; }
    /// @throws std::runtime_error  Neither is given.
    void require() const;
    /// @throws std::runtime_error  No token can be read.
    lease_token read() const;

    CLI::Option *token_option = nullptr, *file_option = nullptr;
};

/// One line: the token, and after a blank each the fence of a lease that has one, `slot=` with the
/// slot of a permit, and `shared` of a reader that others share.
std::string token_line(lease_token const&);
/// What token_line() made. Any other text is a token alone, as that of another library.
lease_token parse_token(std::string const& line);

} // namespace holdfast::command

#endif
