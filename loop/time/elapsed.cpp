#include <giro/loop/time/elapsed.h>

#include <giro/loop/time/clock.h>

namespace giro {

double Elapsed::now() { return Clock::now(); }

}  // namespace giro
