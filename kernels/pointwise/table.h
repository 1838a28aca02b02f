#pragma once

#include "kernels/pointwise/scalar_function.h"

// Declares the functions of functions.h.
#pragma push_macro("GIRO_SCALAR_FUNCTION")
#undef GIRO_SCALAR_FUNCTION
#define GIRO_SCALAR_FUNCTION(NAME, ...)       \
  namespace giro::pointwise::functions {      \
  extern constinit const ScalarFunction NAME; \
  }
#include "kernels/pointwise/functions.h"
#pragma pop_macro("GIRO_SCALAR_FUNCTION")
