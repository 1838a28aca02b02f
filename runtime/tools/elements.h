#pragma once

#include <string>
#include <string_view>

#include <giro/runtime/tensor.h>

#include "runtime/internal/elements.h"

namespace giro::tools {

using detail::with_elements;

// "f32 (2, 3)"
std::string type_of(const Tensor& tensor);
// A name from a file, which may contain anything, made fit for one line of a terminal.
std::string for_terminal(std::string_view name);

}  // namespace giro::tools
