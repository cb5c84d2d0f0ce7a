// Compiled with Asio options that differ from the library's. It must not link.
#ifdef OTHER_BOOST
#include <boost/version.hpp>
#undef BOOST_VERSION
#define BOOST_VERSION 109300
#endif

#include <holdfast/client.hpp>

#include <boost/asio/io_context.hpp>

// Stands for a part of a program that only gets a lock.
void only_acquire(holdfast::lock const& lock) {
    lock.acquire([](holdfast::error, holdfast::lease) {});
}

int main() {
    boost::asio::io_context context;
    holdfast::client locks(context.get_executor(), {"127.0.0.1:1"});
    only_acquire(locks.make_lock("key"));
}
