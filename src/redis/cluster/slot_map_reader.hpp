// Reads the reply to CLUSTER SLOTS, element by element.
//
// https://redis.io/docs/latest/commands/cluster-slots/. Each entry is a range of slots, its primary
// and its replicas. A node is its preferred endpoint, port, id, and metadata. The reader checks
// each element and keeps no replicas. So its memory is bounded by the number of slots.
#ifndef HOLDFAST_REDIS_SLOT_MAP_READER_HPP
#define HOLDFAST_REDIS_SLOT_MAP_READER_HPP

#include "protocol/cluster/slot_map.hpp"
#include "redis/wire/reply_reader.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace holdfast::redis {

class slot_map_reader {
public:
    static constexpr std::size_t max_id = 64;
    /// The most nodes of a Cluster by its specification
    /// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). A node that
    /// names more is broken or hostile, and each name costs a connection.
    static constexpr std::size_t max_primaries = 1'000;

    /// `connected_to`: the host of the connection that the question went over. It is the host of
    /// nodes without a known endpoint.
    explicit slot_map_reader(std::string connected_to)
        : connected_to_(std::move(connected_to)) {}

    void take_part(element const&);

    /// To be called after the last element. True if the reply was a valid map; else problem() has
    /// the reason.
    bool finish();
    /// The fault of the reply, for people. Empty if it has none. Quotes of the server's text are
    /// short and printable.
    std::string const& problem() const { return problem_; }
    /// Valid if finish() returned true.
    protocol::slot_map take_map() { return std::move(map_); }

private:
    enum class field : std::uint8_t {
        none,
        host,
        port,
        id,
        metadata,
    };
    enum class host_form : std::uint8_t {
        known,
        of_connection, ///< null or empty
        unknown,       ///< "?"
    };

    void refuse(std::string problem);
    void begin_reply(element const&);
    void begin_range(element const&);
    void take_range_part(element const&);
    void take_node_part(element const&);
    void take_metadata(element const&);
    void take_host(element const&);
    void end_range();
    void end_node();
    std::string range_text() const;

    std::string connected_to_;
    std::string problem_;
    protocol::slot_map map_;
    boost::unordered_flat_map<std::string, protocol::slot_map::index> known_;
    bool begun_ = false;

    // The range
    bool in_range_ = false;
    unsigned range_parts_ = 0;
    unsigned first_ = 0, last_ = 0;

    // Its primary. Its replicas are not kept.
    bool in_primary_ = false;
    unsigned node_parts_ = 0;
    host_form form_{};
    protocol::node_address node_;
    std::string ip_; ///< from the metadata
    enum class metadatum : std::uint8_t {
        name, ///< the next element is a name
        other,
        ip,
        hostname,
    } metadatum_{};
};

} // namespace holdfast::redis

#endif
