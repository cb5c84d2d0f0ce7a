#include "redis/net/session.hpp"

#include "redis/net/link_boundary.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr std::size_t usual_buffer = 16 * 1024;
constexpr std::size_t least_room = 4 * 1024;

/// Says nothing about the error: the stream's own end.
bool is_end(error_code ec) {
    return ec == asio::error::eof || ec == asio::error::operation_aborted;
}

// Each endpoint gets a share of the time for one connection.
constexpr std::size_t most_known = 64, most_tried = 8;

/// Takes the families in turn, beginning with that of the first endpoint.
location::endpoints with_families_in_turn(location::endpoints const& all) {
    location::endpoints result;
    result.reserve(all.size());
    if (all.empty()) return result;
    std::array<location::endpoints, 2> families;
    for (auto const& e : all) families[e.protocol() == all[0].protocol() ? 0 : 1].push_back(e);
    for (std::size_t i = 0; result.size() < all.size(); ++i) {
        for (auto const& family : families) {
            if (i < family.size()) result.push_back(family[i]);
        }
    }
    return result;
}

} // namespace

location::location(asio::any_io_executor const& executor, address const& a, stream_factory factory,
                   std::shared_ptr<tls_context_source> tls, std::string const& tls_name)
    : look_up(executor, a.host(), a.port())
    , executor_(executor)
    , address_(a)
    , factory_(std::move(factory)) {
    if (tls) tls_.emplace(std::move(tls), tls_name.empty() ? a.host() : tls_name);
    find_numeric();
}

location::location(asio::any_io_executor const& executor, address const& a, stream_factory factory,
                   resolver::look_up_function function)
    : look_up(executor, a.host(), a.port(), std::move(function))
    , executor_(executor)
    , address_(a)
    , factory_(std::move(factory)) {
    find_numeric();
}

void location::find_numeric() {
    if (!address_.socket_path().empty()) return;
    if (auto const numeric = resolver::numeric(address_.host(), address_.port())) {
        known = {*numeric};
    } else {
        name = address_.host();
    }
}

void location::found(endpoints all) {
    known = with_families_in_turn(all);
    if (known.size() > most_known) known.resize(most_known);
    failed_.reserve(known.size());
    std::erase_if(failed_, [this](auto const& e) {
        return std::find(known.begin(), known.end(), e) == known.end();
    });
}

location::endpoints location::to_try() const {
    auto order = known;
    for (auto const& e : failed_) {
        auto const at = std::find(order.begin(), order.end(), e);
        if (at != order.end()) std::rotate(at, at + 1, order.end());
    }
    if (order.size() > most_tried) order.resize(most_tried);
    return order;
}

// found() has made room for all of them.
void location::failed(endpoint const& e) noexcept {
    if (known.size() < 2) return;
    std::erase(failed_, e);
    failed_.push_back(e);
}

std::unique_ptr<stream> make_plain_stream(asio::any_io_executor const& executor, address const& a,
                                          location::endpoint const& at) {
    if (!a.socket_path().empty()) return make_unix_stream(executor, a.socket_path());
    return make_tcp_stream(executor, at);
}

/// The user of a stream until it is connected. The result of a stream that was given up may still
/// come, and goes nowhere.
class session::attempt final : public stream_user {
public:
    explicit attempt(std::shared_ptr<session> s)
        : session_(std::move(s)) {}
    void give_up() noexcept { session_.reset(); }

    void on_handshake() override {
        if (auto const s = session_) s->on_handshake();
    }
    void on_connected(error_code ec) override {
        if (auto const s = std::move(session_)) s->on_connected(ec);
    }
    void on_read(error_code, std::size_t) override {}
    void on_writable(error_code) override {}

private:
    std::shared_ptr<session> session_;
};

session::session(asio::any_io_executor const& executor, location& place,
                 std::chrono::milliseconds connect_timeout, turn_owner& owner, session_user& user)
    : location_(place)
    , connect_timeout_(connect_timeout)
    , owner_(owner)
    , user_(&user)
    , timer_(executor, owner) {}

void session::start() {
    if (location_.name.empty()) return connect();
    resolve();
}

template <class Work>
void session::in_turn(Work work) {
    if (user_ == nullptr) return;
    auto const alive = shared_from_this();
    redis::in_turn(owner_, [&] { run(work); });
}

// Does nothing if the user has gone. What fails in a session ends the connection.
template <class Work>
void session::run(Work work) {
    link_boundary boundary;
    if (user_ != nullptr && !boundary.run(work)) end(errc::out_of_memory, {});
}

//
// To the connection
//

void session::resolve() {
    limit_time(connect_timeout_, &session::look_up_is_late);
    location_.look_up.resolve([self = weak_from_this()](error_code ec, location::endpoints found) {
        auto const s = self.lock();
        if (s) s->in_turn([&] { s->on_resolved(ec, std::move(found)); });
    });
}

void session::look_up_is_late() {
    run([&] {
        location_.look_up.cancel();
        on_resolved(asio::error::timed_out, {});
    });
}

void session::on_resolved(error_code ec, location::endpoints found) {
    if (!ec && !found.empty()) {
        location_.found(std::move(found));
    } else {
        auto const reason = ec == asio::error::timed_out ? "no answer in time" : ec.message();
        unresolved_ = "the name " + location_.name + " was not found: " + reason;
        if (location_.known.empty()) return end(errc::unreachable, unresolved_);
    }
    connect();
}

void session::connect() {
    to_try_ = location_.to_try();
    connect_by_ = clock::now() + connect_timeout_;
    connect_next();
}

// An endpoint that hangs must leave time for the others.
void session::connect_next() {
    auto const now = clock::now();
    auto const left = static_cast<clock::rep>(std::max<std::size_t>(to_try_.size() - tried_, 1));
    share_ = (connect_by_ - now) / left;
    limit_time(share_, &session::endpoint_is_late);
    auto const at = tried_ < to_try_.size() ? to_try_[tried_++] : location::endpoint();
    stream_ = location_.make_stream(at);
    auto const a = std::make_shared<attempt>(shared_from_this());
    attempt_ = a;
    stream_->connect(a);
}

void session::endpoint_is_late() {
    run([&] {
        if (!try_another()) end(errc::unreachable, "no connection in time");
    });
}

/// The present endpoint has failed. False if none is left.
bool session::try_another() {
    if (tried_ == to_try_.size() || clock::now() >= connect_by_) return false;
    leave_endpoint();
    connect_next();
    return true;
}

void session::leave_endpoint() noexcept {
    if (auto const a = attempt_.lock()) a->give_up();
    if (tried_ != 0) location_.failed(to_try_[tried_ - 1]);
    if (stream_) stream_->close();
}

void session::limit_time(clock::duration limit, void (session::*late)()) {
    late_at_ = clock::now() + limit;
    timer_.arm(limit, weak_from_this(), late);
}

void session::on_handshake() {
    in_turn([&] {
        handshake_limit_ = protocol::handshake_limit(share_, late_at_ - clock::now());
        limit_time(handshake_limit_, &session::handshake_is_late);
    });
}

void session::handshake_is_late() {
    run([&] {
        if (try_another()) return;
        using std::chrono::milliseconds;
        auto failure = stream_->explain(
            asio::error::timed_out, {.limit = std::chrono::ceil<milliseconds>(handshake_limit_)});
        end_unconnected(std::move(failure.message), failure.fault);
    });
}

void session::on_connected(error_code ec) {
    in_turn([&] {
        timer_.cancel();
        if (ec) {
            if (try_another()) return;
            auto failure = stream_->explain(ec, {});
            return end_unconnected(std::move(failure.message), failure.fault);
        }
        buffer_.resize(usual_buffer);
        user_->on_connected();
        if (user_ != nullptr) read();
    });
}

void session::end_unconnected(std::string message, protocol::fault f) {
    if (unresolved_.empty()) return end(errc::unreachable, std::move(message), f);
    end(errc::unreachable, unresolved_ + "; at its last address: " + message, f);
}

void session::end(errc cause, std::string message, protocol::fault f) {
    auto* const user = std::exchange(user_, nullptr);
    if (user == nullptr) return;
    auto const alive = shared_from_this(); // the user drops its reference
    close();
    user->on_session_end(cause, std::move(message), f);
}

void session::close() noexcept {
    user_ = nullptr;
    if (!std::exchange(accepted_, true)) leave_endpoint();
    unwritten_ = {};
    location_.look_up.cancel();
    timer_.cancel();
    if (stream_) stream_->close();
}

//
// Writing
//

void session::write(batch& b) {
    auto* const free = std::find(unwritten_.begin(), unwritten_.end(), nullptr);
    *free = &b;
    if (!waits_for_room_) write_some();
}

void session::write_some() {
    while (unwritten_.front() != nullptr && !write_error_) {
        auto& b = *unwritten_.front();
        auto const rest = std::string_view(b.bytes).substr(b.written);
        auto const size = stream_->write(rest, write_error_);
        b.written += size;
        if (size == rest.size()) {
            std::shift_left(unwritten_.begin(), unwritten_.end(), 1);
            unwritten_.back() = nullptr;
        } else if (size == 0 && !write_error_) {
            stream_->wait_writable(shared_from_this());
            waits_for_room_ = true;
            return;
        }
    }
    // The read that is under way then ends, and notifies the user, perhaps in the server's own
    // words.
    if (write_error_) stream_->shut_down();
}

void session::on_writable(error_code ec) {
    in_turn([&] {
        waits_for_room_ = false;
        if (ec) write_error_ = ec;
        write_some();
    });
}

//
// Reading
//

void session::read() {
    make_room();
    stream_->read(shared_from_this(), asio::buffer(buffer_.data() + end_, buffer_.size() - end_));
}

void session::make_room() {
    auto const left = end_ - begin_;
    if (left == 0) begin_ = end_ = 0;
    if (buffer_.size() - end_ >= least_room) return;
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    begin_ = 0;
    end_ = left;
    // A reply is bounded (reply_reader::max_reply), and so is the buffer.
    if (buffer_.size() - end_ < least_room) buffer_.resize(2 * buffer_.size());
}

void session::on_read(error_code ec, std::size_t size) {
    in_turn([&] {
        if (ec) {
            auto const cause = write_error_ && is_end(ec) ? write_error_ : ec;
            auto failure = stream_->explain(cause, {.unanswered = unanswered_});
            return end(errc::unreachable, std::move(failure.message), failure.fault);
        }
        end_ += size;
        std::string_view bytes(buffer_.data() + begin_, end_ - begin_);
        if (std::exchange(unanswered_, false) && looks_like_tls(bytes)) {
            auto failure = explain_tls_port();
            return end(errc::unreachable, std::move(failure.message), failure.fault);
        }
        user_->on_bytes(bytes);
        begin_ = end_ - bytes.size();
        if (user_ != nullptr) read();
    });
}

} // namespace holdfast::redis
