#include <giro/loop/inner_loop.h>

namespace giro::detail {

void restore(const State& state, const Snapshot& before) {
  if (!state.moved_from()) before.write_back(state);  // a state that was moved away is lost
}

Logs renamed(const Logs& logs, const std::string& name) {
  Logs result;
  for (const Logs::Entry& entry : logs.entries()) {
    result.add_entry(entry.collection, entry.name + "_" + name, entry.value);
  }
  return result;
}

}  // namespace giro::detail
