#include <giro/loop/predefined_loops.h>

#include <algorithm>

#include <giro/runtime/error.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

LoopEvent event_of(std::string_view name) {
  const auto found = std::find(kEventNames.begin(), kEventNames.end(), name);
  if (found == kEventNames.end()) {
    const std::vector<std::string> known(kEventNames.begin(), kEventNames.end());
    throw_error(ErrorCode::not_found, "no event '{}'{}", name, suggestion(name, known));
  }
  return static_cast<LoopEvent>(found - kEventNames.begin());
}

namespace detail {
void reject_missing_step(LoopEvent step) {
  throw_invalid(
      "there is no {0}, so the steps would run nothing: expected a task {{\"{0}\", ...}}, or a "
      "member of that name in the state or a callback",
      to_string(step));
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

}  // namespace detail
}  // namespace giro
