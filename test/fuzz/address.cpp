// Fuzzes addresses, as text and as parts. An accepted address is printed so that the text denotes
// the same instance. Neither the printed address nor the error for a refused one shows a secret.
//
// An input that begins with the byte 1 holds parts: see parts_of(). Any other input is a text. Its
// last two bytes are the position at which a secret is planted.
#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "fuzz/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace holdfast;
using holdfast::test::check;

constexpr std::string_view secret = "Zx9-s3cr3t-9xZ";

bool shows_secret(std::string_view text) {
    return text.find(secret) != text.npos;
}

template <class Source>
std::optional<address> made_of(Source const& source, std::string& refusal) {
    try {
        return address(source);
    } catch (system_error const& e) {
        check(e.code() == errc::invalid_address);
        refusal = e.what();
        check(!refusal.empty());
        return std::nullopt;
    }
}

bool same(credentials const& a, credentials const& b) {
    return a.user == b.user && a.password == b.password;
}

bool same(tls_options const& a, tls_options const& b) {
    return a.ca_file == b.ca_file && a.ca_directory == b.ca_directory &&
           a.certificate_file == b.certificate_file && a.key_file == b.key_file &&
           a.key_password == b.key_password && a.server_name == b.server_name &&
           a.verify_name == b.verify_name && a.min_version == b.min_version && a.verify == b.verify;
}

void check_same_instance(address const& a, address const& b) {
    check(a.deployment() == b.deployment());
    check(a.hosts() == b.hosts());
    check(a.socket_path() == b.socket_path());
    check(a.primary_name() == b.primary_name());
    check(a.tls() == b.tls());
    check(a.same_server(b) && b.same_server(a));
}

void check_taken(address const& a) {
    check(a.hosts().empty() != a.socket_path().empty());
    check(a.deployment() != deployment::server || a.hosts().size() <= 1);
    for (auto const& h : a.hosts()) check(!h.host.empty() && h.port != 0);

    auto const printed = a.to_string();
    check(std::all_of(printed.begin(), printed.end(), [](char c) { return c > ' ' && c < 0x7f; }));
    address const again(printed);
    check_same_instance(a, again);
    auto const has_scheme = printed.find("://") != printed.npos && a.socket_path().empty();
    check(again.database() == (has_scheme ? a.database() : 0));
    check(again.to_string() == printed);

    address const from_parts(a.parts());
    check_same_instance(a, from_parts);
    check(from_parts.database() == a.database());
    check(same(from_parts.credentials(), a.credentials()));
    check(same(from_parts.sentinel_credentials(), a.sentinel_credentials()));
    check(same(from_parts.tls_options(), a.tls_options()));
}

/// True if a part that is never printed holds the secret.
bool holds_secret(address const& a) {
    auto const& t = a.tls_options();
    for (std::string_view const part :
         {std::string_view(a.user()), std::string_view(a.password()),
          std::string_view(a.sentinel_credentials().user),
          std::string_view(a.sentinel_credentials().password), std::string_view(t.ca_file),
          std::string_view(t.key_file), std::string_view(t.server_name)}) {
        if (shows_secret(part)) return true;
    }
    return false;
}

/// A byte of a refused text may belong to a secret if an @ follows it, or a ? precedes it. The
/// scheme is never secret.
bool may_be_secret(std::string_view text, std::size_t place) {
    auto const scheme = text.find("://");
    if (scheme != text.npos && place < scheme + 3) return false;
    return text.find('@', place) != text.npos || text.substr(0, place).find('?') != text.npos;
}

void check_planted(std::string text, std::size_t place) {
    text.insert(place, secret);
    std::string refusal;
    auto const a = made_of(std::string_view(text), refusal);
    if (!a) {
        check(!may_be_secret(text, place) || !shows_secret(refusal));
        return;
    }
    check_taken(*a);
    check(!holds_secret(*a) || !shows_secret(a->to_string()));
}

/// Parses fields separated by line feeds. The last fields are the hosts, a port and a name each.
address_parts parts_of(std::string_view input) {
    auto const field = [&] {
        auto const end = std::min(input.find('\n'), input.size());
        std::string result(input.substr(0, end));
        input.remove_prefix(std::min(end + 1, input.size()));
        return result;
    };
    auto const flags = field() + '\0';
    address_parts p;
    p.deployment = static_cast<deployment>(static_cast<unsigned char>(flags[0]) % 3);
    p.tls = (flags[0] & 0x10) != 0;
    p.tls_options.verify = (flags[0] & 0x20) == 0;
    p.database = (flags[0] & 0x40) != 0 ? 7 : 0;
    p.socket_path = field();
    p.primary_name = field();
    p.credentials = {.user = field(), .password = field()};
    p.sentinel_credentials = {.user = field(), .password = field()};
    auto& t = p.tls_options;
    for (auto* const text : {&t.ca_file, &t.ca_directory, &t.certificate_file, &t.key_file,
                             &t.key_password, &t.server_name, &t.verify_name}) {
        *text = field();
    }
    while (!input.empty()) {
        auto const port = field();
        std::uint16_t number = 0;
        for (char const c : port) number = static_cast<std::uint16_t>(number * 31 + c);
        p.hosts.push_back({field(), number});
    }
    return p;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string input(size, '\0');
    if (size != 0) std::memcpy(input.data(), data, size);
    if (shows_secret(input)) return 0; // the input contains the secret already
    std::string refusal;
    if (input.starts_with('\1')) {
        auto parts = parts_of(std::string_view(input).substr(1));
        if (auto const a = made_of(parts, refusal)) check_taken(*a);
        parts.credentials.password = secret;
        parts.tls_options.key_password = secret;
        auto const a = made_of(parts, refusal);
        check(!shows_secret(a ? a->to_string() : refusal));
        return 0;
    }
    if (auto const a = made_of(std::string_view(input), refusal)) check_taken(*a);
    if (size < 2) return 0;
    auto const place = static_cast<std::size_t>(data[size - 2]) * 256 + data[size - 1];
    input.resize(size - 2);
    check_planted(input, place % (input.size() + 1));
    return 0;
}
