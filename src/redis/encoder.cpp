#include "redis/encoder.hpp"

#include "redis/token.hpp"

#include <boost/hash2/sha1.hpp>

#include <string>

namespace holdfast::redis {

namespace {

// A script is known to the server by the SHA-1 of its text.
std::string digest(std::string_view script) {
    boost::hash2::sha1_160 sha;
    sha.update(script.data(), script.size());
    return to_string(sha.result());
}

void encode_script(boost::redis::request& to, std::string_view script, std::string const& sha, bool whole,
                   int keys, auto const&... keys_and_arguments) {
    if (whole) {
        to.push("EVAL", script, keys, keys_and_arguments...);
    } else {
        to.push("EVALSHA", sha, keys, keys_and_arguments...);
    }
}

/// Valid until the next call.
std::string_view fence_key(std::string_view key) {
    static thread_local std::string name;
    name_fence_key(name, key);
    return name;
}

void encode_acquire(boost::redis::request& to, subject const& s, bool whole) {
    static std::string const sha = digest(fenced_acquire_script);
    if (s.fenced()) {
        encode_script(to, fenced_acquire_script, sha, whole, 2, s.key, fence_key(s.key), s.token,
                      s.ttl.count(), s.number, s.fence_ttl.count());
    } else {
        to.push("SET", s.key, s.token, "NX", "PX", s.ttl.count());
    }
}

} // namespace

void name_fence_key(std::string& name, std::string_view key) {
    // https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ ("Hash tags")
    auto const open = key.find('{');
    auto const close = open == key.npos ? key.npos : key.find('}', open);
    auto const tagged = close != key.npos && close > open + 1;
    name.clear();
    if (!tagged) name += '{';
    name += key;
    name += tagged ? ":fence" : "}:fence";
}

void encode(boost::redis::request& to, protocol::command c, dialect d, subject const& s, bool whole_script) {
    static std::string const release_sha = digest(release_script);
    static std::string const extend_sha = digest(extend_script);
    static std::string const raise_sha = digest(raise_script);
    using protocol::command;
    switch (c) {
    case command::contend:
        encode_contend(to, s, false, whole_script);
        break;
    case command::acquire:
    case command::heal:
        encode_acquire(to, s, whole_script);
        break;
    case command::raise:
        encode_script(to, raise_script, raise_sha, whole_script, 2, s.key, fence_key(s.key), s.token,
                      s.number, s.fence_ttl.count());
        break;
    case command::extend:
        if (d == dialect::scripts) {
            encode_script(to, extend_script, extend_sha, whole_script, 1, s.key, s.token, s.ttl.count());
        } else {
            to.push("SET", s.key, s.token, "IFEQ", s.token, "PX", s.ttl.count());
        }
        break;
    case command::release:
        if (d == dialect::delifeq) {
            to.push("DELIFEQ", s.key, s.token);
        } else if (d == dialect::delex) {
            to.push("DELEX", s.key, "IFEQ", s.token);
        } else {
            encode_script(to, release_script, release_sha, whole_script, 1, s.key, s.token);
        }
        break;
    case command::inspect:
        to.push("PTTL", s.key);
        to.push("TYPE", s.key);
        // No more of it than a token can have: it may be anything.
        to.push("GETRANGE", s.key, 0, token::max_size);
        break;
    }
}

void encode_contend(boost::redis::request& to, subject const& s, bool tracked, bool whole_script) {
    encode_acquire(to, s, whole_script);
    if (tracked) to.push("CLIENT", "CACHING", "YES");
    to.push("PTTL", s.key);
}

} // namespace holdfast::redis
