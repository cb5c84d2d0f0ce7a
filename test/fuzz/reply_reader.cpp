// Fuzzes the reply reader with bytes in arbitrary pieces. It must give the same elements as for all
// bytes at once, and frame replies as the tests' own RESP reader does.
//
// The end of the input holds the sizes of the pieces. Its last byte is their number.
#include "redis/wire/reply_reader.hpp"

#include "fuzz/check.hpp"
#include "support/resp.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using namespace holdfast::redis;
using holdfast::test::check;
using progress = reply_reader::progress;

constexpr std::size_t max_pieces = 16;

struct part {
    reply_type type;
    std::size_t depth;
    std::string value;

    friend bool operator==(part const&, part const&) = default;
};

struct reading {
    std::vector<part> parts;
    std::vector<std::size_t> sizes; ///< of the complete replies
    std::string problem;

    friend bool operator==(reading const&, reading const&) = default;
};

void check_element(element const& e, std::string_view bytes) {
    auto const* const end = bytes.data() + bytes.size();
    check(e.value.empty() ||
          (e.value.data() > bytes.data() && e.value.data() + e.value.size() < end));
    check(e.depth <= 5);
    check(e.type != reply_type::push || e.depth == 0);
    switch (e.type) {
    case reply_type::attribute:
    case reply_type::streamed_string:
    case reply_type::streamed_string_part:
    case reply_type::invalid:
        check(false);
        break;
    case reply_type::number: {
        std::int64_t n = 0;
        auto const* const first = e.value.data();
        auto const* const last = first + e.value.size();
        auto const [stop, error] = std::from_chars(first, last, n);
        check(error == std::errc{} && stop == last);
        break;
    }
    case reply_type::verbatim_string:
        check(e.value.size() >= 4 && e.value[3] == ':');
        break;
    case reply_type::boolean:
        check(e.value == "t" || e.value == "f");
        break;
    default:
        break;
    }
}

/// Reads as a session does: it reads the received bytes as far as possible, and keeps the rest.
/// Each call gets an allocation of the exact size.
class session {
public:
    void receive(std::string_view bytes) {
        kept_ += bytes;
        while (result.problem.empty() && !kept_.empty()) {
            std::vector<char> const copy(kept_.begin(), kept_.end());
            std::string_view const buffer(copy.data(), copy.size());
            std::size_t elements = 0;
            auto const p = reader_.read(buffer, [&](element const& e) {
                check_element(e, buffer);
                check(++elements <= buffer.size() / 3);
                result.parts.push_back({e.type, e.depth, std::string(e.value)});
            });
            if (p == progress::incomplete) break;
            if (p == progress::malformed) {
                check(!reader_.problem().empty() && reader_.problem().size() < 80);
                result.problem = reader_.problem();
                break;
            }
            check(reader_.consumed() != 0 && reader_.consumed() <= buffer.size());
            result.sizes.push_back(reader_.consumed());
            kept_.erase(0, reader_.consumed());
        }
    }

    reading result;

private:
    reply_reader reader_;
    std::string kept_;
};

reading read_at_once(std::string_view bytes) {
    session s;
    s.receive(bytes);
    return s.result;
}

reading read_in_pieces(std::string_view bytes, std::string_view sizes) {
    session s;
    for (std::size_t i = 0; !bytes.empty(); ++i) {
        auto const size = static_cast<unsigned char>(sizes[i % sizes.size()]) + std::size_t{1};
        s.receive(bytes.substr(0, size));
        bytes.remove_prefix(std::min(size, bytes.size()));
    }
    return s.result;
}

/// The tests' reader accepts more. But the replies that both accept must end at the same byte.
void check_framing(std::string_view bytes, std::vector<std::size_t> const& sizes) {
    for (auto const size : sizes) {
        auto rest = bytes;
        check(holdfast::test::resp::take_reply(rest).has_value());
        check(bytes.size() - rest.size() == size);
        bytes = rest;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string input(size, '\0');
    std::memcpy(input.data(), data, size);
    std::string_view bytes = input;
    auto const pieces = std::min(static_cast<unsigned char>(bytes.back()) % max_pieces + 1, size);
    auto const sizes = bytes.substr(size - pieces);
    bytes.remove_suffix(pieces);

    auto const whole = read_at_once(bytes);
    check(read_in_pieces(bytes, sizes) == whole);
    check_framing(bytes, whole.sizes);
    return 0;
}
