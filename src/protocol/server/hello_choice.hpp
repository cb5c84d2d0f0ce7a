// Whether a connection begins with HELLO. A proxy that does not know it may close the connection
// instead of an answer, as any server does that goes down at that moment.
#ifndef HOLDFAST_PROTOCOL_HELLO_CHOICE_HPP
#define HOLDFAST_PROTOCOL_HELLO_CHOICE_HPP

namespace holdfast::protocol {

/// After three connections that were closed at HELLO, every other one goes without. If that works,
/// the next one has HELLO again: only if it is closed, too, all later ones go without.
class hello_choice {
public:
    /// The next connection goes without.
    bool skips() const { return sure_ || (closed_ >= patience && closed_ % 2 == 1); }

    /// The connection was closed before any answer.
    void closed() {
        if (worked_) sure_ = true;
        if (!sure_) ++closed_;
    }
    /// HELLO was answered.
    void answered() { *this = {}; }
    /// A connection without HELLO is up. True: it is to be closed, as HELLO gets one more chance.
    bool works_without() {
        if (sure_) return false;
        worked_ = true;
        closed_ = patience + 1;
        return true;
    }

private:
    static constexpr unsigned patience = 3;

    unsigned closed_ = 0; ///< in a row
    bool worked_ = false; ///< without HELLO
    bool sure_ = false;
};

} // namespace holdfast::protocol

#endif
