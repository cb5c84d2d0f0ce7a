// An HTTP/1.1 server that sells seats, in any number of processes. Each sale runs under the
// lock of the seat, and writes to a SQL database with the fencing token of the lease.
//   booking --instances 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379 --database sqlite:booking.db
//
//   GET  /seats                                     all seats
//   POST /seats/12/hold    {"owner":"alice"}        keeps it for alice for two minutes
//   POST /seats/12/buy     {"owner":"alice"}        sells it to alice
//   GET  /metrics, /healthz
//
// Answers: 409 the seat is another's; 504 the deadline has passed (X-Request-Timeout-Ms, or
// --deadline); 503 with a reason: the lease was lost, an outage, or this server ends.
#include "options.hpp"
#include "server.hpp"

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
    try {
        std::vector<std::string> const arguments(argv + 1, argv + argc);
        if (arguments == std::vector<std::string>{"--help"}) {
            std::cout << booking::usage();
            return 0;
        }
        return booking::run_server(booking::parse_options(arguments));
    } catch (booking::usage_error const& e) {
        std::cerr << "booking: " << e.what() << '\n' << booking::usage();
        return 2;
    } catch (std::exception const& e) {
        std::cerr << "booking: " << e.what() << '\n';
        return 1;
    }
}
