#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/optim/update.h>

#include "kernels/expr/build.h"

namespace giro::optim {

// A state collection that an optimizer reads and updates.
struct Moment {
  std::string name;
  std::optional<Shape> shape = {};  // default: the parameter's
  double initial = 0;
  bool copies_param = false;  // before the first update
};

// What an optimizer's function requested in one run.
struct UpdateNeeds {
  std::vector<Moment> moments;
  bool norm = false;
  std::vector<LearningRate> rates;
  std::vector<double> numbers;  // the constants of its expression
};

// Runs the function for a leaf of this shape without computing anything.
UpdateNeeds needs_of(const Optimizer& optimizer, const Shape& leaf, const Stream& stream);
// One update of a single leaf by a per-leaf optimizer. The tensors have the leaf's shape.
void update_leaf(const Optimizer& optimizer, const UpdateTensors& tensors, bool decays, const Stream& stream);
// Adds 1 / `steps` of a step's gradients to the buffer `sum`, in one launch; the first of `steps` steps overwrites it.
// `tensors` belong to an update before its gradients are averaged.
void accumulate(int steps, const Tensor& sum, UpdateTensors tensors, const Stream& stream);

// One run of an optimizer's function. The values are an expression over flat buffers, or Vars of a single leaf.
struct UpdateFrame {
  struct UpdatedValue {
    std::string name;
    Tensor memory;
    Value before, now;
    bool is_set = false;
  };

  UpdateFrame(const Optimizer& optimizer, const UpdateTensors& tensors, const Stream& stream);

  void run(const Optimizer& optimizer);
  // Queues the writes of everything that the function has set.
  void finish();

  Value scalar(const Tensor& leaf);
  Value in_f32(const Value& value);
  Value elements(const Tensor& buffer);
  UpdatedValue& kept(const Moment& moment);
  // Steps that were not skipped, and updates before this one, as whole numbers.
  Value steps();
  Value updates();
  Value& param();
  Value grad();

  const UpdateTensors& t;
  const Stream& stream;
  std::optional<expr::Builder> code;  // none: Vars
  Shape space;
  int every;
  bool leaf_decays = true;       // for a single leaf
  UpdateNeeds* needs = nullptr;  // in a dry run
  std::vector<std::pair<const void*, Value>> scalars;
  std::vector<UpdatedValue> moments;
  std::optional<UpdatedValue> params;
  std::optional<Value> gradient, gradient_scale;  // as set
  bool gradient_is_changed = false, has_rate = false;
  std::vector<std::shared_ptr<const Buffer>> memory;  // of the moments in a dry run
};

}  // namespace giro::optim
