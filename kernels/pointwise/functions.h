// The table of scalar functions (scalar_function.h), without an include guard: functions.cpp defines them, and who wants
// to name them includes table.h.

GIRO_SCALAR_FUNCTION(add, 2, plus(a, b), {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy), GIRO_GRADIENT(dy)}})
GIRO_SCALAR_FUNCTION(multiply, 2, times(a, b),
                     {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy * b), GIRO_GRADIENT(dy * a)}})
GIRO_SCALAR_FUNCTION(tanh, 1, tanh(a), {.gradients = {GIRO_GRADIENT(dy * (1 - square(y)))}})
GIRO_SCALAR_FUNCTION(less, 2, a < b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(where, 3, a ? b : c,
                     {.takes = Takes::select,
                      .gradients = {nullptr, GIRO_GRADIENT(where(a, dy, 0)), GIRO_GRADIENT(where(a, 0, dy))},
                      .is_exact = true})
