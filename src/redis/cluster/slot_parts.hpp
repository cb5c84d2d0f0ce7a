// A command on keys of several slots of a Cluster. It has a part for each slot, which goes the way
// of any command: redirects, waits, pending releases. When all parts are answered, the command is.
//
// The nodes do not take the keys together. So if one part of a grant is refused, the parts that
// were granted are released at once, before the command is answered: all keys or none.
#ifndef HOLDFAST_REDIS_SLOT_PARTS_HPP
#define HOLDFAST_REDIS_SLOT_PARTS_HPP

#include "protocol/messages.hpp"
#include "redis/wire/reply_handler.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class gathered_command;
class slot_part_user;

void intrusive_ptr_add_ref(gathered_command*) noexcept;
void intrusive_ptr_release(gathered_command*) noexcept;

/// The keys of one slot, of a lock on several keys.
class slot_part final : public reply_handler {
public:
    slot_part(reply_handler_ptr owner, protocol::command of, unsigned slot);

    lock_kind const& kind() const noexcept override { return owner_->kind(); }
    /// The number among all keys of the lock, from 1, of the key with this number among its own.
    std::uint8_t place_of(unsigned number) const noexcept;

    command_args arguments(protocol::command) const noexcept override;
    bool still_wants(protocol::command) const noexcept override;
    void on_answer(unsigned instance, protocol::command, std::uint32_t round,
                   answer const&) override;
    grant_id grant() const noexcept override { return {owner_.get(), slot_}; }

private:
    friend class gathered_command;
    friend std::vector<boost::intrusive_ptr<slot_part>>
    split(reply_handler_ptr const&, protocol::command, command_args const&);

    void recycle() noexcept override { delete this; }
    /// The command that the owner knows.
    protocol::command of_owner(protocol::command) const noexcept;

    reply_handler_ptr const owner_;
    protocol::command const of_;
    unsigned const slot_;
    std::vector<std::string_view> keys_;
    std::vector<std::uint8_t> places_; ///< of the keys among all keys of the lock
    std::vector<std::string> prior_;
    std::uint8_t watched_ = 0;
    bool watches_ = false;       ///< the watched key is one of these
    std::uint64_t raise_to_ = 0; ///< zero: the number of the owner
    std::size_t index_ = 0;      ///< in the gathered command
    /// While a command of the part is under way, and its answer is awaited.
    boost::intrusive_ptr<gathered_command> awaited_by_;
    slot_part_user* undone_by_ = nullptr;
};

using slot_part_ptr = boost::intrusive_ptr<slot_part>;

/// True if the keys have different slots.
bool has_several_slots(command_args const&);
/// The parts of a command with these arguments.
std::vector<slot_part_ptr> split(reply_handler_ptr const& owner, protocol::command,
                                 command_args const&);

/// What a gathered command needs of its Cluster.
class slot_part_user {
public:
    /// Sends a part on its way. The answer comes later. False if that failed: there is no answer.
    virtual bool submit_part(reply_handler_ptr part, protocol::command,
                             std::uint32_t round) noexcept = 0;
    /// Releases the keys of a part. Nobody waits for the answer, which may come to the part.
    virtual void undo(reply_handler_ptr part) noexcept = 0;
    /// The keys have been taken and released, though their owner knows of neither.
    virtual void on_undone(std::span<std::string_view const> keys) noexcept = 0;
    virtual unsigned number() const noexcept = 0;

protected:
    ~slot_part_user() = default;
};

/// The answers of the parts, and the answer that they give together. Kept by the parts that are
/// under way.
class gathered_command final {
public:
    gathered_command(slot_part_user&, reply_handler_ptr owner, protocol::command,
                     std::uint32_t round, std::vector<slot_part_ptr>);

    /// False if no part could be sent on its way: the command gets no answer.
    bool submit() noexcept;

private:
    friend class slot_part;
    friend void intrusive_ptr_add_ref(gathered_command*) noexcept;
    friend void intrusive_ptr_release(gathered_command*) noexcept;

    struct record {
        slot_part_ptr part{}; ///< once it is answered
        redis::answer answer{};
        std::string message{}, holder{}; ///< `answer` has views of them
    };

    bool send(slot_part_ptr const&, protocol::command) noexcept;
    void take(slot_part&, answer const&) noexcept;
    static void note(record&, answer const&) noexcept;
    void on_all() noexcept;
    void answer_owner(answer) noexcept;
    /// False: the answer of the watched part is as new as that of the command.
    bool track() noexcept;
    /// False: not all parts were granted, their numbers are equal, or no raise could be sent.
    bool level() noexcept;
    void undo_grants() noexcept;
    /// The part whose answer is that of the command.
    record const& decisive() const noexcept;

    slot_part_user& user_;
    reply_handler_ptr const owner_;
    protocol::command const command_;
    std::uint32_t const round_;
    std::vector<slot_part_ptr> unsent_; ///< until submit()
    std::vector<record> records_;
    std::size_t open_ = 0;     ///< parts under way
    std::size_t watching_ = 0; ///< the part with the watched key
    std::uint64_t number_ = 0; ///< of a grant: the greatest
    bool refused_ = false;     ///< a part was refused: a grant is of no use any more
    bool raising_ = false;
    bool stale_ = false;    ///< other parts were answered after the watched one
    bool tracking_ = false; ///< the watched key is asked for again
    std::uint32_t references_ = 0;
};

} // namespace holdfast::redis

#endif
