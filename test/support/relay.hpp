// Passes on bytes to a server, whatever they mean, and shuts out chosen clients.
#pragma once

#include "support/net.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace holdfast::test {

// Runs in a thread of its own, which the destructor joins. A function that changes something has
// taken effect when it returns.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class relay {
public:
    relay();
    ~relay();
    relay(relay const&) = delete;
    relay& operator=(relay const&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept;
    // Without this, connections are closed at once.
    void lead_to(std::uint16_t server_port);

    // Closes the connections from this address of the machine, such as 127.0.1.1, and accepts no
    // more.
    void shut_out(std::string const& address);
    void shut_out_all();
    void let_in_all();

private:
    class engine;
    std::unique_ptr<engine> engine_;
};

} // namespace holdfast::test
