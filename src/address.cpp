#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <charconv>

namespace holdfast {

namespace {

// What a person may see of an address that could not be parsed: no user, no password, no query, which may
// hold either.
std::string masked(std::string_view text) {
    auto const scheme = text.find("://");
    auto const has_scheme = scheme != text.npos && text.find_first_of(":@/?#") == scheme;
    auto const start = std::string(text.substr(0, has_scheme ? scheme + 3 : 0));
    auto const at = text.rfind('@');
    auto const query = text.find('?');
    if (at != text.npos && query < at) return start + "***";
    auto shown = at == text.npos ? std::string(text.substr(0, query))
                                 : start + "***" + std::string(text.substr(at, query - at));
    if (query != text.npos) shown += "?***";
    return shown;
}

[[noreturn]] void reject(std::string_view text, std::string const& why) {
    throw system_error(make_error_code(errc::invalid_address), "\"" + masked(text) + "\": " + why);
}

template <class Number>
bool parse_number(std::string_view text, Number& to) {
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), to);
    return ec == std::errc{} && end == text.data() + text.size();
}

} // namespace

address::address(std::string_view text) {
    constexpr std::string_view unix_scheme = "unix:";
    if (text.empty()) reject(text, "it is empty");
    if (text.starts_with(unix_scheme)) {
        path_ = text.substr(unix_scheme.size());
        if (path_.starts_with("//")) path_.erase(0, 2);
        if (!path_.starts_with('/')) reject(text, "a unix: address needs an absolute path");
        return;
    }
    auto const url = text.find("://") == text.npos ? "redis://" + std::string(text) : std::string(text);
    auto const parsed = boost::urls::parse_uri(url);
    if (!parsed) reject(text, "it is neither host:port nor a redis:// URL");
    auto const& u = *parsed;
    if (u.scheme() == "rediss") reject(text, "TLS (rediss://) is not supported");
    if (u.scheme() != "redis") reject(text, "the scheme is not redis://");
    host_ = u.host_address();
    if (host_.empty()) reject(text, "it has no host");
    std::transform(host_.begin(), host_.end(), host_.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (u.has_port() && (!parse_number(std::string_view(u.port()), port_) || port_ == 0)) {
        reject(text, "the port is not a number from 1 to 65535");
    }
    user_ = u.user();
    password_ = u.password();
    if (password_.empty() && !user_.empty()) reject(text, "it has a user and no password");
    std::string path = u.path();
    if (!path.empty() && path != "/" && !parse_number(std::string_view(path).substr(1), database_)) {
        reject(text, "the path is not the number of a database");
    }
    if (u.has_query() || u.has_fragment()) reject(text, "it has a query or a fragment");
}

std::string address::to_string() const {
    if (!path_.empty()) return "unix:" + path_;
    auto const v6 = host_.find(':') != host_.npos;
    return (v6 ? '[' + host_ + ']' : host_) + ':' + std::to_string(port_);
}

bool address::same_server(address const& other) const noexcept {
    return path_ == other.path_ && host_ == other.host_ && port_ == other.port_;
}

} // namespace holdfast
