// The record of a story: commands and answers in their order, and the facts that the story shows.
#ifndef HOLDFAST_TOUR_JOURNAL_HPP
#define HOLDFAST_TOUR_JOURNAL_HPP

#include "support/resp.hpp"

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tour {

using holdfast::test::command_line;
using holdfast::test::reply;

enum class fact_kind {
    hazard, ///< the older way did harm
    safe    ///< holdfast did not, in the same schedule
};

struct fact {
    fact_kind kind;
    bool seen;
    std::string text;
};

/// Prints each line at once.
class journal {
public:
    explicit journal(std::ostream& out)
        : out_(out) {}

    void title(std::string_view text);
    void section(std::string_view text);
    /// A command of a client, and the server's answer.
    void command(std::string_view client, command_line const& words, reply const& answer);
    /// The same where the journal does not see the answer.
    void command(std::string_view client, command_line const& words);
    /// A command that is not answered.
    void unanswered(std::string_view client, command_line const& words, std::string_view reason);
    void line(std::string_view client, std::string_view text);
    /// An event that is no client's.
    void note(std::string_view text);

    void hazard(bool seen, std::string_view text);
    void safe(bool seen, std::string_view text);

    std::vector<fact> const& facts() const noexcept { return facts_; }

private:
    std::ostream& out_;
    std::vector<fact> facts_;
};

} // namespace tour

#endif
