#include <giro/loop/inner_loop.h>

#include "runtime/throw_error.h"

namespace giro::detail {

void restore(const State& state, const Snapshot& before) {
  if (!state.moved_from()) before.write_back(state);  // a state that was moved away is lost
}

void reject_used_up_dataset(const std::string& inner_loop) {
  throw_invalid(
      "inner_loop{}: its dataset had batches before and has none now, expected a range that can be traversed again, or "
      "a new one each time",
      inner_loop.empty() ? "" : " '" + inner_loop + "'");
}

Logs renamed(const Logs& logs, const std::string& name) {
  LogSchema schema;
  for (std::size_t i = 0; i < logs.schema().size(); ++i) {
    const LogSchema::Key& key = logs.schema()[i];
    schema.add(key.collection, key.name + "_" + name, logs.schema().role(i));
  }
  return Logs(std::move(schema), logs.values());
}

}  // namespace giro::detail
