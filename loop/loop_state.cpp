#include <giro/loop/engine.h>
#include <giro/loop/loop_state.h>

#include "runtime/throw_error.h"

namespace giro::detail {

Engine& AnyLoopState::run() const {
  if (run_ == nullptr) throw_invalid("there is no run here: this LoopState does not belong to one");
  return *run_;
}

Elapsed AnyLoopState::completed() const { return run().completed(); }
void AnyLoopState::at_step_end(std::function<void()> f) const { run().at_step_end(std::move(f)); }
void AnyLoopState::after_step(std::function<void()> f, bool first) const { run().after_step(std::move(f), first); }
void AnyLoopState::persist(Archive& archive) const { run().persist(archive); }

}  // namespace giro::detail
