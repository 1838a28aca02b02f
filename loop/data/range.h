#pragma once

// std::ranges::input_range and its like without the views of <ranges>, which take long to compile: the constructor of a
// span is constrained by these concepts.
#include <iterator>
#include <span>
