// An instance that is the primary which Sentinel names.
//
//     engine
//       |  instance                      sentinel_view: the sentinels' answers, the primary,
//       v                                     ^         and whether its answers count
//     sentinel_instance ----------------------+
//       |         |
//       |         +-- sentinel_link, for each known sentinel
//       +------------ server_link, the link to the primary
//
// The link is one object for all primaries in turn. So its guards compare a new primary with its
// predecessor, and releases that are left go to the new one.
#ifndef HOLDFAST_REDIS_SENTINEL_INSTANCE_HPP
#define HOLDFAST_REDIS_SENTINEL_INSTANCE_HPP

#include "redis/net/link_boundary.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/sentinel/sentinel_link.hpp"
#include "redis/sentinel/sentinel_view.hpp"
#include "redis/server/instance.hpp"
#include "redis/server/link_policy.hpp"
#include "redis/server/server_link.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class sentinel_instance final : public instance,
                                public std::enable_shared_from_this<sentinel_instance>,
                                private link_policy,
                                private sentinel_link_user {
public:
    /// `options.address` is that of a Sentinel deployment.
    sentinel_instance(asio::any_io_executor, unsigned number, connection_options options,
                      instance_owner&, location::stream_factory = make_plain_stream);
    ~sentinel_instance() override;

    void start() override;
    void stop() override;
    void abandon() noexcept override;

    [[nodiscard]] bool submit(encoder& e, reply_handler_ptr const& h,
                              std::uint32_t round) noexcept override {
        return link_->submit(e, h, round);
    }
    [[nodiscard]] bool flush() noexcept override;

    bool available() const override { return link_->available(); }
    bool may_grant() const override;
    bool connected() const override { return link_->connected(); }
    errc reason() const override;
    std::string reason_message() const override;
    std::optional<lease_clock::time_point> waits_since() const override {
        return link_->waits_since();
    }
    bool settled() const override { return link_->settled(); }

    scan_plan plan_scan() const override { return link_->plan_scan(); }
    std::string scan_problem(std::uint16_t node) const override {
        return available() ? link_->scan_problem(node) : reason_message();
    }

    void ask_time_now() override { link_->ask_time_now(); }
    void excuse_jump() override { link_->excuse_jump(); }
    void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                               lease_clock::duration least, lease_clock::duration most) override {
        link_->our_clock_stood_still(from, until, least, most);
    }
    void push_missed(protocol::breach b) override { link_->push_missed(b); }

    std::string_view run_id() const override { return link_->run_id(); }
    std::uint64_t identity() const override { return link_->identity(); }

    void on_older_server() override { link_->on_older_server(); }

    instance_status status() const override { return link_->status(); }
    instance_counts const& counts() const override { return link_->counts(); }

private:
    // link_policy
    errc objection(protocol::command c, lease_clock::time_point) noexcept override {
        return is_linked() ? view_.objection(c, owner_.time()) : errc::no_sentinel_majority;
    }
    std::string_view objection_text(errc cause) const noexcept override {
        return sentinel_view::objection_text(cause);
    }
    bool may_connect() noexcept override { return is_linked() && is_confirmed(); }
    bool leaves_suspects() const noexcept override { return true; }
    void on_link_lost(errc cause) noexcept override;
    void on_age(lease_clock::time_point start) override;

    // sentinel_link_user
    void on_asked(unsigned sentinel) override { view_.asked(sentinel); }
    void on_report(unsigned sentinel, sentinel_report const&,
                   lease_clock::time_point begun) override;
    void on_switch(unsigned sentinel, server_address const& to) override;
    void on_failure(unsigned sentinel, errc, std::string_view message) override;

    bool is_confirmed() const { return view_.confirmed(owner_.time()); }
    /// The link is set to the primary that is named now.
    bool is_linked() const { return linked_.has_value() && linked_ == view_.named(); }
    void carry_out(sentinel_view::action, std::string_view reason);
    void move_link();
    void leave_primary(std::string_view reason);
    void after_news();
    void link_sentinels();
    std::shared_ptr<sentinel_link> link_to(sentinel_view::sentinel const&);
    void check_confirmation();
    void arm();
    void on_time();
    void do_what_is_due();

    asio::any_io_executor executor_;
    connection_options const options_;
    instance_owner& owner_;
    unsigned const number_;
    location::stream_factory const factory_;

    link_boundary boundary_;
    sentinel_view view_;
    std::vector<std::shared_ptr<sentinel_link>> sentinels_;
    std::shared_ptr<server_link> link_;
    std::optional<protocol::named_primary> linked_;    ///< to which the link is set
    std::optional<protocol::named_primary> succeeded_; ///< of which the link's guards know
    turn_timer timer_;        ///< for the next round, or for the end of the confirmation
    bool confirmed_ = false;  ///< as the owner and the status know it
    std::string vain_search_; ///< as the status shows it; empty while there is a primary
    bool stopped_ = false;
};

} // namespace holdfast::redis

#endif
