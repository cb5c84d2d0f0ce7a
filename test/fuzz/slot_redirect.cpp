// Fuzzes the errors of a Cluster's nodes, and the replies to CLUSTER NODES. A redirect either has a
// slot, a port and a host to connect to, or is malformed. The same refusal, written again, is read
// as the same. No chain of refusals redirects a command more than three times.
#include "redis/cluster/slot_redirect.hpp"

#include "protocol/cluster/cluster_route.hpp"
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_identity.hpp"

#include "fuzz/check.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace {

using namespace holdfast::protocol;
using holdfast::redis::cluster_identity;
using holdfast::redis::parse_cluster_refusal;
using holdfast::test::check;
using kind = cluster_refusal::kind;

void check_refusal(cluster_refusal const& r) {
    if (!r.redirects()) {
        check(r == cluster_refusal{.type = r.type});
        return;
    }
    check(r.slot < hash_slots && r.port != 0 && r.host.size() <= 253 && r.host != "?");
    auto const again = (r.type == kind::ask ? "ASK " : "MOVED ") + std::to_string(r.slot) + ' ' +
                       std::string(r.host) + ':' + std::to_string(r.port);
    auto const same = parse_cluster_refusal(again);
    check(same && *same == r);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string text(size, '\0');
    if (size != 0) std::memcpy(text.data(), data, size);
    cluster_hops hops;
    unsigned resent = 0;
    for (std::string_view rest = text;;) {
        auto const end = rest.find('\n');
        if (auto const r = parse_cluster_refusal(rest.substr(0, end))) {
            check_refusal(*r);
            auto const step = hops.refused(*r, command::acquire, true, r->host.empty());
            if (step.type == cluster_step::kind::resend ||
                step.type == cluster_step::kind::resend_asking)
                ++resent;
        }
        if (end == rest.npos) break;
        rest.remove_prefix(end + 1);
    }
    check(resent <= 3);
    auto const identity = cluster_identity(text);
    check(identity.empty() || identity.size() == 40);
    return 0;
}
