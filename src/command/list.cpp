#include "command/list.hpp"

#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/output.hpp"
#include "command/report_text.hpp"
#include "command/table.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::command {

namespace json = boost::json;

namespace {

/// Lists the keys, and then inspects each of them, a few at a time.
class search {
public:
    explicit search(list_settings const& s)
        : settings_(s)
        , locks_(context_.get_executor(), s.addresses(), s.options()) {}

    /// @throws lock_error
    void run() {
        locks_.list(settings_.start, settings_.limits, [this](error e, list_report r) {
            how_ = std::move(e);
            list = std::move(r);
            keys.resize(list.keys.size());
            for (std::size_t i = 0; i < at_a_time; ++i) inspect_next();
            close_when_done();
        });
        context_.run();
        if (how_) throw lock_error(how_);
    }

    list_report list;
    std::vector<key_report> keys;

private:
    static constexpr std::size_t at_a_time = 16;

    void inspect_next() {
        if (how_ || next_ == keys.size()) return;
        auto const i = next_++;
        locks_.inspect(list.keys[i].substr(settings_.prefix.size()),
                       [this, i](error e, key_report r) {
                           if (e) how_ = std::move(e);
                           keys[i] = std::move(r);
                           ++done_;
                           inspect_next();
                           close_when_done();
                       });
    }
    void close_when_done() {
        if (how_ || done_ == keys.size()) locks_.close();
    }

    list_settings const& settings_;
    boost::asio::io_context context_{1};
    client locks_;
    error how_;
    std::size_t next_ = 0, done_ = 0;
};

void print_json(list_report const& list, std::vector<key_report> const& shown) {
    json::array keys, instances;
    for (auto const& k : shown) {
        auto each = command::to_json(k);
        each.erase("instances");
        keys.push_back(std::move(each));
    }
    for (auto const& i : list.instances) {
        instances.push_back(json::object{
            {"address", i.address}, {"complete", i.complete}, {"message", printable(i.message)}});
    }
    std::cout << json::serialize(json::object{{"keys", std::move(keys)},
                                              {"complete", list.complete},
                                              {"limited", list.limited},
                                              {"instances", std::move(instances)}})
              << '\n';
}

/// What the list may lack; empty if nothing.
std::string missing(list_settings const& s, search const& found) {
    std::vector<std::string> all;
    // Each instance that was given up at the limit says so, too.
    auto const limit = "stopped at " + std::to_string(s.limits.max_keys) + " keys";
    if (found.list.limited) all.push_back(limit);
    for (auto const& i : found.list.instances) {
        if (!i.complete && i.message != limit)
            all.push_back(i.address + ": " + printable(i.message));
    }
    auto const unknown = std::ranges::count(found.keys, key_state::unknown, &key_report::state);
    if (unknown > 0)
        all.push_back("too few instances tell about " + std::to_string(unknown) + " keys");
    std::string text;
    for (auto const& each : all) text += (text.empty() ? "" : "; ") + each;
    return text;
}

} // namespace

int list(list_settings const& s) {
    search found(s);
    found.run();
    auto shown = found.keys;
    if (!s.all) std::erase_if(shown, [](auto const& k) { return k.state != key_state::held; });
    if (s.json) {
        print_json(found.list, shown);
    } else {
        print_table(shown, std::cout);
    }
    auto const failed = flush_output();
    auto const lacks = missing(s, found);
    if (!lacks.empty()) std::cerr << "holdfast: the list may lack locks: " << lacks << '\n';
    if (failed != 0 && failed != EPIPE) return cannot_write;
    return lacks.empty() ? success : incomplete;
}

} // namespace holdfast::command
