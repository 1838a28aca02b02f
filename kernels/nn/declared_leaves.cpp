#include "kernels/nn/declared_leaves.h"

#include <giro/runtime/program/graph.h>

#include "kernels/nn/call_order.h"
#include "kernels/nn/store.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro::nn {

std::vector<DeclaredLeaf> declared_leaves(
    const std::function<void(const Params&, const std::vector<std::pair<std::string, Tensor>>&)>& model,
    const std::vector<LeafSpec>& inputs, ScopeValues values) {
  const Stream stream = values.stream;
  const auto call = [&] {
    std::vector<Var> memory;
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const LeafSpec& input : inputs) {
      tensors.emplace_back(input.name, memory.emplace_back(uninitialized(input.dtype, input.shape, stream)).value());
    }
    values.key = [key = uninitialized(DType::i64, {}, stream)] { return key; };
    values.declared = std::make_shared<std::vector<DeclaredLeaf>>();
    model(Params(values), tensors);
  };
  detail::Recording::dry_run(stream, call);
  if (!values.order) return std::move(*values.declared);
  if (!values.order->unclear.empty()) {
    throw_invalid(
        "the model's leaves cannot be named: {}, as in a macro's argument, and C++ may evaluate them in any order; "
        "expected statements of their own",
        values.order->unclear);
  }
  // Once the calls' order is known, they get other numbers if they were evaluated in another one.
  values.order->is_known = true;
  if (!values.order->numbers.empty()) detail::Recording::dry_run(stream, call);
  return std::move(*values.declared);
}

}  // namespace giro::nn
