#pragma once

// Provides std::ranges::input_range and related concepts without <ranges>, which is slow to compile. <span> needs the
// same concepts for its constructors.
#include <iterator>
#include <span>
