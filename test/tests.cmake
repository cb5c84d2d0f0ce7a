# Which tests there are. A line here is all that a new one needs.
holdfast_test(simulation SOURCES
    simulation/schedules_test.cpp)
holdfast_test(integration SOURCES
    integration/bad_input_test.cpp
    integration/faults_test.cpp
    integration/support_test.cpp
    integration/versions_test.cpp)
