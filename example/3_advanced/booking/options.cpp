#include "options.hpp"

#include <charconv>
#include <sstream>
#include <string_view>

namespace booking {

namespace {

long long number(std::string const& option, std::string_view text, long long least,
                 long long most) {
    long long value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw usage_error(option + ": \"" + std::string(text) + "\" is not a number from " +
                          std::to_string(least) + " to " + std::to_string(most));
    return value;
}

std::vector<holdfast::address> addresses(std::string const& text) {
    std::vector<holdfast::address> all;
    std::istringstream list(text);
    for (std::string each; std::getline(list, each, ',');) all.emplace_back(each);
    return all;
}

void set_listen(options& o, std::string const& text) {
    auto const colon = text.rfind(':');
    if (colon == text.npos || colon == 0)
        throw usage_error("--listen: \"" + text + "\" is not HOST:PORT");
    o.host = text.substr(0, colon);
    o.port = static_cast<std::uint16_t>(number("--listen", text.substr(colon + 1), 0, 65'535));
}

} // namespace

char const* usage() noexcept {
    return "usage: booking --instances ADDRESS,.. [options]\n"
           "  --database URL     sqlite:FILE or postgresql://..    (sqlite:booking.db)\n"
           "  --listen HOST:PORT port 0: any that is free          (127.0.0.1:8080)\n"
           "  --seats N          (100)\n"
           "  --threads N        that run the HTTP sessions        (2)\n"
           "  --ttl MS           of the locks; the same everywhere (5000)\n"
           "  --deadline MS      of a request without its own      (2000)\n"
           "  --payment MS       how long a payment takes          (20)\n"
           "  --hold MS          how long a seat is held           (120000)\n"
           "  --drain MS         how long holders may take at the end (20000)\n";
}

options parse_options(std::vector<std::string> const& arguments) {
    using std::chrono::milliseconds;
    constexpr long long day = 86'400'000;
    options o;
    for (std::size_t i = 0; i < arguments.size(); i += 2) {
        auto const& option = arguments[i];
        if (i + 1 == arguments.size()) throw usage_error(option + " needs a value");
        auto const& value = arguments[i + 1];
        auto const time = [&](long long least) {
            return milliseconds(number(option, value, least, day));
        };
        if (option == "--instances")
            o.instances = addresses(value);
        else if (option == "--database")
            o.database = value;
        else if (option == "--listen")
            set_listen(o, value);
        else if (option == "--seats")
            o.seats = static_cast<unsigned>(number(option, value, 1, 1'000'000));
        else if (option == "--threads")
            o.threads = static_cast<unsigned>(number(option, value, 1, 256));
        else if (option == "--ttl")
            o.ttl = time(100);
        else if (option == "--deadline")
            o.deadline = time(1);
        else if (option == "--payment")
            o.payment = time(0);
        else if (option == "--hold")
            o.hold = time(0);
        else if (option == "--drain")
            o.drain = time(0);
        else
            throw usage_error("unknown option " + option);
    }
    if (o.instances.empty()) throw usage_error("--instances ADDRESS,.. is missing");
    return o;
}

} // namespace booking
