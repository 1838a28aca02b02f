#include "kernels/expr/math.h"

namespace giro::expr::math {

constinit const ExpLimits kExpLimits{.least = -104.0f, .most = 89.0f};
constinit const TanhLimits kTanhLimits{.most = 10.0f, .one = 1.0f};

}  // namespace giro::expr::math
