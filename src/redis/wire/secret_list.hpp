// The secrets of a client at one instance, which no message may show.
#ifndef HOLDFAST_REDIS_SECRET_LIST_HPP
#define HOLDFAST_REDIS_SECRET_LIST_HPP

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// Passwords change while connections last, and a server may quote an old one.
class secret_list {
public:
    /// Older ones are forgotten: they have expired.
    static constexpr std::size_t most = 64;

    secret_list() = default;
    /// A constant list of one.
    explicit secret_list(std::string_view secret) { add(secret); }

    void add(std::string_view secret) {
        if (secret.empty() || std::find(all_.begin(), all_.end(), secret) != all_.end()) return;
        if (all_.size() == most) all_.erase(all_.begin());
        all_.emplace_back(secret);
    }

    /// Replaces each occurrence. The longest goes first: another may be a part of it.
    void mask(std::string& text) const {
        std::vector<std::string_view> sorted(all_.begin(), all_.end());
        std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return a.size() > b.size(); });
        for (auto const secret : sorted) mask(text, secret);
    }

    static void mask(std::string& text, std::string_view secret) {
        constexpr std::string_view stars = "***";
        if (secret.empty()) return;
        for (auto at = text.find(secret); at != text.npos;
             at = text.find(secret, at + stars.size())) {
            text.replace(at, secret.size(), stars);
        }
    }

private:
    std::vector<std::string> all_; ///< in the order of their first use
};

} // namespace holdfast::redis

#endif
