#pragma once

#include <giro/loop/time/elapsed.h>

namespace giro {

// A callback that does nothing, in the place of one that is not wanted: an observer, for which no device waits.
struct Noop {
  void operator()(const Elapsed&) const noexcept {}
};
inline Noop noop() { return {}; }

}  // namespace giro
