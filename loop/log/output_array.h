#pragma once

#include <giro/runtime/host_array.h>

namespace giro {

using OutputArray = HostArray;

}  // namespace giro
