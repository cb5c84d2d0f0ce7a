// Forward declarations of the public types.
#ifndef HOLDFAST_FWD_HPP
#define HOLDFAST_FWD_HPP

#include <cstdint>

namespace holdfast {

class address;
class client;
class client_groups;
class close_at_exit;
class error;
class fence_gate;
class lease;
class lock;
class lock_error;
class read_write_lock;
class log_observer;
class metrics_page;
class observer;
class release_result;
struct acquire_report;
struct address_parts;
struct client_group;
struct client_options;
struct client_stats;
struct credentials;
struct host_port;
struct instance_event;
struct instance_report;
struct instance_status;
struct key_answer;
struct key_report;
struct latency_histogram;
struct lease_clock;
struct lease_token;
struct list_answer;
struct list_options;
struct list_report;
struct lock_event;
struct lock_options;
struct log_options;
struct stall_event;
struct start_report;
struct tls_options;
struct trace_context;
struct wait_limit;
enum class acquire_outcome : std::uint8_t;
enum class deployment : std::uint8_t;
enum class errc;
enum class error_condition;
enum class instance_outcome : std::uint8_t;
enum class instance_state : std::uint8_t;
enum class key_state : std::uint8_t;
enum class lease_end : std::uint8_t;
enum class log_format : std::uint8_t;
enum class log_level : std::uint8_t;
enum class restart_policy : std::uint8_t;
enum class tls_version : std::uint8_t;

} // namespace holdfast

#endif
