#include <giro/callbacks/periodic_callback.h>

#include "callbacks/worker.h"

namespace giro {

struct PeriodicCallback::Memory {
  // Returns whether the step is one in which it is due.
  bool pass(std::int64_t step, double t, const Logs& logs);

  Function call;
  PeriodicAction action;
  bool execute_async;
  detail::Worker worker;  // last, so that its calls end before the members they use are destroyed
};

PeriodicCallback::PeriodicCallback(Function f, const PeriodicCallbackOptions& options, int)
    : memory_(std::shared_ptr<Memory>(
          new Memory{.call = std::move(f),
                     .action = {"periodic_callback", {options.every_steps, options.every_secs, options.on_steps}},
                     .execute_async = options.execute_async,
                     .worker = {}})) {}

bool PeriodicCallback::Memory::pass(std::int64_t step, double t, const Logs& logs) {
  action.see(step, t);
  if (!action.is_due(t)) return false;
  action.ran(step, t);
  if (!execute_async) {
    call(step, t, logs);
    return true;
  }
  Logs fetched = logs;  // in this thread, because no other may use the device's stream
  fetched.fetch();
  worker.submit([this, step, t, fetched = std::move(fetched)] { call(step, t, fetched); });
  return true;
}

bool PeriodicCallback::update(std::int64_t step, double t, const Logs& logs) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t, logs);
}

void PeriodicCallback::join() { memory_->worker.join(); }
void PeriodicCallback::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void PeriodicCallback::operator()(const Elapsed& elapsed, const Logs& logs) {
  memory_->pass(elapsed.steps + 1, elapsed.date, logs);
}
void PeriodicCallback::on_end() { join(); }
void PeriodicCallback::persist(Archive& archive) { memory_->action.persist(archive); }

}  // namespace giro
