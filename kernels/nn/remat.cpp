#include <giro/kernels/nn/remat.h>

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

namespace giro::nn {

Var remat(std::function<Var(const Var&)> f, const Var& x) {
  using Node = Var::Node;
  const std::uint64_t since = Var::next_number();
  const Var y = f(x);
  if (!y.requires_grad() || y.node_->number < since) return y;

  // What was there before f and wants a gradient of it.
  std::vector<Var> inputs;
  std::unordered_set<const Node*> seen;
  std::vector<Var> reached{y};
  while (!reached.empty()) {
    const Var var = std::move(reached.back());
    reached.pop_back();
    for (const Var& input : var.node_->inputs) {
      if (!input.requires_grad() || !seen.insert(input.node_.get()).second) continue;
      (input.node_->number < since ? inputs : reached).push_back(input);
    }
  }

  Var result(y.value());
  Node& node = *result.node_;
  node.storage = y.node_->storage;
  node.stream = y.node_->stream;
  node.math = y.node_->math;
  node.grad_dtype = y.node_->grad_dtype;
  node.requires_grad = true;
  node.inputs = std::move(inputs);
  // The node is there as long as its way back is.
  node.backward = [f = std::move(f), x, &node](const Tensor&, const Tensor& dy, const Stream&) {
    const std::uint64_t again_since = Var::next_number();
    const Var again = f(x);
    Var::go_back(again, again_since, [&] { again.accumulate_view(dy, node.grad_storage); }, {});
  };
  return result;
}

namespace {

struct Remat {
  Layer layer;
  std::string name() const { return layer.name(); }
  Shape init(ParamSpecs& specs, const Shape& input) const { return layer.init(specs, input); }
  Var apply(const Params& params, const Var& x) const {
    return remat([inner = layer, params](const Var& h) { return inner.apply(params, h); }, x);
  }
};

}  // namespace

Layer remat(Layer layer) { return Remat{std::move(layer)}; }

}  // namespace giro::nn
