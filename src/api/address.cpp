#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>
#include <sys/un.h>
#include <uriparser/Uri.h>

namespace holdfast {

namespace {

// The part of an invalid address that a message may show, without user and password. Also without
// the query, because it may hold them too.
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

[[noreturn]] void reject(std::string_view text, std::string const& reason) {
    auto shown = masked(text);
    // Control characters are replaced: a NUL would end the message early.
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    throw system_error(make_error_code(errc::invalid_address), "\"" + shown + "\": " + reason);
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
    return ec == std::errc{} && end == text.data() + text.size();
}

// The parts of a URL, as RFC 3986 splits it.
class url {
public:
    // `text` must outlive the object. Returns nothing if `text` is no URL.
    static std::optional<url> parse(std::string const& text) {
        UriUriA parts;
        auto const result =
            uriParseSingleUriExA(&parts, text.data(), text.data() + text.size(), nullptr);
        if (result == URI_ERROR_MALLOC) throw std::bad_alloc();
        if (result != URI_SUCCESS) return std::nullopt;
        return std::optional<url>(std::in_place, parts);
    }

    explicit url(UriUriA const& parts)
        : parts_(parts) {}
    url(url const&) = delete;
    url& operator=(url const&) = delete;
    ~url() { uriFreeUriMembersA(&parts_); }

    std::string_view scheme() const { return view(parts_.scheme); }
    std::string_view user_info() const { return view(parts_.userInfo); }
    std::string_view host() const { return view(parts_.hostText); }
    // True for an address of a future version of IP, such as [v7.x].
    bool is_future_address() const { return parts_.hostData.ipFuture.first != nullptr; }
    std::optional<std::string_view> port() const {
        if (parts_.portText.first == nullptr) return std::nullopt;
        return view(parts_.portText);
    }
    // The path without its first slash. Joined from its segments, because an empty segment does not
    // point into the text.
    std::string path() const {
        std::string joined;
        for (auto const* s = parts_.pathHead; s != nullptr; s = s->next) {
            if (s != parts_.pathHead) joined += '/';
            joined += view(s->text);
        }
        return joined;
    }
    bool has_query_or_fragment() const {
        return parts_.query.first != nullptr || parts_.fragment.first != nullptr;
    }

private:
    static std::string_view view(UriTextRangeA const& range) {
        if (range.first == nullptr) return {};
        return {range.first, static_cast<std::size_t>(range.afterLast - range.first)};
    }

    UriUriA parts_;
};

// Decodes percent escapes. `text` is part of a URL, so two hexadecimal digits follow each %.
// uriparser's own function stops at a NUL.
std::string decoded(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result += text[i];
            continue;
        }
        unsigned char byte = 0;
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
        result += static_cast<char>(byte);
        i += 2;
    }
    return result;
}

void check_socket_path(std::string_view text, std::string const& path) {
    // The system needs a NUL at the end.
    constexpr auto limit = sizeof(sockaddr_un::sun_path) - 1;
    if (!path.starts_with('/')) reject(text, "a unix: address needs an absolute path");
    if (path.find('\0') != path.npos) reject(text, "the path has a NUL byte");
    if (path.size() > limit) {
        reject(text, "the path of a Unix socket may have " + std::to_string(limit) +
                         " bytes, and this one has " + std::to_string(path.size()));
    }
}

} // namespace

address::address(std::string_view text) {
    constexpr std::string_view unix_scheme = "unix:";
    if (text.empty()) reject(text, "it is empty");
    if (text.starts_with(unix_scheme)) {
        path_ = text.substr(unix_scheme.size());
        if (path_.starts_with("//")) path_.erase(0, 2);
        check_socket_path(text, path_);
        return;
    }
    auto const with_scheme =
        text.find("://") == text.npos ? "redis://" + std::string(text) : std::string(text);
    auto const parsed = url::parse(with_scheme);
    if (!parsed) reject(text, "it is neither host:port nor a redis:// URL");
    if (parsed->scheme() == "rediss") reject(text, "TLS (rediss://) is not supported yet");
    if (parsed->scheme() != "redis") reject(text, "the scheme is not redis://");
    host_ = decoded(parsed->host());
    if (host_.empty()) reject(text, "it has no host");
    if (host_.find('\0') != host_.npos) reject(text, "the host has a NUL byte");
    if (parsed->is_future_address()) reject(text, "the host is no address of IPv4 or IPv6");
    std::transform(host_.begin(), host_.end(), host_.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (auto const port = parsed->port(); port && (!parse_number(*port, port_) || port_ == 0)) {
        reject(text, "the port is not a number from 1 to 65535");
    }
    auto const user_info = parsed->user_info();
    auto const colon = user_info.find(':');
    user_ = decoded(user_info.substr(0, colon));
    if (colon != user_info.npos) password_ = decoded(user_info.substr(colon + 1));
    if (password_.empty() && !user_.empty()) reject(text, "it has a user and no password");
    auto const path = decoded(parsed->path());
    if (!path.empty() && !parse_number(std::string_view(path), database_)) {
        reject(text, "the path is not the number of a database");
    }
    if (parsed->has_query_or_fragment()) reject(text, "it has a query or a fragment");
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
