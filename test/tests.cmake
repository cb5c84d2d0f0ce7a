# Which tests there are. A line here is all that a new one needs.
holdfast_test(unit SOURCES
    ../src/command/diagnosis.cpp
    ../src/command/table.cpp
    ../bench/allocation_counter.cpp
    unit/acquirer_test.cpp
    unit/address_test.cpp
    unit/address_faults_test.cpp
    unit/address_lists_test.cpp
    unit/address_struct_test.cpp
    unit/address_urls_test.cpp
    unit/arbiter_test.cpp
    unit/backoff_test.cpp
    unit/certificate_facts_test.cpp
    unit/clock_guard_test.cpp
    unit/clocks_test.cpp
    unit/cluster_guard_test.cpp
    unit/cluster_nodes_test.cpp
    unit/cluster_patience_test.cpp
    unit/cluster_route_test.cpp
    unit/connection_failure_test.cpp
    unit/credential_schedule_test.cpp
    unit/diagnosis_test.cpp
    unit/error_test.cpp
    unit/fence_test.cpp
    unit/fence_gate_test.cpp
    unit/fence_names_test.cpp
    unit/grant_routes_test.cpp
    unit/hash_slot_of_a_key_test.cpp
    unit/hello_choice_test.cpp
    unit/inbox_test.cpp
    unit/instance_replicas_test.cpp
    unit/instance_set_test.cpp
    unit/key_survey_test.cpp
    unit/key_watch_test.cpp
    unit/lanes_test.cpp
    unit/late_answers_test.cpp
    unit/lease_keeper_test.cpp
    unit/liveness_test.cpp
    unit/lock_command_test.cpp
    unit/lock_kind_test.cpp
    unit/log_lines_test.cpp
    unit/map_refresh_test.cpp
    unit/metrics_test.cpp
    unit/pending_releases_test.cpp
    unit/pipeline_test.cpp
    unit/pool_test.cpp
    unit/probe_test.cpp
    unit/promotion_guard_test.cpp
    unit/push_trust_test.cpp
    unit/quarantine_test.cpp
    unit/reconnect_test.cpp
    unit/replica_guard_test.cpp
    unit/reply_reader_test.cpp
    unit/report_test.cpp
    unit/report_builder_test.cpp
    unit/resolver_test.cpp
    unit/restart_guard_test.cpp
    unit/round_trips_test.cpp
    unit/rules_test.cpp
    unit/secret_list_test.cpp
    unit/sentinel_directory_test.cpp
    unit/sentinel_replies_test.cpp
    unit/sentinel_view_test.cpp
    unit/series_test.cpp
    unit/server_info_test.cpp
    unit/session_test.cpp
    unit/shared_source_test.cpp
    unit/slot_maps_test.cpp
    unit/standstill_test.cpp
    unit/stream_test.cpp
    unit/tally_test.cpp
    unit/tenure_test.cpp
    unit/tenure_acquire_test.cpp
    unit/tenure_extension_test.cpp
    unit/tenure_faults_test.cpp
    unit/tenure_release_test.cpp
    unit/timer_queue_test.cpp
    unit/tls_connector_test.cpp
    unit/tls_context_source_test.cpp
    unit/tls_stream_test.cpp
    unit/token_source_test.cpp
    unit/trace_contexts_test.cpp
    unit/turn_timer_test.cpp
    unit/vote_guard_test.cpp
    unit/wait_queue_test.cpp)
holdfast_test(simulation SECONDS 0 SOURCES
    simulation/cluster_test.cpp
    simulation/contention_test.cpp
    simulation/failovers_test.cpp
    simulation/fences_test.cpp
    simulation/guards_test.cpp
    simulation/schedules_test.cpp
    simulation/wire_test.cpp)
set(command_tests)
if(TARGET holdfast_command)
    set(command_tests
        integration/command_test.cpp
        integration/command_release_test.cpp
        integration/command_run_test.cpp
        integration/command_watch_test.cpp)
endif()
holdfast_test(integration LIBRARIES holdfast_boost_json SOURCES ${command_tests}
    integration/bad_input_test.cpp
    integration/cancellation_test.cpp
    integration/clock_jumps_test.cpp
    integration/cluster_groups_test.cpp
    integration/cluster_slots_test.cpp
    integration/contention_test.cpp
    integration/credentials_test.cpp
    integration/crowd_test.cpp
    integration/drain_test.cpp
    integration/faults_test.cpp
    integration/fence_counters_test.cpp
    integration/fence_faults_test.cpp
    integration/fence_order_test.cpp
    integration/fences_test.cpp
    integration/flushes_test.cpp
    integration/foreign_keys_test.cpp
    integration/forks_test.cpp
    integration/handovers_test.cpp
    integration/holders_test.cpp
    integration/hostile_test.cpp
    integration/inspections_test.cpp
    integration/key_changes_test.cpp
    integration/key_releases_test.cpp
    integration/lease_ttl_test.cpp
    integration/leftovers_test.cpp
    integration/lifetimes_test.cpp
    integration/losses_test.cpp
    integration/minority_test.cpp
    integration/names_test.cpp
    integration/observer_events_test.cpp
    integration/proxies_test.cpp
    integration/refusals_test.cpp
    integration/replicas_test.cpp
    integration/replicated_test.cpp
    integration/reports_test.cpp
    integration/restart_load_test.cpp
    integration/restarts_test.cpp
    integration/rights_test.cpp
    integration/section_test.cpp
    integration/section_lease_test.cpp
    integration/section_steps_test.cpp
    integration/sentinel_groups_test.cpp
    integration/setups_test.cpp
    integration/shared_library_test.cpp
    integration/shares_test.cpp
    integration/support_test.cpp
    integration/threads_test.cpp
    integration/tls_errors_test.cpp
    integration/tls_rotation_test.cpp
    integration/tls_seam_test.cpp
    integration/tokens_test.cpp
    integration/versions_test.cpp
    integration/wakeups_test.cpp
    integration/watchdog_test.cpp
    integration/acl_log.cpp)
# Its own executable: its tests are long, and start groups of servers.
holdfast_test(cluster SECONDS 600 LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/cluster_failovers_test.cpp
    integration/cluster_guards_test.cpp
    integration/cluster_moves_test.cpp
    integration/cluster_links_test.cpp
    integration/cluster_maps_test.cpp
    integration/cluster_redirects_test.cpp
    integration/cluster_replicas_test.cpp
    integration/cluster_rights_test.cpp
    integration/cluster_use_test.cpp
    integration/acl_log.cpp)
# Its own executable, as it replaces operator new; its functions' names are to be had at run time.
holdfast_test(exceptions SOURCES
    integration/exceptions_test.cpp
    integration/acl_log.cpp
    support/failing_new.cpp)
set_target_properties(exceptions PROPERTIES ENABLE_EXPORTS ON)
# Its own executable, as its servers need a few seconds to find each other.
holdfast_test(failover SECONDS 600 LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/credential_sources_test.cpp
    integration/deployments_test.cpp
    integration/sentinel_faults_test.cpp
    integration/sentinel_load_test.cpp
    integration/sentinel_replicas_test.cpp
    integration/sentinel_use_test.cpp
    integration/acl_log.cpp)
# The older ways to lock, and holdfast beside them. The stories are those of example/tour.
if(HOLDFAST_EXAMPLES)
    holdfast_test(hazards LIBRARIES holdfast_tour SOURCES
        hazards/fallible_servers_test.cpp
        hazards/mixed_clients_test.cpp
        hazards/sequential_redlock_test.cpp
        hazards/simple_locks_test.cpp
        hazards/tour_test.cpp
        integration/acl_log.cpp)
endif()
# Its own executable: its tests run the examples as processes, and use little of the library.
set(booking_tests)
set(booking_libraries)
if(TARGET booking)
    find_package(SQLite3 REQUIRED)
    set(booking_libraries SQLite::SQLite3)
    set(booking_tests
        integration/booking_test.cpp
        integration/booking_faults_test.cpp
        integration/http_client.cpp)
    find_package(PostgreSQL QUIET)
    if(PostgreSQL_FOUND)
        list(APPEND booking_tests
            integration/booking_postgres_test.cpp
            integration/postgres_server.cpp)
    endif()
endif()
holdfast_test(programs LIBRARIES ${booking_libraries} SOURCES
    integration/examples_test.cpp
    integration/small_examples_test.cpp
    ${booking_tests}
    integration/acl_log.cpp)
