// Reads the replies in a stream of bytes, in place.
//
// The parser is that of Boost.Redis, which trusts the server. A missing length makes the parser
// throw within a noexcept function. A part of a streamed string in a wrong place makes the parser
// write beyond its stack. So each element is checked here before the parser sees it, and must be
// complete. RESP3: https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md
#ifndef HOLDFAST_REDIS_REPLY_READER_HPP
#define HOLDFAST_REDIS_REPLY_READER_HPP

#include "redis/wire/codec.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

using reply_type = codec::resp3::type;

constexpr bool is_error(reply_type t) {
    return t == reply_type::simple_error || t == reply_type::blob_error;
}

/// A reply, or a part of one. A null of RESP2 is a null; there is none within another reply.
struct element {
    /// Never attribute, streamed_string, streamed_string_part or invalid.
    reply_type type;
    std::size_t depth; ///< 0 for the reply itself, 1 for the parts of an array, at most 5
    /// A view into the bytes that were read. Empty for an array, a set, a map or a push. A number
    /// is a decimal std::int64_t without a plus sign. A verbatim string begins with its format, as
    /// in `txt:`.
    std::string_view value;
};

class reply_reader {
public:
    /// The longest reply, in bytes, give or take a line. INFO is the longest reply in use, with
    /// some 10 KB, and a few times that with each command's statistics.
    static constexpr std::size_t max_reply = 1024 * 1024;
    /// The bound for a connection that asks for the map of a Cluster. The longest map, a range for
    /// each slot, has 1.6 MB without replicas, and 0.8 MB more for each replica of a primary.
    static constexpr std::size_t max_map_reply = 8 * 1024 * 1024;
    /// The longest line: an error, or a simple string.
    static constexpr std::size_t max_line = 64 * 1024;

    reply_reader() = default;
    /// `longest`: the bound for a reply, in bytes.
    explicit reply_reader(std::size_t longest)
        : longest_(longest) {}

    /// Sets the bound for a reply, in bytes. Not less than what was read of the present reply.
    void allow(std::size_t longest) { longest_ = longest; }

    enum class progress {
        /// The rest of the reply has not come. Never returned if there are `longest` + max_line + 2
        /// bytes.
        incomplete,
        complete,
        malformed, ///< see problem(); nothing more can be read
    };

    /// Goes on with the reply at the beginning of `bytes`. Until the reply is complete, each call
    /// must be given the same bytes and more. `visit(element const&)` gets each element once. A
    /// push is a reply of its own, never a part of another reply.
    template <class Visit>
    progress read(std::string_view bytes, Visit&& visit) {
        for (;;) {
            auto const at = parser_.get_consumed();
            if (auto const p = check(bytes, at); p != progress::complete) return p;
            if (null_size_ != 0) {
                consumed_ = std::exchange(null_size_, 0);
                visit(element{reply_type::null, 0, {}});
                return progress::complete;
            }
            boost::system::error_code ec;
            auto const node = parser_.consume(bytes, ec);
            if (!node) return refuse(ec.message());
            auto const done = parser_.done();
            if (done) {
                consumed_ = parser_.get_consumed();
                parser_.reset();
            }
            visit(element{node->data_type, node->depth, node->value});
            if (done) return progress::complete;
        }
    }

    /// The size of the last complete reply.
    std::size_t consumed() const { return consumed_; }
    /// The fault in the bytes, for people. The text shows at most one byte of the server's: the
    /// bytes may contain a password that the server has sent back.
    std::string const& problem() const { return problem_; }

private:
    progress check(std::string_view bytes, std::size_t at);
    progress check_bulk(reply_type, std::string_view bytes, std::size_t size);
    progress refuse(std::string problem);

    codec::resp3::parser parser_;
    std::size_t longest_ = max_reply;
    std::size_t line_searched_ = 0; ///< bytes of an incomplete line that were searched for its end
    std::size_t null_size_ = 0;     ///< of a null of RESP2, which the parser does not know
    std::size_t consumed_ = 0;
    std::string problem_;
};

} // namespace holdfast::redis

#endif
