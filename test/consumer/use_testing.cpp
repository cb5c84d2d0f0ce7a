#include <holdfast/client.hpp>
#include <holdfast/testing/instance.hpp>

#include <boost/asio/io_context.hpp>

#include <iostream>

int main() {
    holdfast::testing::instance instance;
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {instance.address()});
    bool held = false;
    locks.make_lock("key").try_acquire([&](holdfast::error e, holdfast::lease const& lease) {
        held = lease.held() && instance.holds("key");
        std::cout << e.what() << '\n';
        locks.close();
    });
    context.run();
    return held ? 0 : 1;
}
