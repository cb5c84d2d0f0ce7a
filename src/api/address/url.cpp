#include "api/address/url.hpp"

#include "api/address/address_checks.hpp"

#include <charconv>
#include <new>

namespace holdfast::detail {

void excerpt::insert(std::string_view characters, std::size_t place) {
    characters_ += characters;
    places_.insert(places_.end(), characters.size(), place);
}

void excerpt::take(std::string_view text, std::size_t begin, std::size_t end) {
    characters_ += text.substr(begin, end - begin);
    for (auto i = begin; i < end; ++i) places_.push_back(i);
}

std::size_t excerpt::place(std::size_t index) const {
    return index < places_.size() ? places_[index] : places_.back() + 1;
}

url::url(std::string const& text) {
    char const* stop = nullptr;
    auto const* const end = text.data() + text.size();
    auto const result = uriParseSingleUriExA(&parts_, text.data(), end, &stop);
    if (result == URI_ERROR_MALLOC) throw std::bad_alloc();
    if (result == URI_SUCCESS) return;
    fault_ = static_cast<std::size_t>((stop == nullptr ? end : stop) - text.data());
}

url::~url() {
    // It has freed the parts of a text that is no URL.
    if (!fault_) uriFreeUriMembersA(&parts_);
}

std::optional<std::string_view> url::port() const {
    if (parts_.portText.first == nullptr) return std::nullopt;
    return view(parts_.portText);
}

std::string_view url::view(UriTextRangeA const& range) {
    if (range.first == nullptr) return {};
    return {range.first, static_cast<std::size_t>(range.afterLast - range.first)};
}

// uriparser's own function stops at a NUL.
std::string percent_decoded(std::string_view text) {
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

std::string percent_encoded(std::string_view text, std::string_view also) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string result;
    for (char const c : text) {
        if (is_unreserved(c) || also.find(c) != also.npos) {
            result += c;
            continue;
        }
        auto const byte = static_cast<unsigned char>(c);
        result += {'%', digits[byte / 16U], digits[byte % 16U]};
    }
    return result;
}

} // namespace holdfast::detail
