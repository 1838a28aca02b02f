#include <giro/callbacks/jaxloop/outputs.h>

#include <numeric>

#include "runtime/internal/text.h"
#include "runtime/internal/throw_error.h"

namespace giro::jaxloop {

const std::vector<double>& LoopOutputs::operator[](const std::string& name) const {
  const auto found = scalars.find(name);
  if (found != scalars.end()) return found->second;
  throw_error(ErrorCode::not_found, "no number '{}' in the outputs{}", name, suggestion(name, scalars));
}

double LoopOutputs::mean(const std::string& name) const {
  const std::vector<double>& values = (*this)[name];
  if (values.empty()) throw_invalid("'{}' has no values to average", name);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace giro::jaxloop
