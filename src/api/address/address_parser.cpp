#include "api/address/address_parser.hpp"

#include <holdfast/error.hpp>

#include "api/address/address_checks.hpp"
#include "api/address/address_options.hpp"
#include "api/address/address_scheme.hpp"
#include "api/address/url.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::detail {

namespace {

using std::string_view;
constexpr auto npos = string_view::npos;

class address_parser {
public:
    explicit address_parser(string_view text)
        : text_(text) {}

    address_parts parse() {
        if (text_.empty()) refuse(0, "the address is empty");
        if (is_plain_path(text_)) {
            take_plain_path();
        } else {
            find_parts();
            check_at_signs();
            if (fragment_ != npos)
                refuse(fragment_, "an address has no fragment: '#' is written %23");
            check_syntax();
            take_credentials();
            take_hosts();
            take_path();
            take_options();
        }
        if (auto const problem = check(parts_)) {
            refuse(problem->part == address_part::hosts
                       ? host_places_[problem->host]
                       : places_[static_cast<std::size_t>(problem->part)],
                   problem->reason);
        }
        return std::move(parts_);
    }

private:
    [[noreturn]] void refuse(std::size_t place, std::string const& reason) const {
        throw system_error(make_error_code(errc::invalid_address),
                           '"' + masked(text_) + "\": position " + std::to_string(place + 1) +
                               ": " + reason);
    }

    string_view between(std::size_t begin, std::size_t end) const {
        return text_.substr(begin, end - begin);
    }
    std::size_t& place_of(address_part part) { return places_[static_cast<std::size_t>(part)]; }

    void take_plain_path() {
        constexpr std::size_t begin = 5;
        if (auto const mark = text_.find('?'); mark != npos) {
            refuse(mark, "options are written unix:///path?.., and a '?' of the path %3F there");
        }
        if (text_.size() == begin) refuse(begin, "a socket needs an absolute path");
        parts_.socket_path = text_.substr(begin);
        place_of(address_part::socket_path) = begin;
    }

    void find_parts() {
        auto const scheme = end_of_scheme(text_);
        if (scheme != npos) {
            auto const* const known = find_scheme(text_.substr(0, scheme));
            if (known == nullptr) refuse(0, "the scheme is none of " + scheme_names());
            parts_.deployment = known->deployment;
            parts_.tls = known->tls;
            is_socket_ = known->socket;
            begin_ = scheme + 3;
        } else if (auto const slash = text_.find(":/"); slash != npos) {
            if (find_scheme(text_.substr(0, slash)) != nullptr)
                refuse(slash + 1, "'//' follows the scheme and its ':'");
        }
        end_ = std::min(text_.find_first_of("/?#", begin_), text_.size());
        auto const at = between(begin_, end_).rfind('@');
        hosts_ = at == npos ? begin_ : begin_ + at + 1;
        fragment_ = text_.find('#', end_);
        path_end_ = std::min(text_.find_first_of("?#", end_), text_.size());
        // Problems of parts that are not there are told at the place where they would be.
        places_.fill(end_);
    }

    /// Only one @ is not encoded, the one before the hosts. Others are most likely those of a
    /// password, as are / ? # before them, which end the hosts too early.
    void check_at_signs() const {
        auto const first = text_.find('@', begin_);
        if (first == npos) return;
        if (first + 1 < hosts_) refuse(first, "'@' is written %40 in a user or password");
        auto const later = text_.find('@', end_);
        if (later == npos || (is_socket_ && begin_ == end_)) return;
        if (hosts_ != begin_ || later_option_begins())
            refuse(later, "'@' is written %40, before the host and behind it");
        auto const c = text_[end_];
        refuse(end_, std::string("'") + c + "' is written " + percent_encoded({&c, 1}) +
                         " in a user or password, and '@' is written %40 behind the host");
    }

    bool later_option_begins() const {
        if (path_end_ == text_.size() || text_[path_end_] != '?') return false;
        auto const name = text_.substr(path_end_ + 1);
        return find_option(name.substr(0, name.find('='))) != nullptr;
    }

    /// Everything but the hosts.
    void check_syntax() const {
        if (auto const fault = find_url_fault(between(begin_, hosts_)); fault != npos) {
            auto const c = text_[begin_ + fault];
            refuse(begin_ + fault, c == '%'   ? "'%' is written %25 in a user or password"
                                   : c == ' ' ? "a space is written %20 in a user or password"
                                              : "this character is written %XX in a user or "
                                                "password");
        }
        if (auto const fault = find_url_fault(between(end_, text_.size())); fault != npos)
            refuse(end_ + fault, "a URL has no such character; it is written %XX");
    }

    void take_credentials() {
        if (hosts_ == begin_) return;
        auto const info = between(begin_, hosts_ - 1);
        auto const colon = std::min(info.find(':'), info.size());
        place_of(address_part::credentials) = begin_;
        parts_.credentials.user = percent_decoded(info.substr(0, colon));
        if (colon != info.size())
            parts_.credentials.password = percent_decoded(info.substr(colon + 1));
    }

    void take_hosts() {
        if (is_socket_) {
            if (hosts_ != end_) refuse(hosts_, path_needs_slash);
            return;
        }
        auto begin = hosts_;
        for (auto i = hosts_; i < end_; ++i) {
            if (text_[i] != ',') continue;
            take_host(begin, i);
            begin = i + 1;
        }
        take_host(begin, end_);
    }

    void take_host(std::size_t begin, std::size_t end) {
        host_port found;
        auto const port = text_.substr(begin).starts_with('[') ? take_v6(begin, end, found.host)
                                                               : take_name(begin, end, found.host);
        if (port != npos) {
            if (port == end) refuse(end, "the port is empty");
            unsigned number = 0;
            if (!parse_number(between(port, end), number) || number == 0 || number > 65535)
                refuse(port, "the port is not a number from 1 to 65535");
            found.port = static_cast<std::uint16_t>(number);
        }
        parts_.hosts.push_back(std::move(found));
        host_places_.push_back(begin);
    }

    /// Returns the place of the port; npos without a colon.
    std::size_t take_name(std::size_t begin, std::size_t end, std::string& name) const {
        auto const host = between(begin, end);
        auto const colon = std::min(host.find(':'), host.size());
        if (host.find(':', colon + 1) != npos) {
            refuse(begin, "there are several ':'; "
                          "an address of IPv6 stands in brackets, as in [::1]:6379");
        }
        if (colon == 0) {
            refuse(begin, text_.starts_with('/')
                              ? "there is no host; a socket is written unix:/path"
                              : "the host is empty");
        }
        for (std::size_t i = 0; i < colon; ++i) {
            if (host[i] == '%') continue;
            auto const reason = fault_of_host_name(host.substr(i, 1));
            if (!reason.empty()) refuse(begin + i, std::string(reason));
        }
        if (auto const fault = find_url_fault(host.substr(0, colon)); fault != npos)
            refuse(begin + fault, "two hexadecimal digits follow a '%'");
        name = percent_decoded(host.substr(0, colon));
        return colon == host.size() ? npos : begin + colon + 1;
    }

    /// As take_name(). The zone is written as RFC 6874 has it.
    std::size_t take_v6(std::size_t begin, std::size_t end, std::string& address) const {
        constexpr auto no_address = "the host is no address of IPv6";
        auto const host = between(begin, end);
        auto const close = std::min(host.find(']'), host.size());
        auto const zone = close == host.size() ? close : std::min(host.find('%'), close);
        auto const name = host.substr(zone, close - zone);
        if (!name.empty() && (name.size() < 4 || !name.starts_with("%25") ||
                              !std::all_of(name.begin() + 3, name.end(), is_unreserved)))
            refuse(begin + zone, "the zone of an address is written %25eth0");
        auto const number = host.substr(1, zone - 1);
        // [v7.x]: an address of a version that does not exist yet.
        if (number.starts_with('v')) refuse(begin, no_address);
        if (auto const fault = find_v6_fault(number); fault != npos)
            refuse(begin + 1 + fault, no_address);
        if (close == host.size()) refuse(end, no_address);
        address = number;
        if (!name.empty()) address.append("%").append(name.substr(3));
        if (close + 1 == host.size()) return npos;
        if (host[close + 1] != ':') refuse(begin + close + 1, "only ':' and a port may follow ']'");
        return begin + close + 2;
    }

    void take_path() {
        auto const path = between(end_, path_end_);
        if (is_socket_) {
            if (path.empty()) refuse(end_, path_needs_slash);
            parts_.socket_path = percent_decoded(path);
            return;
        }
        if (path.size() < 2) return;
        auto begin = end_ + 1;
        if (parts_.deployment == deployment::sentinel) {
            auto const name_end = std::min(text_.find('/', begin), path_end_);
            place_of(address_part::primary_name) = begin;
            take_primary_name(begin, name_end);
            if (name_end == path_end_) return;
            begin = name_end + 1;
        }
        if (parts_.deployment == deployment::cluster) refuse(begin, "a Cluster has no databases");
        if (!parse_number(percent_decoded(between(begin, path_end_)), parts_.database))
            refuse(begin, "the path is not the number of a database");
        has_database_ = true;
    }

    void take_primary_name(std::size_t begin, std::size_t end) {
        for (auto i = begin; i < end; ++i) {
            auto const c = text_[i];
            if (is_unreserved(c) || c == '%') continue;
            refuse(i, std::string("'") + c + "' is written " + percent_encoded({&c, 1}) +
                          " in the name of a primary; options begin with '?'");
        }
        parts_.primary_name = percent_decoded(between(begin, end));
    }

    void take_options() {
        if (path_end_ == text_.size()) return;
        auto begin = path_end_ + 1;
        address_option const* last = nullptr;
        std::vector<address_option const*> seen;
        for (;;) {
            auto const end = std::min(text_.find('&', begin), text_.size());
            last = take_option(begin, end, last);
            if (std::find(seen.begin(), seen.end(), last) != seen.end())
                refuse(begin, "the option " + std::string(last->name) + " is given twice");
            seen.push_back(last);
            if (end == text_.size()) return;
            begin = end + 1;
        }
    }

    address_option const* take_option(std::size_t begin, std::size_t end,
                                      address_option const* before) {
        if (begin == end) refuse(begin, "an option is missing");
        auto const option = between(begin, end);
        auto const equals = std::min(option.find('='), option.size());
        auto const* const known = find_option(option.substr(0, equals));
        if (known == nullptr) refuse_option(begin, option.substr(0, equals), before);
        if (auto const reason = misplaced(*known, parts_); !reason.empty()) refuse(begin, reason);
        if (known->part == address_part::database && has_database_)
            refuse(begin, "the database is given twice, in the path and as an option");
        if (equals + 1 >= option.size())
            refuse(begin, "the option " + std::string(known->name) + " has no value");
        place_of(known->part) = begin;
        auto const* const reason = known->set(parts_, percent_decoded(option.substr(equals + 1)));
        if (reason != nullptr) refuse(begin + equals + 1, reason);
        return known;
    }

    /// The name may be the rest of a password, so the message does not show it.
    [[noreturn]] void refuse_option(std::size_t begin, string_view name,
                                    address_option const* before) const {
        if (before != nullptr && before->name == "sentinel_password")
            refuse(begin, "this is no option; '&' is written %26 in a password");
        auto const* const near = nearest_option(name);
        refuse(begin, near != nullptr
                          ? "there is no such option; the nearest is " + std::string(near->name)
                          : "there is no such option; there are " + option_names());
    }

    static constexpr auto path_needs_slash =
        "a socket has no host: its path begins with '/', as in unix:///run/redis.sock";

    string_view text_;
    bool is_socket_ = false;
    std::size_t begin_ = 0;    ///< of user and password
    std::size_t hosts_ = 0;    ///< begin of the hosts, and end of user and password
    std::size_t end_ = 0;      ///< of the hosts, and begin of the path
    std::size_t path_end_ = 0; ///< and begin of the options
    std::size_t fragment_ = npos;
    bool has_database_ = false;

    address_parts parts_;
    std::array<std::size_t, address_part_count> places_{};
    std::vector<std::size_t> host_places_;
};

} // namespace

address_parts parse_address(string_view text) {
    return address_parser(text).parse();
}

} // namespace holdfast::detail
