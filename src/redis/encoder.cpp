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
                   auto const&... key_and_arguments) {
    if (whole) {
        to.push("EVAL", script, 1, key_and_arguments...);
    } else {
        to.push("EVALSHA", sha, 1, key_and_arguments...);
    }
}

} // namespace

void encode(boost::redis::request& to, protocol::command c, dialect d, subject const& s, bool whole_script) {
    static std::string const release_sha = digest(release_script);
    static std::string const extend_sha = digest(extend_script);
    using protocol::command;
    switch (c) {
    case command::contend:
        encode_contend(to, s, false);
        break;
    case command::acquire:
    case command::heal:
        to.push("SET", s.key, s.token, "NX", "PX", s.ttl.count());
        break;
    case command::extend:
        if (d == dialect::scripts) {
            encode_script(to, extend_script, extend_sha, whole_script, s.key, s.token, s.ttl.count());
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
            encode_script(to, release_script, release_sha, whole_script, s.key, s.token);
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

void encode_contend(boost::redis::request& to, subject const& s, bool tracked) {
    to.push("SET", s.key, s.token, "NX", "PX", s.ttl.count());
    if (tracked) to.push("CLIENT", "CACHING", "YES");
    to.push("PTTL", s.key);
}

} // namespace holdfast::redis
