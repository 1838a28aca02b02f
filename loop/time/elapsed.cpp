#include <giro/loop/time/elapsed.h>

#include <giro/loop/time/clock.h>
#include <giro/runtime/files/archive.h>

#include "runtime/internal/throw_error.h"

namespace giro {

void Elapsed::persist(Archive& archive) {
  archive("steps", steps)("samples", samples)("previous_samples", previous_samples)("step_samples", step_samples);
  if (tokens_per_sample != 0 || archive.contains("tokens_per_sample")) {
    archive("tokens_per_sample", tokens_per_sample);
  }
  archive.date("date", date).date("date_start", date_start).date("previous_date", previous_date);
}

double Elapsed::now() { return Clock::now(); }

void Elapsed::reject_unknown_tokens() const {
  throw_invalid("tokens_per_sample is {}, expected at least 1 for a period of tokens", tokens_per_sample);
}

}  // namespace giro
