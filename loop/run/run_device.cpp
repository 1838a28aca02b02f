// The device steps of a run: held back, launched together, waited for.

#include "loop/run/run_engine.h"

namespace giro::detail {

void RunEngine::push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) {
  while (!recording->has_room()) make_room(recording->stream());
  stream_ = recording->stream();
  journal_.add(recording->logs());
  try {
    queue_.push(recording, call);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

// Makes room in rings that are full of calls not yet run or of logs not yet read.
void RunEngine::make_room(const Stream& stream) {
  launch();
  if (journal_.has_pending() && queue_.wait()) return drain(false);
  synchronize(&stream);
}

void RunEngine::flush() {
  if (journal_.has_rows()) {
    synchronize(&*stream_);
  } else {
    launch();
  }
}

void RunEngine::launch() {
  if (queue_.is_empty()) return;
  is_launching_ = true;
  queue_.launch();
  is_launching_ = false;
}

void RunEngine::settle() {
  bring_device();
  elapsed_.date = clock_.now();
}

void RunEngine::synchronize(const Stream* stream) {
  launch();
  if (stream != nullptr) stream->synchronize();
  drain(true);
  journal_.arrive(loop_.logs);
}

// Commits the logs that have arrived, or all of them, and shows them to their observers. A program's own arbiter is not
// asked for the date, since the number of calls would depend on when logs arrive.
void RunEngine::drain(bool all) {
  journal_.drain(all, [&] { return has_own_arbiter_ ? elapsed_.date : arbiter_->date(); });
}

}  // namespace giro::detail
