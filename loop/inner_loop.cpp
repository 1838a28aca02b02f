#include <giro/loop/inner_loop.h>

#include <cstddef>

namespace giro::detail {

void restore(const State& state, const State& before) {
  if (state.collections().size() != before.collections().size()) return;  // it was moved away, and lost
  for (std::size_t i = 0; i < state.collections().size(); ++i) {
    const Tensor to = state.collections()[i]->bytes(), from = before.collections()[i]->bytes();
    state.stream().copy(to.raw(), from.raw(), to.bytes());
  }
}

Logs renamed(const Logs& logs, const std::string& name) {
  Logs result;
  for (const Logs::Entry& entry : logs.entries()) {
    result.add_entry(entry.collection, entry.name + "_" + name, entry.value);
  }
  return result;
}

}  // namespace giro::detail
