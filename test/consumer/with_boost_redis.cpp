#include "use_holdfast.hpp"

bool use_boost_redis();

int main() {
    return use_holdfast() && use_boost_redis() && use_holdfast() ? 0 : 1;
}
