#include "use_holdfast.hpp"

int main() {
    return use_holdfast() ? 0 : 1;
}
