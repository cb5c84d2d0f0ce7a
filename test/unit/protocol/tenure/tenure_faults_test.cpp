// Faults at each step in the life of a tenure.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

#include <deque>

using namespace tenures;

BOOST_AUTO_TEST_SUITE(tenure_faults)

namespace {

/// The life of a tenure: it acquires, extends once, and releases. Any answer can be replaced by a
/// fault. The test tracks on its own where a key may exist.
class life {
public:
    enum class order {
        forwards, ///< the oldest answer comes first
        backwards ///< the oldest answer of the last instance comes first
    };

    struct fault {
        std::size_t position;
        verdict v;
    };

    life(unsigned n, order o, std::vector<fault> faults)
        : machine_(n, ttl, true)
        , all_(instance_set::first(n))
        , order_(o)
        , faults_(std::move(faults)) {}

    /// Runs the life to its end. Returns the complaint; empty if there is none.
    std::string run() {
        take(machine_.acquire(at(now_), all_));
        auto extensions = 0;
        while (complaint_.empty()) {
            if (!wire_.empty()) {
                deliver();
            } else if (machine_.phase() == phase::held && extensions == 0 && machine_.wake()) {
                now_ = std::max<protocol::duration>(now_, *machine_.wake() - at(0s));
                auto a = machine_.time(at(now_));
                if (a.effect == tenure_effect::renewal_due) a = machine_.extend(at(now_), all_);
                take(a);
            } else if (machine_.phase() == phase::held) {
                take(machine_.release(at(now_), all_));
            } else {
                break;
            }
            if (heard(tenure_effect::extended)) extensions = 1;
            if (++turns_ > 1'000) return "it does not end";
        }
        if (!complaint_.empty()) return complaint_;
        if (machine_.phase() != phase::over) return "it is not over";
        if (ends_ != 1) return "it ended " + std::to_string(ends_) + " times";
        // The client repeats a failed release until it is answered.
        may_exist_ = may_exist_ - unreleased_;
        unreleased_.for_each(
            [&](unsigned i) { take(machine_.answer(command::release, 0, i, no, at(now_))); });
        if (!machine_.maybe_held().empty())
            return "has not released " + text(machine_.maybe_held());
        return complaint_;
    }

    std::size_t answers() const { return position_; }
    bool heard(tenure_effect e) const {
        return std::find(heard_.begin(), heard_.end(), e) != heard_.end();
    }

private:
    struct sent {
        command c;
        std::uint32_t extension;
        unsigned instance;
    };

    void take(tenure_action const& a) {
        send(command::acquire, a.acquire);
        send(command::extend, a.extend);
        send(command::heal, a.heal);
        if (!(a.release - asked_).empty()) complaint_ = "releases where nothing was asked for";
        send(command::release, a.release);
        if (a.effect != tenure_effect::none) heard_.push_back(a.effect);
        switch (a.effect) {
        case tenure_effect::contended:
        case tenure_effect::no_quorum:
        case tenure_effect::expired:
        case tenure_effect::cancelled:
        case tenure_effect::arbiter_refused:
        case tenure_effect::arbiter_failed:
        case tenure_effect::lost:
        case tenure_effect::released:
        case tenure_effect::release_unconfirmed:
            ++ends_;
            if (!(may_exist_ - unreleased_ - on_the_wire(command::release)).empty()) {
                complaint_ = "leaves keys behind";
            }
            break;
        default:
            break;
        }
        if (!(may_exist_ - machine_.maybe_held()).empty()) complaint_ = "forgets where keys may be";
    }

    instance_set on_the_wire(command c) const {
        instance_set s;
        for (auto const& under_way : wire_) {
            if (under_way.c == c) s.insert(under_way.instance);
        }
        return s;
    }

    void send(command c, instance_set to) {
        to.for_each([&](unsigned i) { wire_.push_back({c, machine_.round_number(), i}); });
        if (c == command::acquire || c == command::heal) {
            asked_ = asked_ | to;
            may_exist_ = may_exist_ | to;
        }
    }

    void deliver() {
        auto at_front = wire_.begin();
        if (order_ == order::backwards) {
            at_front =
                std::max_element(wire_.begin(), wire_.end(), [](sent const& a, sent const& b) {
                    return a.instance < b.instance;
                });
        }
        auto const delivered = *at_front;
        wire_.erase(at_front);
        auto v = yes;
        for (auto const& f : faults_) {
            if (f.position == position_) v = f.v;
        }
        ++position_;
        now_ += 1ms;
        auto const i = delivered.instance;
        switch (delivered.c) {
        case command::acquire:
        case command::heal:
            if (v != yes && v != unknown) may_exist_.erase(i);
            break;
        case command::extend:
            if (v == no) may_exist_.erase(i);
            break;
        case command::release:
            unreleased_.erase(i);
            if (v == yes || v == no) {
                may_exist_.erase(i);
            } else {
                unreleased_.insert(i);
            }
            break;
        case command::contend:
        case command::raise:
        case command::inspect:
        case command::track:
        case command::survey:
        case command::revoke:
        case command::scan:
            break;
        }
        take(machine_.answer(delivered.c, delivered.extension, i, v, at(now_)));
    }

    machine machine_;
    instance_set all_;
    order order_;
    std::vector<fault> faults_;
    std::deque<sent> wire_;
    instance_set asked_, may_exist_, unreleased_;
    std::vector<tenure_effect> heard_;
    protocol::duration now_{0};
    std::size_t position_ = 0;
    int ends_ = 0;
    int turns_ = 0;
    std::string complaint_;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_life_without_failures_is_won_extended_and_released) {
    for (unsigned n = 1; n <= 5; ++n) {
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            life l(n, o, {});
            BOOST_TEST(l.run() == "");
            BOOST_TEST(l.heard(tenure_effect::won));
            BOOST_TEST(l.heard(tenure_effect::extended));
            BOOST_TEST(l.heard(tenure_effect::released));
            BOOST_TEST(l.answers() == 3 * n);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_failure_at_any_step_settles_and_leaves_no_key) {
    for (unsigned n = 1; n <= 5; ++n) {
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            for (std::size_t k = 0; k < 3 * n; ++k) {
                for (auto const v : every_failure) {
                    life l(n, o, {{k, v}});
                    BOOST_TEST_CONTEXT("of " << n << ", answer " << k << " is " << v) {
                        BOOST_TEST(l.run() == "");
                        // One fault has no effect on the result with three or more instances.
                        if (n >= 3) BOOST_TEST(l.heard(tenure_effect::released));
                    }
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(failures_at_any_two_or_three_steps_settle_and_leave_no_key) {
    std::size_t lives = 0;
    std::array<bool, static_cast<std::size_t>(tenure_effect::release_unconfirmed) + 1> seen{};
    for (unsigned n = 1; n <= 5; ++n) {
        auto const last = 4 * n; // a retry adds answers
        for (auto const o : {life::order::forwards, life::order::backwards}) {
            for (std::size_t a = 0; a < last; ++a) {
                for (auto b = a + 1; b < last; ++b) {
                    for (auto c = b; c < last; c += 3) {
                        for (std::size_t kinds = 0; kinds < 64; ++kinds) {
                            std::vector<life::fault> faults{{a, every_failure[kinds & 3]},
                                                            {b, every_failure[kinds >> 2 & 3]}};
                            if (c != b) faults.push_back({c, every_failure[kinds >> 4]});
                            life l(n, o, faults);
                            auto const complaint = l.run();
                            ++lives;
                            BOOST_REQUIRE_MESSAGE(complaint.empty(), "of " << n << ", answers " << a
                                                                           << ' ' << b << ' ' << c
                                                                           << ", kinds " << kinds
                                                                           << ": " << complaint);
                            for (std::size_t e = 0; e < seen.size(); ++e) {
                                if (l.heard(static_cast<tenure_effect>(e))) seen[e] = true;
                            }
                        }
                    }
                }
            }
        }
    }
    BOOST_TEST_MESSAGE(lives << " lives");
    // The faults produce all these effects.
    for (auto const e :
         {tenure_effect::won, tenure_effect::contended, tenure_effect::no_quorum,
          tenure_effect::extended, tenure_effect::extension_failed, tenure_effect::lost,
          tenure_effect::released, tenure_effect::release_unconfirmed}) {
        BOOST_TEST_CONTEXT(e) BOOST_TEST(seen[static_cast<std::size_t>(e)]);
    }
}

BOOST_AUTO_TEST_SUITE_END()
