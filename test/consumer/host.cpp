// A program that uses the plugin. It links the plugin, or loads the file in its argument. It has
// its own copy of holdfast, or none.
#include "use_holdfast.hpp"

#include <dlfcn.h>
#include <iostream>
#include <thread>

extern "C" {
#ifdef HOST_LINKS_PLUGIN
bool plugin_uses_holdfast();
void plugin_has_error(boost::system::error_code& to);
#else
bool (*plugin_uses_holdfast)();
void (*plugin_has_error)(boost::system::error_code& to);
#endif
}

int main([[maybe_unused]] int count, [[maybe_unused]] char** arguments) {
#ifndef HOST_LINKS_PLUGIN
    void* const plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (plugin == nullptr) {
        std::cerr << dlerror() << '\n';
        return 1;
    }
    plugin_uses_holdfast = reinterpret_cast<bool (*)()>(dlsym(plugin, "plugin_uses_holdfast"));
    plugin_has_error =
        reinterpret_cast<void (*)(boost::system::error_code&)>(dlsym(plugin, "plugin_has_error"));
#endif
    bool good = plugin_uses_holdfast();
#ifdef HOST_HAS_HOLDFAST
    // Both copies are used one after the other, and then at the same time.
    good = use_holdfast() && plugin_uses_holdfast() && good;
    bool beside = false;
    std::thread other([&] { beside = plugin_uses_holdfast(); });
    good = use_holdfast() && good;
    other.join();
    // Both copies have the same error category.
    boost::system::error_code theirs;
    plugin_has_error(theirs);
    if (!theirs || theirs != error_of_holdfast()) {
        std::cerr << "the two copies have different errors\n";
        good = false;
    }
    good = beside && good;
#endif
    return good ? 0 : 1;
}
