// The refusal of a wrong address.
#ifndef HOLDFAST_TEST_UNIT_COMPLAINT_HPP
#define HOLDFAST_TEST_UNIT_COMPLAINT_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

namespace holdfast::test {

/// The message of the exception for `text`; empty if there is none.
inline std::string complaint(std::string_view text) {
    try {
        address const a(text);
        return {};
    } catch (system_error const& e) {
        BOOST_TEST((e.code() == errc::invalid_address));
        return e.what();
    }
}

} // namespace holdfast::test

#endif
