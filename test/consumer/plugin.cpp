// A shared library that contains holdfast.
#include "use_holdfast.hpp"

extern "C" bool plugin_uses_holdfast() {
    return use_holdfast();
}

extern "C" void plugin_has_error(boost::system::error_code& to) {
    to = error_of_holdfast();
}
