// One connection from its address to its end, on a stream that the test controls.
#include "redis/net/session.hpp"

#include "support/lone_owner.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace asio = boost::asio;
using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::address;
using holdfast::errc;
using holdfast::lease_clock;
using endpoints = location::endpoints;

namespace {

asio::ip::tcp::endpoint const first{asio::ip::make_address("192.0.2.1"), 1};
asio::ip::tcp::endpoint const second{asio::ip::make_address("192.0.2.2"), 1};
asio::ip::tcp::endpoint const third{asio::ip::make_address("192.0.2.3"), 1};

/// The state of a stream that the test sees. It may outlive the stream.
struct line {
    explicit line(asio::io_context& c)
        : context(c) {}

    void connected(error_code ec = {}) {
        asio::post(context,
                   [user = std::exchange(connecting, nullptr), ec] { user->on_connected(ec); });
    }
    void receives(std::string_view bytes) {
        BOOST_REQUIRE(reading != nullptr);
        BOOST_REQUIRE(bytes.size() <= buffer.size());
        std::copy(bytes.begin(), bytes.end(), static_cast<char*>(buffer.data()));
        read_ends({}, bytes.size());
    }
    void read_ends(error_code ec, std::size_t size = 0) {
        asio::post(context,
                   [user = std::exchange(reading, nullptr), ec, size] { user->on_read(ec, size); });
    }
    void writable(error_code ec = {}) {
        asio::post(context,
                   [user = std::exchange(waiting, nullptr), ec] { user->on_writable(ec); });
    }
    void shakes() {
        asio::post(context, [this] {
            if (connecting) connecting->on_handshake();
        });
    }
    void shut_down() {
        shut = true;
        if (!lets_finish) close();
    }
    void close() {
        closed = true;
        if (connecting) connected(asio::error::operation_aborted);
        if (reading) read_ends(asio::error::operation_aborted);
        if (waiting) writable(asio::error::operation_aborted);
    }

    asio::io_context& context;
    std::shared_ptr<stream_user> connecting, reading, waiting;
    asio::mutable_buffer buffer;
    int reads = 0;
    std::string written;
    std::size_t room = 1'000'000;
    error_code write_error;
    bool lets_finish = false; ///< shut_down() does not end a read
    bool explains = false;    ///< explain() gives a text of its own
    bool shut = false;
    bool closed = false;
};

class fake_stream final : public stream {
public:
    explicit fake_stream(std::shared_ptr<line> l)
        : line_(std::move(l)) {}
    ~fake_stream() override { line_->close(); }

    void connect(std::shared_ptr<stream_user> user) override {
        line_->connecting = std::move(user);
    }
    void read(std::shared_ptr<stream_user> user, asio::mutable_buffer into) override {
        BOOST_TEST(!line_->reading, "two reads");
        BOOST_TEST(into.size() >= 4096U);
        ++line_->reads;
        line_->reading = std::move(user);
        line_->buffer = into;
        if (line_->closed) line_->read_ends(asio::error::operation_aborted);
    }
    std::size_t write(std::string_view bytes, error_code& ec) noexcept override {
        ec = line_->write_error;
        if (ec) return 0;
        auto const size = std::min(bytes.size(), line_->room);
        line_->written += bytes.substr(0, size);
        line_->room -= size;
        return size;
    }
    void wait_writable(std::shared_ptr<stream_user> user) override {
        BOOST_TEST(!line_->waiting, "two waits");
        line_->waiting = std::move(user);
    }
    void shut_down() noexcept override { line_->shut_down(); }
    void close() noexcept override { line_->close(); }
    connection_failure explain(error_code ec, failure_moment at) const override {
        if (!line_->explains) return stream::explain(ec, at);
        auto text = "explained: " + ec.message();
        if (at.unanswered) text += ", unanswered";
        if (at.limit != 0ms) text += ", " + std::to_string(at.limit.count()) + " ms";
        return {.message = text, .fault = holdfast::protocol::fault::setup};
    }

private:
    std::shared_ptr<line> line_;
};

class owner final : public holdfast::test::lone_owner {};

struct listener final : session_user {
    void on_connected() override {
        ++connected;
        if (closes != nullptr) closes->close();
    }
    void on_bytes(std::string_view& bytes) override {
        if (fails) throw std::length_error("as for want of memory");
        seen = bytes;
        auto const size = std::min(bytes.size(), takes);
        taken += bytes.substr(0, size);
        bytes.remove_prefix(size);
        if (closes != nullptr) closes->close();
    }
    void on_session_end(errc w, std::string m, holdfast::protocol::fault f) noexcept override {
        ++ended;
        cause = w;
        fault = f;
        message = std::move(m);
    }

    int connected = 0, ended = 0;
    holdfast::protocol::fault fault{};
    std::string seen, taken;
    std::size_t takes = 1'000'000;
    bool fails = false;
    holdfast::redis::session* closes = nullptr;
    errc cause{};
    std::string message;
};

/// A session to an address. The test sets the endpoints of its name.
struct world {
    explicit world(char const* target, std::chrono::milliseconds connect_timeout = 1h)
        : place(
              context.get_executor(), address(target),
              [this](asio::any_io_executor const&, address const&, location::endpoint const& e) {
                  dialled = e;
                  current = std::make_shared<line>(context);
                  return std::make_unique<fake_stream>(current);
              },
              [n = names](std::string const&, std::uint16_t, error_code& ec) {
                  if (n->answers.valid()) n->answers.wait();
                  ec = n->not_found;
                  return n->found;
              })
        , session(std::make_shared<holdfast::redis::session>(context.get_executor(), place,
                                                             connect_timeout, turn_owner, user)) {}
    /// A read that is under way keeps the session alive, and the session keeps the stream.
    ~world() {
        session->close();
        run();
    }

    void run() {
        context.restart();
        context.poll();
    }
    /// Runs until another thread or the clock has made the condition true.
    template <class Condition>
    void run_until(Condition condition) {
        auto const work = asio::make_work_guard(context);
        auto const end = std::chrono::steady_clock::now() + 30s;
        context.restart();
        while (!condition() && std::chrono::steady_clock::now() < end) context.run_one_for(1s);
        BOOST_REQUIRE(condition());
    }
    /// Starts the session, and runs until it has a stream.
    void dial() {
        session->start();
        if (!current) run_until([&] { return current != nullptr; });
    }
    /// Connects the stream when so much time has passed, before any timer is reported.
    void connect_after(std::chrono::milliseconds time) {
        asio::post(context, [this, time] {
            auto const expired = std::chrono::steady_clock::now() + time;
            while (std::chrono::steady_clock::now() < expired) {
            }
            current->connected();
        });
        run();
        run();
    }
    /// Starts the session, and connects its stream.
    line& connect() {
        dial();
        current->connected();
        run();
        BOOST_REQUIRE(user.connected == 1);
        return *current;
    }

    asio::io_context context{1};
    owner turn_owner;
    listener user;
    /// The name server may outlive the world, as a look-up may.
    struct name_server {
        endpoints found{first};
        error_code not_found;
        std::shared_future<void> answers; ///< if valid, the answer waits for it
    };
    std::shared_ptr<name_server> const names = std::make_shared<name_server>();
    location::endpoint dialled;
    std::shared_ptr<line> current;
    location place;
    std::shared_ptr<holdfast::redis::session> session;
};

batch of(std::string bytes) {
    batch b;
    b.bytes = std::move(bytes);
    return b;
}

char const* const numeric = "redis://192.0.2.7:5";
char const* const named = "redis://name.example";

} // namespace

BOOST_AUTO_TEST_SUITE(session)

BOOST_AUTO_TEST_CASE(a_numeric_address_needs_no_look_up) {
    world w(numeric);
    w.session->start();
    BOOST_TEST(w.place.name.empty());
    BOOST_TEST((w.dialled == asio::ip::tcp::endpoint(asio::ip::make_address("192.0.2.7"), 5)));
    w.current->connected();
    w.run();
    BOOST_TEST(w.user.connected == 1);
    BOOST_TEST(w.current->reading);
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_refused_ends_it_once) {
    world w(numeric);
    w.session->start();
    w.current->connected(asio::error::connection_refused);
    w.run();
    BOOST_TEST(w.user.connected == 0);
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST((w.user.cause == errc::unreachable));
    BOOST_TEST(w.user.message == "Connection refused");
    BOOST_TEST(w.current->closed);
}

BOOST_AUTO_TEST_CASE(a_name_is_looked_up_and_its_endpoints_are_kept) {
    world w(named);
    w.names->found = {first, second};
    w.connect();
    BOOST_TEST((w.dialled == first));
    BOOST_TEST((w.place.known == endpoints{first, second}));
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_refuses_is_followed_by_the_next) {
    world w(named);
    w.names->found = {first, second, third};
    w.dial();
    for (auto const& at : {first, second}) {
        BOOST_TEST((w.dialled == at));
        auto const left = w.current;
        left->connected(asio::error::connection_refused);
        w.run();
        BOOST_TEST(left->closed);
        BOOST_TEST(w.user.ended == 0);
    }
    BOOST_TEST((w.dialled == third));
    w.current->connected();
    w.run();
    BOOST_TEST(w.user.connected == 1);
    // The next connection begins with the one that served.
    w.session->accepted();
    BOOST_TEST((w.place.to_try() == endpoints{third, first, second}));
}

BOOST_AUTO_TEST_CASE(if_all_endpoints_refuse_the_last_one_is_the_reason) {
    world w(named);
    w.names->found = {first, second};
    w.dial();
    w.current->connected(asio::error::network_unreachable);
    w.run();
    w.current->connected(asio::error::connection_refused);
    w.run();
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST(w.user.message == "Connection refused");
    BOOST_TEST((w.place.to_try() == endpoints{first, second}));
}

// A dead IPv6 beside a good IPv4.
BOOST_AUTO_TEST_CASE(an_endpoint_that_hangs_leaves_time_for_the_next) {
    world w(named, 200ms);
    w.names->found = {first, second};
    w.dial();
    auto const hanging = w.current;
    auto const late = hanging->connecting; // its result may be queued already
    w.run_until([&] { return w.current != hanging; });
    BOOST_TEST((w.dialled == second));
    BOOST_TEST(hanging->closed);
    late->on_handshake();
    late->on_connected({});
    BOOST_TEST(w.user.connected == 0);
    w.current->connected();
    w.run();
    BOOST_TEST(w.user.connected == 1);
    BOOST_TEST(w.user.ended == 0, w.user.message);
}

BOOST_AUTO_TEST_CASE(a_handshake_that_hangs_leaves_time_for_the_next) {
    world w(named, 200ms);
    w.names->found = {first, second};
    w.dial();
    auto const silent = w.current;
    silent->shakes();
    w.run_until([&] { return w.current != silent; });
    BOOST_TEST((w.dialled == second));
}

// A replica, a server that closes at once, and one that is silent: the user ends the session.
BOOST_AUTO_TEST_CASE(an_endpoint_that_does_not_serve_is_the_last_of_the_next_connection) {
    world w(named);
    w.names->found = {first, second};
    w.connect();
    w.session->close();
    BOOST_TEST((w.place.to_try() == endpoints{second, first}));
    w.place.failed(second);
    BOOST_TEST((w.place.to_try() == endpoints{first, second}));
    w.place.found({second, third});
    BOOST_TEST((w.place.to_try() == endpoints{third, second}));
}

BOOST_AUTO_TEST_CASE(the_families_take_turns) {
    world w(named);
    asio::ip::tcp::endpoint const six{asio::ip::make_address("2001:db8::1"), 1},
        six_too{asio::ip::make_address("2001:db8::2"), 1};
    w.place.found({six, six_too, first, second, third});
    BOOST_TEST((w.place.known == endpoints{six, first, six_too, second, third}));
    w.place.found({});
    BOOST_TEST(w.place.to_try().empty());
}

BOOST_AUTO_TEST_CASE(a_name_with_thousands_of_endpoints_is_cut) {
    world w(named);
    endpoints many;
    for (unsigned short port = 1; port < 5000; ++port) many.emplace_back(first.address(), port);
    w.place.found(many);
    BOOST_TEST(w.place.known.size() == 64U);
    BOOST_TEST(w.place.to_try().size() == 8U);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_not_found_is_said_to_be_the_reason) {
    world w(named);
    w.names->not_found = asio::error::host_not_found;
    w.session->start();
    w.run_until([&] { return w.user.ended > 0; });
    BOOST_TEST((w.user.cause == errc::unreachable));
    BOOST_TEST(w.user.message.starts_with("the name name.example was not found: "), w.user.message);
    BOOST_TEST(!w.current);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_not_found_any_more_is_where_it_was) {
    world w(named);
    w.place.known = {second};
    w.names->not_found = asio::error::host_not_found;
    w.dial();
    BOOST_TEST((w.dialled == second));
    w.current->connected(asio::error::connection_refused);
    w.run();
    BOOST_TEST(w.user.message.starts_with("the name name.example was not found: "), w.user.message);
    BOOST_TEST(w.user.message.ends_with("; at its last address: Connection refused"),
               w.user.message);
    BOOST_TEST((w.place.known == endpoints{second}));
}

BOOST_AUTO_TEST_CASE(a_connection_may_take_no_longer_than_its_limit) {
    world w(numeric, 1ms);
    w.session->start();
    w.run_until([&] { return w.user.ended > 0; });
    BOOST_TEST(w.user.message == "no connection in time");
    BOOST_TEST(w.current->closed);
    w.run();
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST(w.user.connected == 0);
}

// The timer has expired, but the connection is reported before the timer is.
BOOST_AUTO_TEST_CASE(a_limit_that_was_lifted_is_not_reported) {
    world w(numeric, 1ms);
    w.session->start();
    w.connect_after(2ms);
    BOOST_TEST(w.user.connected == 1);
    BOOST_TEST(w.user.ended == 0, w.user.message);
}

BOOST_AUTO_TEST_CASE(bytes_that_fit_are_written_at_once) {
    world w(numeric);
    auto& l = w.connect();
    auto b = of("abc");
    w.session->write(b);
    BOOST_TEST(l.written == "abc");
    BOOST_TEST(b.written == 3U);
    BOOST_TEST(!l.waiting);
}

BOOST_AUTO_TEST_CASE(bytes_that_do_not_fit_are_written_when_there_is_room_in_order) {
    world w(numeric);
    auto& l = w.connect();
    l.room = 2;
    auto a = of("abcdef"), b = of("xyz"), c = of("123");
    w.session->write(a);
    BOOST_TEST(l.written == "ab");
    BOOST_TEST(a.written == 2U);
    BOOST_TEST(l.waiting);
    w.session->write(b);
    BOOST_TEST(l.written == "ab");
    l.room = 3;
    l.writable();
    w.run();
    BOOST_TEST(l.written == "abcde");
    BOOST_TEST(b.written == 0U);
    BOOST_TEST(l.waiting);
    l.room = 100;
    l.writable();
    w.run();
    BOOST_TEST(l.written == "abcdefxyz");
    BOOST_TEST(!l.waiting);
    w.session->write(c);
    BOOST_TEST(l.written == "abcdefxyz123");
    BOOST_TEST(w.user.ended == 0);
}

BOOST_AUTO_TEST_CASE(a_write_that_fails_ends_it_for_that_reason) {
    world w(numeric);
    auto& l = w.connect();
    l.write_error = asio::error::broken_pipe;
    auto b = of("abc");
    w.session->write(b);
    BOOST_TEST(w.user.ended == 0); // never from within the call
    w.run();
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST((w.user.cause == errc::unreachable));
    BOOST_TEST(w.user.message == "Broken pipe");
    BOOST_TEST(l.closed);
}

BOOST_AUTO_TEST_CASE(a_wait_for_room_that_fails_ends_it) {
    world w(numeric);
    auto& l = w.connect();
    l.room = 1;
    auto b = of("abc");
    w.session->write(b);
    l.writable(asio::error::connection_reset);
    w.run();
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST(w.user.message == error_code(asio::error::connection_reset).message());
}

// The last bytes of the server may tell why it closed.
BOOST_AUTO_TEST_CASE(bytes_that_came_before_a_write_failed_are_read) {
    world w(numeric);
    auto& l = w.connect();
    l.lets_finish = true;
    l.write_error = asio::error::broken_pipe;
    auto b = of("abc");
    w.session->write(b);
    BOOST_TEST(l.shut);
    BOOST_TEST(!l.closed);
    l.receives("-ERR max number of clients reached");
    w.run();
    BOOST_TEST(w.user.taken == "-ERR max number of clients reached");
    BOOST_TEST(w.user.ended == 0);
    l.read_ends(asio::error::eof);
    w.run();
    BOOST_TEST(w.user.message == "Broken pipe");
    BOOST_TEST(w.user.ended == 1);
}

BOOST_AUTO_TEST_CASE(the_error_of_the_read_counts_after_a_write_has_failed) {
    world w(numeric);
    auto& l = w.connect();
    l.lets_finish = true;
    l.write_error = asio::error::broken_pipe;
    auto b = of("abc");
    w.session->write(b);
    l.read_ends(asio::error::connection_reset); // for TLS, this error may be an alert
    w.run();
    BOOST_TEST(w.user.message == "Connection reset by peer");
}

BOOST_AUTO_TEST_CASE(the_failure_is_in_the_words_of_the_stream) {
    world w(numeric);
    w.session->start();
    w.current->explains = true;
    w.current->connected(asio::error::connection_refused);
    w.run();
    BOOST_TEST(w.user.message == "explained: Connection refused");
    BOOST_TEST((w.user.fault == holdfast::protocol::fault::setup));
    world later(numeric);
    auto& l = later.connect();
    l.explains = true;
    l.read_ends(asio::error::eof);
    later.run();
    BOOST_TEST(later.user.message == "explained: End of file, unanswered");
    BOOST_TEST((later.user.fault == holdfast::protocol::fault::setup));
    world answered(numeric);
    auto& a = answered.connect();
    a.explains = true;
    a.receives("+OK");
    answered.run();
    a.read_ends(asio::error::eof);
    answered.run();
    BOOST_TEST(answered.user.message == "explained: End of file");
}

BOOST_AUTO_TEST_CASE(a_port_that_answers_in_tls_is_told) {
    world w(numeric);
    auto& l = w.connect();
    l.receives(std::string_view("\x15\x03\x01\x00\x02\x02\x46", 7));
    w.run();
    BOOST_TEST(w.user.message == "the port answers in TLS: use rediss");
    BOOST_TEST((w.user.fault == holdfast::protocol::fault::setup));
    BOOST_TEST(w.user.taken == "");
    world later(numeric); // later bytes of a reply may have any value
    auto& other = later.connect();
    other.receives("+");
    later.run();
    other.receives(std::string_view("\x15\x03", 2));
    later.run();
    BOOST_TEST(later.user.ended == 0);
}

BOOST_AUTO_TEST_CASE(a_handshake_has_a_limit_within_that_of_the_connection) {
    world w(numeric, 4ms);
    w.session->start();
    w.current->explains = true;
    w.current->shakes();
    w.run_until([&] { return w.user.ended > 0; });
    BOOST_TEST(w.user.message == "explained: Connection timed out, 3 ms");
    BOOST_TEST(w.current->closed);
    BOOST_TEST(w.user.ended == 1);
}

// The handshake begins near the end of the time for the connection.
BOOST_AUTO_TEST_CASE(a_handshake_does_not_prolong_the_connection) {
    world w(numeric, 40ms);
    w.session->start();
    w.current->explains = true;
    auto const began = std::chrono::steady_clock::now();
    asio::post(w.context, [&] {
        while (std::chrono::steady_clock::now() < began + 30ms) {
        }
        w.current->connecting->on_handshake();
    });
    w.run_until([&] { return w.user.ended > 0; });
    auto const told = std::stoi(w.user.message.substr(w.user.message.rfind(", ") + 2));
    BOOST_TEST(told <= 10);
    BOOST_TEST(w.user.message.starts_with("explained: Connection timed out, "), w.user.message);
}

BOOST_AUTO_TEST_CASE(a_handshake_that_succeeds_lifts_its_limit) {
    world w(numeric, 4ms);
    w.session->start();
    w.current->shakes();
    w.connect_after(5ms);
    BOOST_TEST(w.user.connected == 1);
    BOOST_TEST(w.user.ended == 0, w.user.message);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_stream_ends_it) {
    world w(numeric);
    w.connect().read_ends(asio::error::eof);
    w.run();
    BOOST_TEST(w.user.message == "the instance closed the connection");
    BOOST_TEST(w.user.ended == 1);
    world other(numeric);
    other.connect().read_ends(asio::error::connection_reset);
    other.run();
    BOOST_TEST(other.user.message == "Connection reset by peer");
}

BOOST_AUTO_TEST_CASE(bytes_that_are_not_taken_are_seen_again_with_more_behind_them) {
    world w(numeric);
    auto& l = w.connect();
    w.user.takes = 2;
    l.receives("abcd");
    w.run();
    BOOST_TEST(w.user.seen == "abcd");
    l.receives("e");
    w.run();
    BOOST_TEST(w.user.seen == "cde");
    BOOST_TEST(w.user.taken == "abcd");
    l.receives("fgh");
    w.run();
    BOOST_TEST(w.user.seen == "efgh");
}

BOOST_AUTO_TEST_CASE(there_is_room_for_a_long_reply_and_bytes_are_kept_in_order) {
    world w(numeric);
    auto& l = w.connect();
    std::string all;
    for (int n = 0; n < 100; ++n) {
        std::string const piece(4'000, static_cast<char>('a' + n % 26));
        all += piece;
        // First one long reply comes, and then many short ones.
        w.user.takes = n < 50 ? 0 : 2'500;
        l.receives(piece);
        w.run();
        BOOST_REQUIRE(w.user.taken.size() <= all.size());
        BOOST_REQUIRE(
            (w.user.taken + w.user.seen.substr(std::min(w.user.takes, w.user.seen.size())) == all));
    }
}

BOOST_AUTO_TEST_CASE(a_user_for_which_memory_runs_out_ends_it) {
    world w(numeric);
    auto& l = w.connect();
    w.user.fails = true;
    l.receives("a");
    w.run();
    BOOST_TEST(w.user.ended == 1);
    BOOST_TEST((w.user.cause == errc::out_of_memory));
}

BOOST_AUTO_TEST_CASE(a_user_that_closes_hears_no_more) {
    world w(numeric);
    auto& l = w.connect();
    l.room = 1;
    auto b = of("abc");
    w.session->write(b);
    w.session->close();
    BOOST_TEST(l.closed);
    w.run();
    BOOST_TEST(w.user.ended == 0);
    BOOST_TEST(l.written == "a");
    world early(named);
    early.session->start();
    early.session->close();
    early.run();
    BOOST_TEST(early.user.ended == 0);
    BOOST_TEST(!early.current);
}

BOOST_AUTO_TEST_CASE(a_user_that_closes_from_within_reads_no_more) {
    world w(numeric);
    w.user.closes = w.session.get();
    w.connect();
    BOOST_TEST(w.current->reads == 0);
    world later(numeric);
    auto& l = later.connect();
    later.user.closes = later.session.get();
    l.receives("a");
    later.run();
    BOOST_TEST(l.reads == 1);
    BOOST_TEST(later.user.ended == 0);
}

// DNS does not answer the look-up. The limit is measured by the real timer.
BOOST_AUTO_TEST_CASE(a_look_up_may_take_no_longer_than_its_limit) {
    for (auto const known : {false, true}) {
        std::promise<void> over;
        auto const answered = over.get_future().share();
        world w(named, 1ms);
        w.names->answers = answered;
        if (known) w.place.known = {second};
        w.session->start();
        w.run_until([&] { return w.user.ended > 0; });
        BOOST_TEST(w.user.message ==
                   (known ? "no connection in time"
                          : "the name name.example was not found: no answer in time"));
        BOOST_TEST((w.current != nullptr) == known);
        over.set_value();
    }
}

BOOST_AUTO_TEST_SUITE_END()
