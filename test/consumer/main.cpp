#include <holdfast/client.hpp>

#include <boost/asio/io_context.hpp>

#include <iostream>

// Nothing listens there: what matters is that all of it compiles, links and ends.
int main() {
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {"127.0.0.1:1"});
    bool unavailable = false;
    locks.make_lock("key").try_acquire([&](holdfast::error e, holdfast::lease) {
        unavailable = e == holdfast::condition::unavailable;
        std::cout << e.what() << '\n';
        locks.shutdown([](holdfast::error) {});
    });
    context.run();
    return unavailable ? 0 : 1;
}
