// Succeeds if the client starts, reports that it reaches no server, and ends. No server listens on
// its port.
#include <holdfast/holdfast.hpp>

#include <boost/asio/io_context.hpp>

#include <iostream>

int main() {
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {"127.0.0.1:1"});
    bool unavailable = false;
    locks.make_lock("key").try_acquire([&](holdfast::error e, holdfast::lease) {
        unavailable = e == holdfast::error_condition::unavailable;
        std::cout << e.what() << '\n';
        locks.close();
    });
    context.run();
    return unavailable ? 0 : 1;
}
