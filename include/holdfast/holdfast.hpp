// Includes every public header.
#ifndef HOLDFAST_HOLDFAST_HPP
#define HOLDFAST_HOLDFAST_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/address.hpp>
#include <holdfast/at_most_every.hpp>
#include <holdfast/client.hpp>
#include <holdfast/client_groups.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/credentials.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence_gate.hpp>
#include <holdfast/fwd.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/latency_histogram.hpp>
#include <holdfast/lead.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/lease_token.hpp>
#include <holdfast/list_report.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/log_observer.hpp>
#include <holdfast/metrics.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/options.hpp>
#include <holdfast/read_write_lock.hpp>
#include <holdfast/tls_options.hpp>
#include <holdfast/trace_context.hpp>
#include <holdfast/version.hpp>
#include <holdfast/wait_limit.hpp>
#include <holdfast/with_lock.hpp>

#endif
