#include "runtime/keys/inspector.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <chrono>
#include <utility>

namespace holdfast::runtime {

/// One inspection, while instances are to answer.
class inspector::question final : public redis::reply_handler {
public:
    question(inspector& i, operation& asked_by)
        : op(&asked_by)
        , began(i.turn_.time())
        , report(i.surveyor_.begin(asked_by.as<inspect_call>().key->key()))
        , inspector_(i) {}

    redis::command_args arguments(protocol::command) const noexcept override {
        return {.key = report.key, .token = {}};
    }
    bool still_wants(protocol::command) const noexcept override { return op != nullptr; }
    void on_answer(unsigned instance, protocol::command, std::uint32_t,
                   redis::answer const& a) override {
        if (op == nullptr) return;
        if (!inspector_.turn_.attempt([&] { inspector_.on_answer(*this, instance, a); }))
            inspector_.fail(*this);
    }

    operation* op; ///< null after a cancellation
    lease_clock::time_point const began;
    protocol::instance_set pending; ///< asked, and not yet answered
    key_report report;

private:
    void recycle() noexcept override { delete this; }

    inspector& inspector_;
};

void inspector::start(operation& op) {
    boost::intrusive_ptr<question> const q(new question(*this, op));
    op.stage = operation_stage::attached;
    op.as<inspect_call>().question = q.get();
    auto const asked = surveyor_.reachable();
    q->pending = asked - surveyor_.ask(*q, protocol::command::survey, asked, 0);
    if (q->pending.empty() && !turn_.attempt([&] { conclude(*q); })) fail(*q);
}

void inspector::cancel(operation& op) {
    static_cast<question*>(op.as<inspect_call>().question)->op = nullptr;
    completer_.complete(op, errc::cancelled);
}

void inspector::on_answer(question& q, unsigned instance, redis::answer const& a) {
    q.pending.erase(instance);
    surveyor_.take(q.report, instance, a, q.began);
    if (q.pending.empty()) conclude(q);
}

void inspector::conclude(question& q) {
    evaluate(q.report);
    completer_.complete(*std::exchange(q.op, nullptr), errc{}, std::move(q.report));
}

void inspector::fail(question& q) {
    if (q.op != nullptr) completer_.complete(*std::exchange(q.op, nullptr), errc::out_of_memory);
}

} // namespace holdfast::runtime
