#ifndef HOLDFAST_DETAIL_API_HPP
#define HOLDFAST_DETAIL_API_HPP

/// Marks the functions and the classes that a shared library exports. It hides all others. The
/// static library has the same marks, so both are made of the same object files.
#define HOLDFAST_API [[gnu::visibility("default")]]

#endif
