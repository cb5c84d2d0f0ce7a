# Which tests there are. A line here is all that a new one needs.
holdfast_test(unit LIBRARIES holdfast_testing_objects SOURCES
    unit/redis/cluster/cluster_identities_test.cpp
    ../src/command/diagnosis.cpp
    ../src/command/table.cpp
    ../bench/allocation_counter.cpp
    unit/runtime/acquire/acquirer_test.cpp
    unit/api/address/address_test.cpp
    unit/api/address/address_faults_test.cpp
    unit/api/address/address_lists_test.cpp
    unit/api/address/address_struct_test.cpp
    unit/api/address/address_urls_test.cpp
    unit/protocol/waiting/arbiter_test.cpp
    unit/protocol/backoff_test.cpp
    unit/campaign_judge_test.cpp
    unit/redis/net/certificate_facts_test.cpp
    unit/protocol/key/change_watch_test.cpp
    unit/protocol/server/clock_guard_test.cpp
    unit/api/clocks_test.cpp
    unit/protocol/cluster/cluster_guard_test.cpp
    unit/protocol/cluster/cluster_patience_test.cpp
    unit/redis/cluster/cluster_route_test.cpp
    unit/redis/cluster/cluster_sets_test.cpp
    unit/redis/cluster/cluster_steps_test.cpp
    unit/redis/net/connection_failure_test.cpp
    unit/protocol/server/credential_schedule_test.cpp
    unit/api/groups_of_clients_test.cpp
    unit/command/diagnosis_test.cpp
    unit/api/error_test.cpp
    unit/redis/wire/kinds/fair_commands_test.cpp
    unit/protocol/waiting/fair_queue_test.cpp
    unit/protocol/tenure/fence_test.cpp
    unit/api/fence_gate_test.cpp
    unit/redis/wire/kinds/fence_names_test.cpp
    unit/redis/wire/kinds/native_counts_test.cpp
    unit/runtime/acquire/folded_queues_test.cpp
    unit/redis/cluster/grant_routes_test.cpp
    unit/redis/wire/kinds/hash_slot_of_a_key_test.cpp
    unit/protocol/waiting/key_lines_test.cpp
    unit/runtime/keys/key_reports_test.cpp
    unit/redis/scan/key_scans_test.cpp
    unit/testing/key_searches_test.cpp
    unit/protocol/server/hello_choice_test.cpp
    unit/testing/hostile_clients_test.cpp
    unit/runtime/engine/inbox_test.cpp
    unit/protocol/instance_set_test.cpp
    unit/testing/instances_test.cpp
    unit/testing/leading_test.cpp
    unit/protocol/key/key_removal_test.cpp
    unit/protocol/key/key_survey_test.cpp
    unit/protocol/tenure/recent_counters_test.cpp
    unit/protocol/waiting/key_tracker_test.cpp
    unit/runtime/keys/key_watcher_test.cpp
    unit/protocol/server/lanes_test.cpp
    unit/protocol/tenure/late_answers_test.cpp
    unit/runtime/lease/lease_keeper_test.cpp
    unit/runtime/keys/listers_test.cpp
    unit/redis/server/link_policies_test.cpp
    unit/protocol/server/liveness_test.cpp
    unit/redis/wire/kinds/lock_command_test.cpp
    unit/redis/wire/kinds/lock_kind_test.cpp
    unit/redis/server/lock_replies_test.cpp
    unit/runtime/engine/lock_settings_test.cpp
    unit/api/log_lines_test.cpp
    unit/protocol/cluster/map_refresh_test.cpp
    unit/api/metrics_test.cpp
    unit/redis/cluster/node_tables_test.cpp
    unit/api/option_texts_test.cpp
    unit/redis/server/pending_releases_test.cpp
    unit/redis/wire/kinds/permit_commands_test.cpp
    unit/redis/wire/pipeline_test.cpp
    unit/runtime/memory/pool_test.cpp
    unit/redis/wire/probe_test.cpp
    unit/protocol/sentinel/promotion_guard_test.cpp
    unit/protocol/waiting/push_trust_test.cpp
    unit/protocol/quarantine_test.cpp
    unit/api/read_write_calls_test.cpp
    unit/api/semaphore_calls_test.cpp
    unit/protocol/waiting/readers_queue_test.cpp
    unit/redis/server/reauthentication_test.cpp
    unit/protocol/server/reconnect_test.cpp
    unit/protocol/server/replica_guard_test.cpp
    unit/redis/wire/kinds/read_write_commands_test.cpp
    unit/redis/wire/reply_reader_test.cpp
    unit/api/report_test.cpp
    unit/runtime/services/report_builder_test.cpp
    unit/redis/net/resolver_test.cpp
    unit/protocol/server/restart_guard_test.cpp
    unit/protocol/tenure/round_trips_test.cpp
    unit/protocol/tenure/sharers_test.cpp
    unit/protocol/rules_test.cpp
    unit/redis/wire/secret_list_test.cpp
    unit/protocol/sentinel/sentinel_directory_test.cpp
    unit/redis/sentinel/sentinel_links_test.cpp
    unit/redis/sentinel/sentinel_replies_test.cpp
    unit/redis/sentinel/sentinel_steps_test.cpp
    unit/redis/sentinel/sentinel_view_test.cpp
    unit/bench/series_test.cpp
    unit/protocol/server/server_ages_test.cpp
    unit/redis/wire/server_info_test.cpp
    unit/redis/server/link_replicas_test.cpp
    unit/redis/server/server_monitor_test.cpp
    unit/redis/net/session_test.cpp
    unit/redis/net/shared_source_test.cpp
    unit/redis/cluster/slot_maps_test.cpp
    unit/redis/cluster/slot_parts_test.cpp
    unit/protocol/server/standstill_test.cpp
    unit/redis/net/stream_test.cpp
    unit/redis/wire/kinds/surveys_test.cpp
    unit/protocol/tenure/permit_slots_test.cpp
    unit/protocol/waiting/permits_queue_test.cpp
    unit/protocol/tenure/tally_test.cpp
    unit/protocol/tenure/tenure_permits_test.cpp
    unit/protocol/tenure/tenure_test.cpp
    unit/protocol/tenure/tenure_acquire_test.cpp
    unit/protocol/tenure/tenure_extension_test.cpp
    unit/protocol/tenure/tenure_faults_test.cpp
    unit/protocol/tenure/tenure_release_test.cpp
    unit/runtime/services/stall_records_test.cpp
    unit/runtime/services/timer_queue_test.cpp
    unit/redis/net/tls_connector_test.cpp
    unit/redis/net/tls_context_source_test.cpp
    unit/redis/net/tls_stream_test.cpp
    unit/runtime/services/token_source_test.cpp
    unit/redis/wire/kinds/set_commands_test.cpp
    unit/api/trace_contexts_test.cpp
    unit/redis/net/turn_timer_test.cpp
    unit/redis/server/vote_guard_test.cpp
    unit/protocol/waiting/wait_queue_test.cpp
    unit/protocol/key/key_revocation_test.cpp
    unit/redis/wire/kinds/revocation_commands_test.cpp)
holdfast_test(simulation OPTIMISED SECONDS 0 SOURCES
    simulation/cluster_test.cpp
    simulation/contention_test.cpp
    simulation/failovers_test.cpp
    simulation/fences_test.cpp
    simulation/guards_test.cpp
    simulation/permits_test.cpp
    simulation/readers_test.cpp
    simulation/schedules_test.cpp
    simulation/sets_test.cpp
    simulation/wire_test.cpp)
set(command_tests)
if(TARGET holdfast_command)
    set(command_tests
        integration/command_test.cpp
        integration/command_acquire_test.cpp
        integration/command_drill_test.cpp
        integration/command_every_test.cpp
        integration/command_lead_test.cpp
        integration/command_list_test.cpp
        integration/command_permits_test.cpp
        integration/command_release_test.cpp
        integration/command_run_test.cpp
        integration/command_readers_test.cpp
        integration/command_sets_test.cpp
        integration/command_watch_test.cpp)
endif()
holdfast_test(integration LIBRARIES holdfast_boost_json holdfast_testing_objects SOURCES
    ${command_tests}
    integration/adoptions_test.cpp
    integration/bad_input_test.cpp
    integration/bursts_test.cpp
    integration/clock_jumps_test.cpp
    integration/cluster_groups_test.cpp
    integration/cluster_repairs_test.cpp
    integration/cluster_slots_test.cpp
    integration/contention_test.cpp
    integration/credentials_test.cpp
    integration/crowd_test.cpp
    integration/embedded_instances_test.cpp
    integration/fair_locks_test.cpp
    integration/faults_test.cpp
    integration/fence_counters_test.cpp
    integration/fence_faults_test.cpp
    integration/fence_order_test.cpp
    integration/fences_test.cpp
    integration/flushes_test.cpp
    integration/foreign_keys_test.cpp
    integration/forks_test.cpp
    integration/full_tables_test.cpp
    integration/handovers_test.cpp
    integration/holders_test.cpp
    integration/hostile_test.cpp
    integration/in_place_test.cpp
    integration/inspections_test.cpp
    integration/lists_test.cpp
    integration/key_changes_test.cpp
    integration/key_releases_test.cpp
    integration/late_commands_test.cpp
    integration/lease_ttl_test.cpp
    integration/leftovers_test.cpp
    integration/lifetimes_test.cpp
    integration/losses_test.cpp
    integration/names_test.cpp
    integration/observer_events_test.cpp
    integration/outages_test.cpp
    integration/combined_calls_test.cpp
    integration/periodic_test.cpp
    integration/proxies_test.cpp
    integration/reader_reports_test.cpp
    integration/replicas_test.cpp
    integration/replicated_test.cpp
    integration/restart_load_test.cpp
    integration/restarts_test.cpp
    integration/rights_test.cpp
    integration/section_test.cpp
    integration/section_lease_test.cpp
    integration/section_limits_test.cpp
    integration/section_steps_test.cpp
    integration/sentinel_groups_test.cpp
    integration/set_adoptions_test.cpp
    integration/set_scripts_test.cpp
    integration/setups_test.cpp
    integration/shared_library_test.cpp
    integration/shares_test.cpp
    integration/support_test.cpp
    integration/stalls_test.cpp
    integration/threads_test.cpp
    integration/tls_errors_test.cpp
    integration/tls_rotation_test.cpp
    integration/tls_seam_test.cpp
    integration/tokens_test.cpp
    integration/versions_test.cpp
    integration/wakeups_test.cpp
    integration/watchdog_test.cpp
    integration/acl_log.cpp)
# Its own executable, so that tools/test quick need not compile the rest.
holdfast_test(basics NAMED integration SOURCES
    integration/cancellation_test.cpp
    integration/drain_test.cpp
    integration/minority_test.cpp
    integration/readiness_test.cpp
    integration/read_write_scripts_test.cpp
    integration/refusals_test.cpp
    integration/reports_test.cpp)
# Its own executable, with locks on several keys alone.
holdfast_test(sets NAMED integration SECONDS 600 LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/multi_lock_deployments_test.cpp
    integration/multi_lock_faults_test.cpp
    integration/multi_locks_test.cpp
    integration/acl_log.cpp)
# Its own executable, with readers and writers alone.
holdfast_test(read_write NAMED integration SECONDS 600
    LIBRARIES holdfast_testing_objects OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/read_write_deployments_test.cpp
    integration/read_write_faults_test.cpp
    integration/read_write_leases_test.cpp
    integration/read_write_locks_test.cpp
    integration/read_write_stress_test.cpp
    integration/acl_log.cpp)
# Its own executable, with client::revoke() alone.
set(revoke_command)
if(TARGET holdfast_command)
    set(revoke_command integration/command_revoke_test.cpp)
endif()
holdfast_test(revoking NAMED integration SECONDS 600
    LIBRARIES holdfast_testing_objects OpenSSL::SSL OpenSSL::Crypto SOURCES
    ${revoke_command}
    integration/revoking_deployments_test.cpp
    integration/revoking_kinds_test.cpp
    integration/revoking_test.cpp
    integration/acl_log.cpp)
# Its own executable, with semaphores alone.
holdfast_test(semaphores NAMED integration SECONDS 600
    LIBRARIES holdfast_testing_objects OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/permit_reports_test.cpp
    integration/permit_scripts_test.cpp
    integration/semaphore_deployments_test.cpp
    integration/semaphores_test.cpp
    integration/acl_log.cpp)
# Its own executable: its tests are long, and start groups of servers.
holdfast_test(cluster SECONDS 600 LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/cluster_failovers_test.cpp
    integration/cluster_guards_test.cpp
    integration/cluster_moves_test.cpp
    integration/cluster_multi_locks_test.cpp
    integration/cluster_links_test.cpp
    integration/cluster_maps_test.cpp
    integration/cluster_redirects_test.cpp
    integration/cluster_replicas_test.cpp
    integration/cluster_rights_test.cpp
    integration/cluster_use_test.cpp
    integration/acl_log.cpp)
# Its own executable, as it replaces operator new; its functions' names are to be had at run time.
holdfast_test(exceptions OPTIMISED SOURCES
    integration/exceptions_test.cpp
    integration/key_calls_test.cpp
    integration/acl_log.cpp
    support/failing_new.cpp
    unit/runtime/services/completer_test.cpp
    unit/runtime/engine/operation_timers_test.cpp)
set_target_properties(exceptions PROPERTIES ENABLE_EXPORTS ON)
# Its own executable, as its servers need a few seconds to find each other.
holdfast_test(failover SECONDS 600 LIBRARIES OpenSSL::SSL OpenSSL::Crypto SOURCES
    integration/credential_sources_test.cpp
    integration/deployments_test.cpp
    integration/fair_deployments_test.cpp
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
