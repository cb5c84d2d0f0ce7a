// The state of a key for people, and as JSON.
#ifndef HOLDFAST_COMMAND_REPORT_TEXT_HPP
#define HOLDFAST_COMMAND_REPORT_TEXT_HPP

#include <holdfast/key_report.hpp>

#include <boost/json/object.hpp>

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::command {

/// `not_a_lock`
std::string underscored(std::string_view words);
/// `web-7`, or `3 readers`: of a lock that is held. Empty: a holder without a label. `revoked@ops`:
/// of a lock whose holder was revoked.
std::string holder_of(key_report const&);
/// A digest. Empty for readers, who have one each.
std::string token_of(key_report const&);
/// `8.1 s`, "never expires" or "unknown": of a lock that is held.
std::string time_left(key_report const&);
boost::json::object to_json(key_report const&);
/// Several lines, with a table of the instances.
void print(key_report const&, std::ostream&);
/// A table with a line for each key; of one key the same as print().
void print(std::vector<key_report> const&, std::ostream&);
void print_table(std::vector<key_report> const&, std::ostream&);

} // namespace holdfast::command

#endif
