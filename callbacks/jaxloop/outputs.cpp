#include <giro/callbacks/jaxloop/outputs.h>

#include <cstddef>
#include <numeric>
#include <optional>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::jaxloop {
namespace {

// The first of the combined numbers, or arrays, of a name.
std::optional<LogValue> find(const CombinedLogs& combined, const std::string& name, bool is_array) {
  for (std::size_t i = 0; i < combined.schema().size(); ++i) {
    if (combined.schema()[i].name != name) continue;
    const LogValue value = combined.value(i);
    if ((value.array() != nullptr) == is_array) return value;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<double>& LoopOutputs::operator[](const std::string& name) const& {
  const auto found = scalars.find(name);
  if (found != scalars.end()) return found->second;
  throw_error(ErrorCode::not_found, "no number '{}' in the outputs{}", name, suggestion(name, scalars));
}

double LoopOutputs::mean(const std::string& name) const {
  const std::vector<double>& values = (*this)[name];
  if (values.empty()) throw_invalid("'{}' has no values to average", name);
  if (const std::optional<LogValue> all = find(combined, name, false)) return all->value();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

HostArray LoopOutputs::array(const std::string& name) const {
  const auto found = arrays.find(name);
  if (found == arrays.end())
    throw_error(ErrorCode::not_found, "no array '{}' in the outputs{}", name, suggestion(name, arrays));
  if (found->second.empty()) throw_invalid("'{}' has no arrays", name);
  const std::optional<LogValue> all = find(combined, name, true);
  return all ? *all->array() : found->second.back();
}

}  // namespace giro::jaxloop
