#include <giro/loop/inner_loop.h>

namespace giro::detail {

void restore(const State& state, const Snapshot& before) {
  if (!state.moved_from()) before.write_back(state);  // a state that was moved away is lost
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
