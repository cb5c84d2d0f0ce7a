// Reads the replies in a stream of bytes, in place.
//
// The parser is that of Boost.Redis. It trusts the server: a length that is missing makes it throw within a noexcept
// function, a part of a streamed string in a wrong place makes it write beyond its stack. So each element is checked
// here before the parser sees it, and must be complete. RESP3: https://github.com/redis/redis-specifications.
#ifndef HOLDFAST_REDIS_REPLY_READER_HPP
#define HOLDFAST_REDIS_REPLY_READER_HPP

#include "redis/codec.hpp"

#include <cassert>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::redis {

using reply_type = codec::resp3::type;

constexpr bool is_error(reply_type t) {
    return t == reply_type::simple_error || t == reply_type::blob_error;
}

/// A reply, or a part of one.
struct element {
    reply_type type;
    std::size_t depth; ///< 0 for the reply itself, 1 for the parts of an array
    std::string_view value;
};

class reply_reader {
public:
    /// The longest reply, in bytes. INFO is the longest that is asked for, with some 10 KB.
    static constexpr std::size_t max_reply = 1024 * 1024;
    /// The longest line: an error, or a simple string.
    static constexpr std::size_t max_line = 64 * 1024;

    enum class progress {
        incomplete, ///< the rest of the reply has not come
        complete,
        malformed, ///< see problem(); nothing more can be read
    };

    /// Goes on with the reply at the beginning of `bytes`. Until it is complete, the next call must be given the same
    /// bytes and more. `visit(element const&)` gets each element once.
    template <class Visit>
    progress read(std::string_view bytes, Visit&& visit) {
        for (;;) {
            auto const at = parser_.get_consumed();
            if (auto const p = check(bytes, at); p != progress::complete) return p;
            boost::system::error_code ec;
            auto const node = parser_.consume(bytes, ec);
            if (ec) return refuse(ec.message());
            assert(node);
            auto const done = parser_.done();
            if (done) {
                consumed_ = parser_.get_consumed();
                parser_.reset();
            }
            visit(element{node->data_type, node->depth, node->value});
            if (done) return progress::complete;
        }
    }

    /// The size of the reply that was completed last.
    std::size_t consumed() const { return consumed_; }
    /// What was wrong with the bytes, for people.
    std::string const& problem() const { return problem_; }

private:
    progress check(std::string_view bytes, std::size_t at);
    progress check_bulk(std::string_view bytes, std::size_t data, std::size_t size);
    progress refuse(std::string problem);

    codec::resp3::parser parser_;
    std::size_t consumed_ = 0;
    std::string problem_;
};

} // namespace holdfast::redis

#endif
