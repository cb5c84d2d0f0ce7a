# Which tests there are. A line here is all that a new one needs.
holdfast_test(unit LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    ../bench/allocation_counter.cpp
    support/certificates.cpp
    unit/address_test.cpp
    unit/arbiter_test.cpp
    unit/backoff_test.cpp
    unit/clock_guard_test.cpp
    unit/clocks_test.cpp
    unit/deadline_queue_test.cpp
    unit/error_test.cpp
    unit/fence_gate_test.cpp
    unit/fence_test.cpp
    unit/instance_set_test.cpp
    unit/key_watch_test.cpp
    unit/lanes_test.cpp
    unit/late_answers_test.cpp
    unit/liveness_test.cpp
    unit/lock_command_test.cpp
    unit/pending_releases_test.cpp
    unit/pipeline_test.cpp
    unit/pool_test.cpp
    unit/probe_test.cpp
    unit/quarantine_test.cpp
    unit/reconnect_test.cpp
    unit/reply_reader_test.cpp
    unit/report_builder_test.cpp
    unit/report_test.cpp
    unit/resolver_test.cpp
    unit/restart_guard_test.cpp
    unit/round_trips_test.cpp
    unit/rules_test.cpp
    unit/server_info_test.cpp
    unit/session_test.cpp
    unit/standstill_test.cpp
    unit/stream_test.cpp
    unit/tally_test.cpp
    unit/tenure_test.cpp
    unit/tls_stream_test.cpp
    unit/token_source_test.cpp
    unit/vote_guard_test.cpp
    unit/wait_queue_test.cpp)
holdfast_test(simulation SECONDS 0 SOURCES
    simulation/contention_test.cpp
    simulation/fences_test.cpp
    simulation/guards_test.cpp
    simulation/schedules_test.cpp
    simulation/wire_test.cpp)
holdfast_test(integration LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/bad_input_test.cpp
    integration/contention_test.cpp
    integration/crowd_test.cpp
    integration/drain_test.cpp
    integration/examples_test.cpp
    integration/faults_test.cpp
    integration/fences_test.cpp
    integration/forks_test.cpp
    integration/guards_test.cpp
    integration/holders_test.cpp
    integration/hostile_test.cpp
    integration/lifetimes_test.cpp
    integration/minority_test.cpp
    integration/names_test.cpp
    integration/refusals_test.cpp
    integration/section_test.cpp
    integration/support_test.cpp
    integration/threads_test.cpp
    integration/tls_seam_test.cpp
    integration/tokens_test.cpp
    integration/versions_test.cpp
    integration/watchdog_test.cpp
    support/certificates.cpp)
# Its own executable, as it replaces operator new; its functions' names are to be had at run time.
holdfast_test(exceptions SOURCES
    integration/exceptions_test.cpp
    support/failing_new.cpp)
set_target_properties(exceptions PROPERTIES ENABLE_EXPORTS ON)
