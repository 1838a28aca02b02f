#include "kernels/pointwise/math.h"

namespace giro::pointwise::math {

constinit const ExpLimits kExpLimits{.least = -104.0f, .most = 89.0f};
constinit const TanhLimits kTanhLimits{.most = 10.0f, .one = 1.0f};

}  // namespace giro::pointwise::math
