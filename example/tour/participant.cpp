#include "tour/participant.hpp"

#include "support/wait.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace tour {

namespace {

using std::chrono::steady_clock;

[[noreturn]] void fail(std::string_view awaited) {
    throw std::runtime_error("this did not happen in time: " + std::string(awaited));
}

std::string in_words(holdfast::error const& e) {
    return e ? e.code().message() : std::string("granted");
}

} // namespace

participant::participant(journal& to, std::vector<command_log*> logs, std::string name,
                         std::vector<holdfast::address> const& instances,
                         holdfast::client_options options)
    : journal_(to)
    , logs_(std::move(logs))
    , name_(std::move(name))
    , context_(std::make_unique<boost::asio::io_context>()) {
    options.connection_name = name_;
    client_ = std::make_unique<holdfast::client>(context_->get_executor(), instances, options);
}

void participant::run_until(std::string_view awaited, predicate const& happened,
                            std::chrono::seconds limit) {
    auto const until = steady_clock::now() + limit;
    context_->restart();
    while (!happened()) {
        if (steady_clock::now() >= until) fail(name_ + ": " + std::string(awaited));
        context_->run_one_for(std::chrono::milliseconds(5));
    }
}

void participant::connect(std::size_t instances) {
    run_until("connections to the instances", [&] {
        auto const all = client_->instances();
        auto const up = std::count_if(all.begin(), all.end(), [](auto const& i) {
            return i.state == holdfast::instance_state::up;
        });
        return static_cast<std::size_t>(up) >= instances;
    });
}

std::shared_ptr<participant::attempt>
participant::begin_try(std::string_view key, holdfast::lock_options const& options) {
    auto result = std::make_shared<attempt>();
    client_->make_lock(key, options).try_acquire([result](holdfast::error e, holdfast::lease l) {
        result->how = std::move(e);
        result->held = std::move(l);
        result->done = true;
    });
    return result;
}

void participant::finish(attempt const& of) {
    run_until("the end of try_acquire", [&] { return of.done; });
    show_result("try_acquire", of.how);
}

std::pair<holdfast::error, holdfast::lease>
participant::try_acquire(std::string_view key, holdfast::lock_options const& options) {
    auto const result = begin_try(key, options);
    finish(*result);
    return {result->how, std::move(result->held)};
}

std::pair<holdfast::error, holdfast::lease>
participant::try_past_outage(std::string_view key, holdfast::lock_options const& options) {
    auto current = begin_try(key, options);
    run_until("an answer of the instances", [&] {
        if (!current->done) return false;
        auto const& e = current->how;
        if (!e || e == holdfast::errc::contended || e == holdfast::errc::quarantined) return true;
        current = begin_try(key, options);
        return false;
    });
    finish(*current);
    return {current->how, std::move(current->held)};
}

holdfast::lease participant::acquire(std::string_view key, holdfast::lock_options const& options) {
    auto const result = std::make_shared<attempt>();
    client_->make_lock(key, options).acquire([result](holdfast::error e, holdfast::lease l) {
        result->how = std::move(e);
        result->held = std::move(l);
        result->done = true;
    });
    run_until("the end of acquire", [&] { return result->done; });
    show_result("acquire", result->how);
    if (result->how) throw std::runtime_error(name_ + ": " + result->how.what());
    return std::move(result->held);
}

std::shared_ptr<participant::giving_back> participant::begin_release(holdfast::lease& held) {
    auto result = std::make_shared<giving_back>();
    held.release([result](holdfast::release_result how) {
        result->how = std::move(how);
        result->done = true;
    });
    return result;
}

void participant::finish(giving_back const& of) {
    run_until("the end of release", [&] { return of.done; });
    show_commands();
    auto const& how = of.how;
    journal_.line(name_, "release()  -> " + (how.confirmed() ? "released" : how.code().message()));
}

holdfast::release_result participant::release(holdfast::lease& held) {
    auto const result = begin_release(held);
    finish(*result);
    return result->how;
}

void participant::crash() {
    show_commands();
    context_.reset();
    journal_.line(name_, "crashes");
}

void participant::show_commands() {
    show(journal_, logs_);
}

void participant::show_result(std::string_view call, holdfast::error const& e) {
    show_commands();
    journal_.line(name_, std::string(call) + "()  -> " + in_words(e));
}

void wait_for(std::string_view awaited, participant::predicate const& happened,
              std::chrono::seconds limit) {
    if (!holdfast::test::wait_until(happened, limit)) fail(awaited);
}

} // namespace tour
