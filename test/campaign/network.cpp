#include "campaign/network.hpp"

#include "support/wait.hpp"

#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace holdfast::campaign {

namespace {

struct {
    std::string routes, names;
} files;

template <class Function>
Function* of_system(char const* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::optional<std::uint16_t> route(std::string_view address, std::uint16_t port) {
    std::ifstream in(files.routes);
    std::string to;
    std::uint16_t at = 0, proxy = 0;
    while (in >> to >> at >> proxy)
        if (to == address && at == port) return proxy;
    return std::nullopt;
}

/// The words after the name, or nothing.
std::vector<std::string> addresses(std::string_view name) {
    std::ifstream in(files.names);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string each;
        if (!(words >> each) || each != name) continue;
        std::vector<std::string> all;
        while (words >> each) all.push_back(each);
        return all;
    }
    return {};
}

/// Waits until DNS answers, or gives up as resolvers do.
std::vector<std::string> answer(std::string_view name) {
    std::vector<std::string> all;
    auto const is_answered = [&] {
        all = addresses(name);
        return all.empty() || all.front() != silent_name;
    };
    (void)test::wait_until(is_answered, std::chrono::seconds(30), std::chrono::milliseconds(20));
    return all;
}

} // namespace

void use_network(std::string routes, std::string names) {
    files = {.routes = std::move(routes), .names = std::move(names)};
}

} // namespace holdfast::campaign

// Both replace the functions of the C library in this program.
extern "C" {

int connect(int socket, sockaddr const* to, socklen_t length) {
    using namespace holdfast::campaign;
    static auto* const system = of_system<int(int, sockaddr const*, socklen_t)>("connect");
    if (files.routes.empty() || to->sa_family != AF_INET || length < sizeof(sockaddr_in))
        return system(socket, to, length);
    sockaddr_in there{};
    std::memcpy(&there, to, sizeof there);
    std::string text(INET_ADDRSTRLEN, '\0');
    if (inet_ntop(AF_INET, &there.sin_addr, text.data(), INET_ADDRSTRLEN) != nullptr) {
        if (auto const proxy = route(text.c_str(), ntohs(there.sin_port))) {
            there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            there.sin_port = htons(*proxy);
        }
    }
    return system(socket, reinterpret_cast<sockaddr const*>(&there), sizeof there);
}

int getaddrinfo(char const* name, char const* service, addrinfo const* hints, addrinfo** found) {
    using namespace holdfast::campaign;
    static auto* const system =
        of_system<int(char const*, char const*, addrinfo const*, addrinfo**)>("getaddrinfo");
    if (files.names.empty() || name == nullptr) return system(name, service, hints, found);
    auto const all = answer(name);
    if (all.empty()) return system(name, service, hints, found);
    if (all.front() == unknown_name) return EAI_NONAME;
    if (all.front() == silent_name) return EAI_AGAIN;
    *found = nullptr;
    auto** next = found;
    for (auto const& address : all) {
        if (auto const failure = system(address.c_str(), service, hints, next)) {
            if (*found != nullptr) freeaddrinfo(std::exchange(*found, nullptr));
            return failure;
        }
        while (*next != nullptr) next = &(*next)->ai_next;
    }
    return 0;
}
}
