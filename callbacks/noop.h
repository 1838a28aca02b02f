#pragma once

#include <giro/loop/time/elapsed.h>

namespace giro {

// A callback that does nothing, in place of one that is not wanted. It is an observer: it never stalls the device.
struct Noop {
  void operator()(const Elapsed&) const noexcept {}
};
inline Noop noop() { return {}; }

}  // namespace giro
