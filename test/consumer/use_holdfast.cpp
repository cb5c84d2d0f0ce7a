#include "use_holdfast.hpp"

#include <holdfast/client.hpp>

#include <boost/asio/io_context.hpp>

#include <iostream>

bool use_holdfast() {
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {"127.0.0.1:1"});
    bool unavailable = false;
    locks.make_lock("key").try_acquire([&](holdfast::error e, holdfast::lease) {
        unavailable = e == holdfast::error_condition::unavailable;
        std::cout << e.what() << '\n';
        locks.shutdown([](holdfast::error) {});
    });
    context.run();
    return unavailable;
}

boost::system::error_code error_of_holdfast() {
    try {
        holdfast::address const none("");
    } catch (holdfast::system_error const& e) {
        return e.code();
    }
    return {};
}
