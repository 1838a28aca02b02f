#include <giro/callbacks/periodic_callback.h>

#include "callbacks/internal/worker.h"

namespace giro {

struct PeriodicCallback::Memory {
  Function call;
  PeriodicAction action;
  bool execute_async;
  detail::Worker worker;  // last, so that its calls end before the members they use are destroyed
};

PeriodicCallback::PeriodicCallback(Function f, const PeriodicCallbackOptions& options, int)
    : memory_(new Memory{.call = std::move(f),
                         .action = {"periodic_callback", {options.every_steps, options.every_secs, options.on_steps}},
                         .execute_async = options.execute_async,
                         .worker = {}}) {}

bool PeriodicCallback::update(std::int64_t step, double t, const Logs& logs) {
  Memory& memory = *memory_;
  if (!memory.action(step, t)) return false;
  if (!memory.execute_async) {
    memory.call(step, t, logs);
    return true;
  }
  Logs fetched = logs;  // in this thread, because no other may use the device's stream
  fetched.fetch();
  memory.worker.submit([&memory, step, t, fetched = std::move(fetched)] { memory.call(step, t, fetched); });
  return true;
}

void PeriodicCallback::join() { memory_->worker.join(); }
void PeriodicCallback::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void PeriodicCallback::operator()(const Elapsed& elapsed, const Logs& logs) {
  update(elapsed.steps + 1, elapsed.date, logs);
}
void PeriodicCallback::on_end() { join(); }
void PeriodicCallback::persist(Archive& archive) { memory_->action.persist(archive); }

}  // namespace giro
