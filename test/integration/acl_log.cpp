// The library needs only the rights of doc/production.md. So ACL LOG is empty at the end of a
// suite, except on servers whose tests take rights away.
#include "support/access.hpp"

#include <boost/test/unit_test.hpp>

namespace {

struct acl_log_is_empty {
    void setup() {}
    void teardown() {
        for (auto const& refusal : holdfast::test::access::unexpected_refusals()) {
            BOOST_ERROR("the library was refused: " + refusal);
        }
    }
};

} // namespace

BOOST_TEST_GLOBAL_FIXTURE(acl_log_is_empty);
