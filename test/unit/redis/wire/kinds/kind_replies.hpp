// The common parts of the tests of each kind of lock: the words of its commands, elements of
// replies, and the answer that they give.
#ifndef HOLDFAST_TEST_UNIT_KIND_REPLIES_HPP
#define HOLDFAST_TEST_UNIT_KIND_REPLIES_HPP

#include "redis/wire/lock_command.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A namespace of its own, because some of these names are common.
namespace holdfast::test::kind_replies {

using namespace redis;
using protocol::command;

using words = std::vector<std::string>;

/// The words of the encoded commands, without the texts and digests of scripts.
inline words words_of(lock_kind const& kind, command c, wording w, command_args const& a) {
    codec::request r;
    kind.encode(r, c, w, a);
    words all;
    std::string_view left = r.payload();
    while (!left.empty()) {
        auto const line = left.substr(0, left.find("\r\n"));
        left.remove_prefix(line.size() + 2);
        if (line.front() != '$') continue;
        auto const size = std::stoul(std::string(line.substr(1)));
        all.emplace_back(left.substr(0, size));
        left.remove_prefix(size + 2);
        if (all.back().starts_with("EVAL")) {
            auto const text = left.substr(0, left.find("\r\n"));
            left.remove_prefix(text.size() + 2 + std::stoul(std::string(text.substr(1))) + 2);
        }
    }
    return all;
}

inline void check_words(words const& found, words const& expected) {
    BOOST_TEST(found == expected, boost::test_tools::per_element());
}

inline element simple(std::string_view text) {
    return {reply_type::simple_string, 0, text};
}
inline element number(std::string_view text) {
    return {reply_type::number, 0, text};
}
inline element error(std::string_view text) {
    return {reply_type::simple_error, 0, text};
}
inline element blob(std::string_view text) {
    return {reply_type::blob_string, 0, text};
}
inline constexpr element ok{reply_type::simple_string, 0, "OK"};
inline constexpr element null{reply_type::null, 0, {}};
inline constexpr element array{reply_type::array, 0, {}};

/// A lock whose commands have these arguments.
class lock_with : public reply_handler {
public:
    lock_with(lock_kind const& kind, command_args const& args)
        : kind_(kind)
        , args_(args) {}
    lock_kind const& kind() const noexcept override { return kind_; }
    command_args arguments(command) const noexcept override { return args_; }
    bool still_wants(command) const noexcept override { return true; }
    void on_answer(unsigned, command, std::uint32_t, answer const&) override {}

private:
    void recycle() noexcept override {}

    lock_kind const& kind_;
    command_args args_;
};

/// The answer to one command with these arguments. Each element of depth 0 begins the next reply.
class answer_of {
public:
    answer_of(lock_kind const& kind, command_args const& args, command c,
              std::vector<element> const& all, bool fenced, wording w)
        : lock_(kind, args) {
        auto left = static_cast<unsigned>(std::ranges::count(all, std::size_t{0}, &element::depth));
        BOOST_REQUIRE(left == kind.replies(c, w));
        for (auto const& e : all) {
            if (e.depth == 0) --left;
            reader_.take({.kind = kind,
                          .command = c,
                          .words = w,
                          .fenced = fenced,
                          .owner = lock_,
                          .secrets = secrets_,
                          .trusts_pushes = true},
                         left, e);
            if (reader_.has_lack()) lack = reader_.take_lack().first;
        }
    }
    answer const* operator->() const { return &reader_.result(); }
    bool is_nonsense() const {
        return reader_.result().verdict == protocol::verdict::unknown &&
               reader_.ends_session() == errc::not_redis;
    }
    lock_reply const& reader() const { return reader_; }
    std::optional<degradation> lack;

private:
    lock_with lock_;
    secret_list secrets_{"hush"};
    lock_reply reader_;
};

} // namespace holdfast::test::kind_replies

#endif
