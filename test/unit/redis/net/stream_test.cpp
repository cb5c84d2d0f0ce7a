// Streams over TCP and Unix sockets: bytes, ends, and the cost of an operation.
#include "redis/net/stream.hpp"

#include "../../../../bench/allocation_counter.hpp"
#include "unit/redis/net/stream_user.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace data = boost::unit_test::data;
using asio::ip::tcp;
using boost::system::error_code;
using holdfast::bench::allocations;
using holdfast::bench::counts_allocations;
using holdfast::redis::make_tcp_stream;
using holdfast::redis::make_unix_stream;
using holdfast::test::check_bytes_go_both_ways;
using holdfast::test::is_aborted;
using holdfast::test::long_write;
using holdfast::test::pattern;
using holdfast::test::stream_ptr;
using user = holdfast::test::recording_user;
using unix_protocol = asio::local::stream_protocol;

namespace {

enum class kind {
    tcp,
    unix_socket
};
enum class runner {
    context,
    strand,
    erased_strand
};

std::ostream& operator<<(std::ostream& out, kind k) {
    return out << (k == kind::tcp ? "tcp" : "unix");
}
std::ostream& operator<<(std::ostream& out, runner r) {
    constexpr std::array names{"context", "strand", "strand of an erased executor"};
    return out << names.at(static_cast<std::size_t>(r));
}

constexpr std::array kinds{kind::tcp, kind::unix_socket};
constexpr std::array runners{runner::context, runner::strand, runner::erased_strand};

tcp::endpoint const any_port{asio::ip::address_v4::loopback(), 0};

/// A folder that is removed at the end of the test.
class folder {
public:
    folder() {
        auto text = (std::filesystem::temp_directory_path() / "holdfast-XXXXXX").string();
        BOOST_REQUIRE(::mkdtemp(text.data()) != nullptr);
        path_ = text;
    }
    ~folder() { std::filesystem::remove_all(path_); }
    folder(folder const&) = delete;
    folder& operator=(folder const&) = delete;

    std::string operator/(char const* name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

/// A listening socket, and streams to it.
struct loopback {
    explicit loopback(kind k, runner r = runner::strand)
        : kind_(k)
        , runner_(r)
        , at_port_(io_)
        , at_path_(io_) {
        if (k == kind::unix_socket) {
            at_path_.open();
            at_path_.bind(folder_ / "socket");
            at_path_.listen();
            return;
        }
        at_port_.open(tcp::v4());
        // The small window keeps long writes from completing at once.
        at_port_.set_option(asio::socket_base::receive_buffer_size(8 * 1024));
        at_port_.bind(any_port);
        at_port_.listen();
    }

    asio::any_io_executor executor() {
        if (runner_ == runner::context) return io_.get_executor();
        if (runner_ == runner::strand) return asio::make_strand(io_.get_executor());
        return asio::make_strand(asio::any_io_executor(io_.get_executor()));
    }

    stream_ptr make() {
        if (kind_ == kind::unix_socket) return make_unix_stream(executor(), folder_ / "socket");
        return make_tcp_stream(executor(), at_port_.local_endpoint());
    }

    asio::generic::stream_protocol::socket accept() {
        if (kind_ == kind::unix_socket) return at_path_.accept();
        return at_port_.accept();
    }

    /// Connects a stream to peer_, and returns its user.
    std::shared_ptr<user> connected() {
        auto u = std::make_shared<user>(make());
        u->connect();
        run_until([&] { return u->connected.has_value(); });
        BOOST_REQUIRE(!*u->connected);
        peer_ = accept();
        u->forget();
        return u;
    }

    /// Writes until the stream takes no more.
    static void fill(user& u) {
        std::string const much(64 * 1024, 'x');
        error_code ec;
        while (u.write(much, ec) != 0) {
        }
        BOOST_REQUIRE(!ec);
    }

    template <class Predicate>
    void run_until(Predicate happened) {
        io_.restart();
        while (!happened()) BOOST_REQUIRE(io_.run_one() != 0);
    }

    kind kind_;
    runner runner_;
    folder folder_;
    asio::io_context io_{1};
    tcp::acceptor at_port_;
    unix_protocol::acceptor at_path_;
    asio::generic::stream_protocol::socket peer_{io_};
};

} // namespace

BOOST_AUTO_TEST_SUITE(stream)

BOOST_DATA_TEST_CASE(carries_bytes_both_ways, data::make(kinds) * data::make(runners), k, r) {
    loopback lo(k, r);
    auto const u = lo.connected();
    check_bytes_go_both_ways(lo, *u, lo.peer_);
}

BOOST_DATA_TEST_CASE(carries_much_in_order_while_a_read_waits, data::make(kinds), k) {
    loopback lo(k);
    auto const u = lo.connected();
    auto const sent = pattern(12 * 1024 * 1024);
    long_write writing{*u, sent};
    u->then = [&] {
        if (u->writable && !*u->writable) writing.go_on();
    };
    u->read();

    std::string got(sent.size(), '\0');
    bool done = false;
    asio::async_read(lo.peer_, asio::buffer(got), [&](error_code ec, std::size_t) {
        BOOST_TEST(!ec);
        BOOST_TEST(!u->read_done);
        done = true;
    });
    writing.go_on();
    lo.run_until([&] { return done; });
    BOOST_TEST((got == sent));
    BOOST_TEST(writing.blocked > 3);
    asio::write(lo.peer_, asio::buffer("!", 1));
    lo.run_until([&] { return u->read_done.has_value(); });
    BOOST_TEST(u->bytes() == "!");
}

BOOST_AUTO_TEST_CASE(tells_why_there_is_no_connection) {
    loopback lo(kind::tcp);
    auto const at = lo.at_port_.local_endpoint();
    lo.at_port_.close();
    auto const result = [&](stream_ptr s) {
        auto const u = std::make_shared<user>(std::move(s));
        u->connect();
        lo.run_until([&] { return u->connected.has_value(); });
        return *u->connected;
    };
    BOOST_TEST(result(make_tcp_stream(lo.executor(), at)) == asio::error::connection_refused);
    auto const nowhere = lo.folder_ / "nowhere";
    BOOST_TEST(result(make_unix_stream(lo.executor(), nowhere)) ==
               boost::system::errc::no_such_file_or_directory);
    std::string const long_path(500, 'x');
    BOOST_TEST(result(make_unix_stream(lo.executor(), long_path)) == asio::error::name_too_long);
}

// For a Unix socket with a full backlog the kernel returns EAGAIN. For TCP that would mean "not
// yet".
BOOST_AUTO_TEST_CASE(a_unix_socket_with_a_full_backlog_is_not_connected) {
    loopback lo(kind::unix_socket);
    lo.at_path_.listen(0);
    auto const first = std::make_shared<user>(lo.make());
    first->connect();
    lo.run_until([&] { return first->connected.has_value(); });
    BOOST_TEST(!*first->connected);
    auto const second = std::make_shared<user>(lo.make());
    second->connect();
    lo.run_until([&] { return second->connected.has_value(); });
    BOOST_TEST(!!*second->connected);
}

BOOST_DATA_TEST_CASE(the_end_of_the_peer_is_an_error, data::make(kinds), k) {
    loopback lo(k);
    {
        auto const u = lo.connected();
        u->read();
        lo.peer_.close();
        lo.run_until([&] { return u->read_done.has_value(); });
        BOOST_TEST(*u->read_done == asio::error::eof);
        // A TCP peer that has closed answers the first write with a reset.
        error_code ec;
        while (!ec) u->write("x", ec);
        auto const is_end = ec == asio::error::broken_pipe || ec == asio::error::connection_reset;
        BOOST_TEST(is_end, ec.message());
    }
    {
        // A peer that closes with unread bytes resets the connection.
        auto const u = lo.connected();
        error_code ec;
        u->write("unread", ec);
        u->read();
        lo.peer_.wait(asio::socket_base::wait_read);
        lo.peer_.close();
        lo.run_until([&] { return u->read_done.has_value(); });
        BOOST_TEST(*u->read_done == asio::error::connection_reset);
    }
    {
        auto const u = lo.connected();
        loopback::fill(*u);
        u->wait_writable();
        lo.peer_.close();
        lo.run_until([&] { return u->writable.has_value(); });
        error_code ec;
        BOOST_TEST(u->write("x", ec) == 0u);
        BOOST_TEST(!!ec);
    }
    {
        // The peer closes before the stream reads.
        auto const u = lo.connected();
        lo.peer_.close();
        u->read();
        lo.run_until([&] { return u->read_done.has_value(); });
        BOOST_TEST(*u->read_done == asio::error::eof);
    }
}

BOOST_DATA_TEST_CASE(close_aborts_what_is_under_way, data::make(kinds) * data::make(runners), k,
                     r) {
    loopback lo(k, r);
    {
        auto const u = std::make_shared<user>(lo.make());
        u->connect();
        u->close();
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(is_aborted(u->connected));
        u->forget();
        u->connect();
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(is_aborted(u->connected));
    }
    lo.accept().close();
    auto const u = lo.connected();
    loopback::fill(*u);
    u->read();
    u->wait_writable();
    u->close();
    lo.run_until([&] { return u->read_done && u->writable; });
    BOOST_TEST(is_aborted(u->read_done));
    BOOST_TEST(is_aborted(u->writable));
    error_code ec;
    BOOST_TEST(u->write("x", ec) == 0u);
    BOOST_TEST(!!ec);
    u->forget();
    u->read();
    u->wait_writable();
    u->close();
    lo.run_until([&] { return u->read_done && u->writable; });
    BOOST_TEST(is_aborted(u->read_done));
}

// At close, the result of a read is already under way to the user.
BOOST_DATA_TEST_CASE(close_aborts_what_is_not_yet_reported, data::make(kinds), k) {
    loopback lo(k);
    auto const u = lo.connected();
    asio::write(lo.peer_, asio::buffer("x", 1));
    u->read(); // a byte is there, so the read completes at once
    u->close();
    lo.run_until([&] { return u->read_done.has_value(); });
    BOOST_TEST(is_aborted(u->read_done));
    BOOST_TEST(u->bytes().empty());
}

BOOST_DATA_TEST_CASE(a_stream_may_be_destroyed_with_operations_under_way,
                     data::make(kinds) * data::make(runners), k, r) {
    loopback lo(k, r);
    std::weak_ptr<user> seen;
    {
        auto const u = std::make_shared<user>(lo.make());
        u->connect();
        u->destroy();
        seen = u;
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(is_aborted(u->connected));
    }
    BOOST_TEST(seen.expired());
    lo.accept().close();
    {
        auto const u = lo.connected();
        loopback::fill(*u);
        u->read();
        u->wait_writable();
        u->destroy();
        seen = u;
        lo.run_until([&] { return u->read_done && u->writable; });
        BOOST_TEST(is_aborted(u->read_done));
        BOOST_TEST(is_aborted(u->writable));
    }
    BOOST_TEST(seen.expired());
}

BOOST_DATA_TEST_CASE(a_user_may_destroy_the_stream_when_it_is_called,
                     data::make(kinds) * data::make(runners), k, r) {
    loopback lo(k, r);
    {
        auto const u = std::make_shared<user>(lo.make());
        u->then = [&] { u->destroy(); };
        u->connect();
        lo.run_until([&] { return u->connected.has_value(); });
        BOOST_TEST(!*u->connected);
        lo.accept();
        u->then = nullptr;
    }
    {
        auto const u = lo.connected();
        u->then = [&] { u->destroy(); };
        u->read();
        u->wait_writable();
        lo.run_until([&] { return u->read_done && u->writable; });
        BOOST_TEST(!*u->writable);
        BOOST_TEST(is_aborted(u->read_done));
        u->then = nullptr;
    }
    {
        auto const u = lo.connected();
        loopback::fill(*u);
        u->then = [&] { u->destroy(); };
        u->read();
        u->wait_writable();
        asio::write(lo.peer_, asio::buffer("x", 1));
        lo.run_until([&] { return u->read_done && u->writable; });
        BOOST_TEST(!*u->read_done);
        BOOST_TEST(is_aborted(u->writable));
        u->then = nullptr;
    }
}

BOOST_DATA_TEST_CASE(a_context_may_be_destroyed_with_operations_under_way,
                     data::make(kinds) * data::make(runners), k, r) {
    std::weak_ptr<user> connecting, unread;
    {
        loopback lo(k, r);
        auto u = lo.connected();
        loopback::fill(*u);
        u->read();
        u->wait_writable();
        unread = u;
        auto other = std::make_shared<user>(lo.make());
        other->connect();
        connecting = other;
        auto none = std::make_shared<user>(make_unix_stream(lo.executor(), std::string(500, 'x')));
        none->connect();
    }
    BOOST_TEST(connecting.expired());
    BOOST_TEST(unread.expired());
}

BOOST_DATA_TEST_CASE(a_round_trip_allocates_nothing,
                     data::make(kinds) * data::make({runner::context, runner::strand}), k, r) {
    loopback lo(k, r);
    auto const u = lo.connected();
    std::thread peer([&] {
        std::array<char, 16> bytes{};
        error_code ec;
        while (!ec) {
            auto const size = lo.peer_.read_some(asio::buffer(bytes), ec);
            if (!ec) asio::write(lo.peer_, asio::buffer(bytes, size), ec);
        }
    });
    int trips = 0;
    std::uint64_t before = 0, after = 0;
    auto const ask = [&] {
        error_code ec;
        u->write("ping", ec);
        u->read();
        u->wait_writable();
    };
    u->then = [&] {
        if (!u->read_done || !u->writable) return;
        if (++trips == 100) before = allocations();
        if (trips == 1'100) {
            after = allocations();
            return u->destroy();
        }
        u->forget();
        ask();
    };
    ask();
    lo.io_.restart();
    lo.io_.run();
    peer.join();
    u->then = nullptr;
    BOOST_TEST(trips == 1'100);
    if (counts_allocations()) BOOST_TEST(after - before == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
