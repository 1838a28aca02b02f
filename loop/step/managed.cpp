#include <giro/loop/step/managed.h>

#include <map>
#include <mutex>
#include <optional>

#include <giro/kernels/nn/functional.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::managed {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Strategy> strategies{{"eager", {.recorded = false}},
                                             {"jit", {.recorded = true}},
                                             {"jit_donate", {.recorded = true}},
                                             {"data_parallel", {.data_parallel = true}},
                                             {"data_parallel_donate", {.data_parallel = true}}};
};
Registry& registry() {
  static Registry registry;
  return registry;
}

}  // namespace

Strategy strategy(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.strategies.find(name);
  if (found != all.strategies.end()) return found->second;
  throw_error(ErrorCode::not_found, "no strategy '{}'{}", name, suggestion(name, all.strategies));
}

void register_strategy(const std::string& name, Strategy strategy) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (name.empty() || !all.strategies.emplace(name, std::move(strategy)).second) {
    throw_invalid("register_strategy: expected a new name, found '{}'", name);
  }
}

nn::Var detail::total_loss(const Logs& logs, std::source_location where) {
  std::optional<nn::Var> total;
  for (const Logs::Entry& entry : logs.entries()) {
    if (entry.collection != "losses") continue;
    const nn::Var* const loss = entry.value.scalar();
    if (loss == nullptr) {
      throw_invalid("managed::train_step: the loss '{}' is a host number, expected a Var", entry.name);
    }
    if (loss->shape() != Shape{}) {
      throw_error(ErrorCode::shape_mismatch, "managed::train_step: the loss '{}' is {}, expected a scalar", entry.name,
                  to_string(loss->value()));
    }
    total = total ? nn::add({*total, where}, *loss) : *loss;
  }
  if (!total) throw_invalid("managed::train_step: expected at least one loss (add_loss), found none");
  return *total;
}

}  // namespace giro::managed
