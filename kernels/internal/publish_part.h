#pragma once

#include <giro/kernels/publish.h>

#include "kernels/functors/publish.h"

namespace giro {

// One part of publish_row, whose arguments have been checked.
void publish_part(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream);

}  // namespace giro
