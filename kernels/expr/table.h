#pragma once

#include "kernels/expr/scalar_function.h"

// Declares the functions of scalar_functions.h.
#pragma push_macro("GIRO_SCALAR_FUNCTION")
#undef GIRO_SCALAR_FUNCTION
#define GIRO_SCALAR_FUNCTION(NAME, ...)       \
  namespace giro::expr::functions {           \
  extern constinit const ScalarFunction NAME; \
  }
#include "kernels/expr/scalar_functions.h"
#pragma pop_macro("GIRO_SCALAR_FUNCTION")
