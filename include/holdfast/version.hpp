#ifndef HOLDFAST_VERSION_HPP
#define HOLDFAST_VERSION_HPP

/// 100'000 * major + 100 * minor + patch, as BOOST_VERSION counts.
#define HOLDFAST_VERSION 100
/// The same as text: major.minor.patch.
#define HOLDFAST_VERSION_STRING "0.1.0"

#endif
