#include "testing/lock_server.hpp"

#include "testing/data_commands.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace holdfast::testing {

namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A new instance seems to have run for so long. So no client takes it for one that has been
/// started again, and may have lost locks.
constexpr auto first_age = std::chrono::hours(24 * 365);

std::string random_id() {
    constexpr std::string_view digits = "0123456789abcdef";
    constexpr std::size_t size = 40;
    std::random_device source;
    std::string id;
    while (id.size() < size) id += digits[source() % digits.size()];
    return id;
}

reply invalidation(reply keys) {
    return reply::list(reply::kind::push, {reply::bulk("invalidate"), std::move(keys)});
}

} // namespace

lock_server::lock_server()
    : database_([this](std::string const& key) { on_change(key); })
    , run_id_(random_id())
    , replication_id_(random_id())
    , origin_(steady_clock::now())
    , started_(origin_ - first_age)
    , origin_ms_(duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
                     .count()) {
    update_clock();
}

// As the clock of a server, but nothing can set it.
void lock_server::update_clock() {
    database_.set_now(origin_ms_ +
                      duration_cast<milliseconds>(steady_clock::now() - origin_).count());
}

lock_server::client& lock_server::connect() {
    auto const id = ++last_id_;
    return clients_.emplace(id, client{.id = id}).first->second;
}

void lock_server::disconnect(client& c) {
    auto const id = c.id;
    watches_.forget(id);
    clients_.erase(id);
}

void lock_server::execute(client& c, command_line const& words) {
    update_clock();
    current_ = &c;
    auto const r = run(c, words);
    current_ = nullptr;
    encode(c.out, r, c.protocol);
    c.out += std::exchange(pushes_after_, {});
    // CLIENT CACHING holds for the command after it.
    if (lower(words.front()) != "client") c.caching = false;
}

reply lock_server::execute(command_line const& words) {
    client nobody;
    update_clock();
    return run(nobody, words);
}

std::vector<std::string> lock_server::keys() {
    update_clock();
    return database_.keys();
}

void lock_server::expire() {
    update_clock();
    database_.remove_expired();
}

void lock_server::restart() {
    database_.clear();
    watches_.clear();
    scripts_.clear();
    flushes_.clear();
    run_id_ = random_id();
    replication_id_ = random_id();
    started_ = steady_clock::now();
}

//
// Pushes
//

void lock_server::tell(client& c, std::string const& key) {
    if (c.protocol != 3) return; // there is no way to tell it
    encode(&c == current_ ? pushes_after_ : c.out,
           invalidation(reply::list(reply::kind::array, {reply::bulk(key)})), 3);
}

void lock_server::on_change(std::string const& key) {
    for (auto const id : watches_.take(key)) {
        auto const found = clients_.find(id);
        if (found == clients_.end() || !found->second.tracks) continue;
        if (&found->second == current_ && found->second.no_loop) continue;
        tell(found->second, key);
    }
}

void lock_server::note_read(client& c, std::string const& key) {
    if (!c.tracks || (c.opts_in && !c.caching)) return;
    auto const displaced = watches_.add(key, c.id);
    if (!displaced) return;
    for (auto const id : displaced->second) {
        if (auto const found = clients_.find(id); found != clients_.end())
            tell(found->second, displaced->first);
    }
}

//
// Commands
//

struct lock_server::command {
    std::string_view name;
    int words; ///< as data_command::words
    reply (lock_server::*run)(client&, command_line const&);
};

lock_server::command const* lock_server::find(std::string_view name) {
    static constexpr std::array all{
        command{"auth", -2, &lock_server::auth},
        command{"client", -2, &lock_server::client_command},
        command{"config", -2, &lock_server::config},
        command{"eval", -3, &lock_server::eval},
        command{"evalsha", -3, &lock_server::evalsha},
        command{"flushall", -1, &lock_server::flushall},
        command{"flushdb", -1, &lock_server::flushdb},
        command{"hello", -1, &lock_server::hello},
        command{"info", -1, &lock_server::info},
        command{"ping", -1, &lock_server::ping},
        command{"script", -2, &lock_server::script_command},
        command{"select", 2, &lock_server::select},
        command{"wait", 3, &lock_server::wait},
    };
    auto const wanted = lower(name);
    auto const* const found =
        std::find_if(all.begin(), all.end(), [&](command const& c) { return c.name == wanted; });
    return found == all.end() ? nullptr : found;
}

reply lock_server::run(client& c, command_line const& words) {
    auto const& name = words.front();
    if (auto const* const own = find(name)) {
        if (!has_arity(words.size(), own->words)) return wrong_arity(own->name);
        return (this->*own->run)(c, words);
    }
    auto const* const data = find_data_command(name);
    if (data == nullptr) {
        constexpr std::size_t shown = 64;
        return reply::error("ERR unknown command '" + name.substr(0, shown) +
                            "': the embedded instance of holdfast::testing has only the commands "
                            "that holdfast sends");
    }
    if (!has_arity(words.size(), data->words)) return wrong_arity(data->name);
    auto result = data->run(database_, words);
    if (data->reads && !result.is_error()) note_read(c, words[1]);
    return result;
}

reply lock_server::flushall(client& c, command_line const& words) {
    ++flushes_[lower(words.front())];
    database_.clear();
    watches_.clear();
    for (auto& [id, each] : clients_) {
        if (!each.tracks || each.protocol != 3) continue;
        encode(&each == &c ? pushes_after_ : each.out, invalidation(reply::null()), 3);
    }
    return reply::ok();
}

reply lock_server::flushdb(client& c, command_line const& words) {
    return flushall(c, words);
}

//
// Scripts
//

reply lock_server::script_command(client&, command_line const& words) {
    auto const what = lower(words[1]);
    if (what == "flush") {
        scripts_.clear();
        return reply::ok();
    }
    if (what != "load" || words.size() != 3) {
        return reply::error("ERR unknown subcommand '" + words[1] +
                            "': the embedded instance has SCRIPT LOAD and SCRIPT FLUSH");
    }
    for (auto const& script : native_scripts()) {
        if (script.text != words[2]) continue;
        scripts_.insert(script.digest);
        return reply::bulk(script.digest);
    }
    constexpr std::size_t shown = 80;
    return reply::error("ERR the embedded instance runs the scripts of holdfast alone, and not: " +
                        words[2].substr(0, shown));
}

reply lock_server::eval(client& c, command_line const& words) {
    auto const loaded = script_command(c, {"script", "load", words[1]});
    if (loaded.is_error()) return loaded;
    auto by_digest = words;
    by_digest[1] = loaded.text;
    return evalsha(c, by_digest);
}

reply lock_server::evalsha(client& c, command_line const& words) {
    auto const keys = to_integer(words[2]);
    auto const given = static_cast<std::int64_t>(words.size()) - 3;
    if (!keys) return not_an_integer();
    if (*keys > given)
        return reply::error("ERR Number of keys can't be greater than number of args");
    if (*keys < 0) return reply::error("ERR Number of keys can't be negative");
    auto const digest = lower(words[1]);
    if (!scripts_.contains(digest))
        return reply::error("NOSCRIPT No matching script. Please use EVAL.");
    auto const all = native_scripts();
    auto const script = std::find_if(all.begin(), all.end(),
                                     [&](native_script const& s) { return s.digest == digest; });
    auto const first_argument = words.begin() + 3 + *keys;
    return testing::run(*script, database_, {words.begin() + 3, first_argument},
                        {first_argument, words.end()},
                        [&](std::string const& key) { note_read(c, key); });
}

} // namespace holdfast::testing
