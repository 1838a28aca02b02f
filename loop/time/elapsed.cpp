#include <giro/loop/time/elapsed.h>

#include <giro/loop/time/clock.h>
#include <giro/runtime/archive.h>

namespace giro {

void Elapsed::persist(Archive& archive) {
  archive("steps", steps)("samples", samples)("previous_samples", previous_samples)("step_samples", step_samples);
  archive.date("date", date).date("date_start", date_start).date("previous_date", previous_date);
}

double Elapsed::now() { return Clock::now(); }

}  // namespace giro
