#include <giro/kernels/nn/layer.h>

#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

const std::vector<Var>& Layer::expect(const std::vector<Var>& inputs, std::size_t count) {
  if (inputs.size() == count) return inputs;
  throw_invalid("the layer takes {} value{}, found {}", count, count == 1 ? "" : "s", inputs.size());
}

std::vector<Var> Layer::apply(Scope& s, const std::vector<Var>& inputs, std::source_location where) const {
  const detail::CallSite site(where);
  return s.run([&] {
    if (self_->is_builtin) return self_->call(s, inputs);
    const auto user_code = detail::CallSite::of_user_code();
    return self_->call(s, inputs);
  });
}

Layer shared(const Layer& layer) {
  if (layer.is_shared()) return layer;
  Layer::Self self = *layer.self_;
  self.owner = std::make_shared<char>();
  return Layer(std::move(self));
}

Var Layer::only(std::vector<Var> results) const {
  if (results.size() == 1) return std::move(results.front());
  throw_invalid("the layer '{}' returns {} values, expected one; call it with a vector", name(), results.size());
}

std::vector<Var> Layer::operator()(const Params& params, const std::vector<Var>& inputs,
                                   std::source_location where) const {
  std::vector<Var> on_stream;
  for (const Var& x : inputs) on_stream.push_back(x.on(params.stream()));
  Scope root = params;
  return apply(root, on_stream, where);
}

Var Layer::operator()(const Params& params, const Var& x, std::source_location where) const {
  return only((*this)(params, std::vector{x}, where));
}

std::vector<Var> Layer::operator()(const Scope& s, const std::vector<Var>& inputs, const CallPlace& at) const {
  Scope child = is_shared() ? s.child_of(self_->owner, name(), at, inputs) : s.numbered_child(name(), at, inputs);
  std::vector<Var> results = apply(child, inputs, at.where());
  s.note_results(at, results);
  return results;
}

Var Layer::operator()(const Scope& s, const Var& x, const CallPlace& at) const {
  return only((*this)(s, std::vector{x}, at));
}

}  // namespace giro::nn
