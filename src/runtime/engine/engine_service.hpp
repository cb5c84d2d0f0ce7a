// Tells engines that their execution context is about to be destroyed, or that the process has
// forked.
#ifndef HOLDFAST_RUNTIME_ENGINE_SERVICE_HPP
#define HOLDFAST_RUNTIME_ENGINE_SERVICE_HPP

#include <boost/asio/execution_context.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace holdfast::runtime {

class engine;

/// Handlers wait in the engine, not in the context, and may own objects that keep the engine alive.
/// So this service destroys the handlers when the context is destroyed.
class engine_service final : public boost::asio::execution_context::service {
public:
    using key_type = engine_service;
    static inline boost::asio::execution_context::id id;

    explicit engine_service(boost::asio::execution_context& context)
        : service(context) {}

    void add(std::weak_ptr<engine>);

private:
    void shutdown() override;
    void notify_fork(boost::asio::execution_context::fork_event) override;

    std::mutex mutex_;
    std::vector<std::weak_ptr<engine>> engines_;
};

} // namespace holdfast::runtime

#endif
