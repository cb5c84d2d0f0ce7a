// A URL with one host, split by uriparser.
#ifndef HOLDFAST_API_URL_HPP
#define HOLDFAST_API_URL_HPP

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <uriparser/Uri.h>
#include <vector>

namespace holdfast::detail {

/// Pieces of a text, one after the other, that remember their places in it.
class excerpt {
public:
    /// Appends characters that are not in the text.
    void insert(std::string_view characters, std::size_t place);
    /// Appends text[begin, end).
    void take(std::string_view text, std::size_t begin, std::size_t end);

    std::string const& characters() const { return characters_; }
    /// The place in the text of the character with this index, which may be the end.
    std::size_t place(std::size_t index) const;

private:
    std::string characters_;
    std::vector<std::size_t> places_;
};

class url {
public:
    /// `text` outlives the object.
    explicit url(std::string const& text);
    url(url const&) = delete;
    url& operator=(url const&) = delete;
    ~url();

    /// The index of the first character with which `text` is no URL. None if it is one.
    std::optional<std::size_t> fault() const { return fault_; }

    /// Without the brackets of IPv6.
    std::string_view host() const { return view(parts_.hostText); }
    /// [v7.x]: an address of a version that does not exist yet.
    bool is_future_address() const { return parts_.hostData.ipFuture.first != nullptr; }
    /// None without a colon.
    std::optional<std::string_view> port() const;

private:
    static std::string_view view(UriTextRangeA const&);

    UriUriA parts_{};
    std::optional<std::size_t> fault_;
};

/// `text` is part of a URL, so two hexadecimal digits follow each %.
std::string percent_decoded(std::string_view text);
/// Unreserved characters as they are, and those in `also`. The others as %XX.
std::string percent_encoded(std::string_view text, std::string_view also = {});

} // namespace holdfast::detail

#endif
