#include <holdfast/client.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>

#include <iostream>
#include <memory>

namespace ssl = boost::asio::ssl;

int main() {
    holdfast::address_parts parts{.hosts = {{"127.0.0.1", 1}}, .tls = true};
    parts.tls_options.context = std::make_shared<ssl::context>(ssl::context::tls_client);
    parts.tls_options.context->set_verify_mode(ssl::verify_peer);
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {parts});
    bool unavailable = false;
    locks.make_lock("key").try_acquire([&](holdfast::error e, holdfast::lease) {
        unavailable = e == holdfast::error_condition::unavailable;
        std::cout << e.what() << '\n';
        locks.shutdown([](holdfast::error) {});
    });
    context.run();
    return unavailable ? 0 : 1;
}
