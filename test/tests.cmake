# Which tests there are. A line here is all that a new one needs.
holdfast_test(simulation SOURCES
    simulation/schedules_test.cpp)
holdfast_test(integration SOURCES
    integration/support_test.cpp)
