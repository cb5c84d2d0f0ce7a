// Fuzzes the reader of CLUSTER SLOTS with bytes of RESP3. It either gives a map whose owners are
// nodes with an address, or refuses the reply with a short, printable reason.
#include "redis/cluster/slot_map_reader.hpp"
#include "redis/wire/reply_reader.hpp"

#include "fuzz/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace {

using namespace holdfast::redis;
using holdfast::protocol::hash_slots;
using holdfast::protocol::slot_map;
using holdfast::test::check;

void check_map(slot_map const& map) {
    std::size_t unserved = 0;
    for (unsigned slot = 0; slot < hash_slots; ++slot) {
        auto const owner = map.owner(slot);
        if (owner == slot_map::none) ++unserved;
        check(owner == slot_map::none || owner < map.nodes().size());
    }
    check(unserved == map.unserved());
    check(map.nodes().size() <= hash_slots - unserved);
    for (auto const& node : map.nodes()) {
        check(!node.host.empty() && node.host != "?" && node.host.size() <= 253);
        check(node.port != 0 && !node.id.empty() && node.id.size() <= slot_map_reader::max_id);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string bytes(size, '\0');
    if (size != 0) std::memcpy(bytes.data(), data, size);
    slot_map_reader reader("seed");
    reply_reader replies;
    auto const p = replies.read(bytes, [&](element const& e) { reader.take_part(e); });
    if (p != reply_reader::progress::complete) return 0;
    if (reader.finish()) {
        check(reader.problem().empty());
        check_map(reader.take_map());
    } else {
        auto const& problem = reader.problem();
        check(problem.size() > 15 && problem.size() < 200);
        check(std::ranges::all_of(problem, [](char c) { return c >= ' ' && c <= '~'; }));
    }
    return 0;
}
