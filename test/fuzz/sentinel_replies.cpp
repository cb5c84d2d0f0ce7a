// Any bytes as the replies of a sentinel to the first questions and to a second round. The report
// is bounded, and has valid addresses and ids. A view that takes it names a primary of the report
// or none.
#include "redis/sentinel/sentinel_replies.hpp"

#include "redis/sentinel/sentinel_view.hpp"

#include "fuzz/check.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace {

using namespace holdfast::redis;
using holdfast::errc;
using holdfast::test::check;

void check_address(server_address const& a) {
    check(!a.host.empty() && a.host.size() <= sentinel_replies::max_host && a.port != 0);
}

struct reader {
    void on_part(pending_command& c, element const& e) { replies.take_part(c, e); }
    void on_reply(pending_command const& c) {
        if (!sentinel_replies::ends_round(c)) return;
        auto const& r = replies.report();
        if (r.primary) check_address(*r.primary);
        check(r.peers.size() <= sentinel_replies::max_peers);
        for (auto const& peer : r.peers) check_address(peer.address);
        check(r.refused != errc{} || r.message.empty());
        auto const now = holdfast::protocol::time_point(std::chrono::hours(1));
        static_cast<void>(view.report(0, r, now, now));
        // Two configured addresses: one sentinel alone names nothing, unless it hides no other.
        if (view.primary()) check(view.primary() == r.primary);
        check(view.sentinels().size() <= 2 + holdfast::protocol::sentinel_members::capacity);
        check(!view.search_text().empty());
    }
    void on_batch_answered() {}
    void on_push(element const& e) {
        if (auto const to = replies.take_push(e)) check_address(*to);
    }
    bool ends() const { return false; }

    sentinel_replies replies{"rooms"};
    sentinel_view view{{.sentinels = {{.host = "a", .port = 1}, {.host = "b", .port = 1}},
                        .primary_name = "rooms",
                        .on_restart = {},
                        .max_ttl = std::chrono::milliseconds(1'000)}};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string bytes(size, '\0');
    if (size != 0) std::memcpy(bytes.data(), data, size);
    reader user;
    pipeline wire;
    auto& first = wire.send_first(user.replies.first_questions("app", "secret", "me"));
    first.written = first.bytes.size();
    std::string_view rest = bytes;
    if (!wire.read(rest, user) || !wire.idle()) return 0;
    user.replies.ask(wire);
    auto& second = wire.send({});
    second.written = second.bytes.size();
    wire.read(rest, user);
    return 0;
}
