// The pages of the documentation, which tests compare with what the library does.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace holdfast::test {

/// The text of a file in HOLDFAST_DOCUMENTS: a variable of the environment, or else the folder doc.
inline std::string document_text(std::string const& name) {
    auto const* const folder = std::getenv("HOLDFAST_DOCUMENTS");
    std::ifstream in((folder != nullptr ? folder : "doc") + ("/" + name));
    std::string text(std::istreambuf_iterator<char>(in), {});
    if (text.empty()) throw std::runtime_error("no document " + name);
    return text;
}

} // namespace holdfast::test
