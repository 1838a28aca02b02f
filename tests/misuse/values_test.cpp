// What has no value where one is needed.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/attention.h>
#include <giro/kernels/nn/cumulative.h>
#include <giro/kernels/nn/einsum.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/losses.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/nn/slice.h>
#include <giro/kernels/nn/sort.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/step.h>
#include <giro/loop/time/schedule.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/files/save_load.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/tensor.h>

#include "tests/misuse/misuse.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using nn::Var;
using test::batch;
using test::Misuse;
using test::state_of;

// A value of shape (2, 3), and what else an op takes.
struct Values {
  Stream stream{Device::cpu()};
  Var x = nn::constant(HostArray(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), stream);
  Var labels = nn::constant(HostArray(std::vector<std::int64_t>{0, 2}), stream);
  Var image = nn::constant(HostArray(std::vector<float>(16, 1.0f), {1, 4, 4, 1}), stream);
  Var heads = nn::constant(HostArray(std::vector<float>(8, 1.0f), {1, 2, 1, 4}), stream);
};

template <class F>
Misuse of_values(const char* name, F f, const char* word = "empty") {
  return {name, {word}, [f] {
            const Values v;
            (void)f(v);
          }};
}

std::vector<Misuse> empty_values() {
  const Var none;
  return {
      of_values("Add", [none](const Values& v) { return v.x + none; }),
      of_values("AddToNone", [none](const Values& v) { return none + v.x; }),
      of_values("Where", [none](const Values& v) { return where(v.x > 2, none, v.x); }),
      of_values(
          "Matmul", [none](const Values& v) { return matmul(v.x, none); }, "matmul"),
      of_values("Dense", [none](const Values& v) { return dense(v.x, none, none); }),
      of_values(
          "Conv2d", [none](const Values& v) { return conv2d(v.image, none, none, {}); }, "conv2d"),
      of_values(
          "MaxPool",
          [none](const Values& v) {
            return max_pool(none.on(v.stream), {.window = {2, 2}});
          },
          "pooling"),
      of_values(
          "AvgPool",
          [none](const Values& v) {
            return avg_pool(none.on(v.stream), {.window = {2, 2}});
          },
          "pooling"),
      of_values(
          "Softmax", [none](const Values& v) { return softmax(none.on(v.stream)); }, "softmax"),
      of_values("Mean", [none](const Values& v) { return mean(none.on(v.stream)); }),
      of_values(
          "MeanWithoutStream", [none](const Values&) { return mean(none); }, "no stream"),
      of_values(
          "Activation", [none](const Values&) { return relu(none); }, "no stream"),
      of_values("Cast", [none](const Values& v) { return cast(none.on(v.stream), DType::bf16); }),
      of_values("BroadcastTo",
                [none](const Values& v) {
                  return nn::broadcast_to(none.on(v.stream), {2, 2});
                }),
      of_values("CrossEntropyOfNone", [none](const Values& v) { return softmax_cross_entropy(none, v.labels); }),
      of_values("CrossEntropyWithoutLabels", [none](const Values& v) { return softmax_cross_entropy(v.x, none); }),
      of_values("WeightedMean", [none](const Values& v) { return nn::weighted_mean(v.x, none); }),
      of_values("Accuracy", [none](const Values& v) { return accuracy(v.x, none); }),
      of_values("TopK", [none](const Values& v) { return nn::top_k_accuracy(none, v.labels, 1); }),
      of_values("Take", [none](const Values& v) { return nn::take(v.x, none); }),
      of_values("Embedding", [none](const Values& v) { return nn::embedding(v.labels, none); }),
      of_values(
          "Concatenate",
          [none](const Values& v) {
            return nn::concatenate({v.x, none});
          },
          "concatenate"),
      of_values("Stack",
                [none](const Values& v) {
                  return nn::stack({none.on(v.stream), none});
                }),
      of_values("Einsum",
                [none](const Values& v) {
                  return nn::einsum("ij,->ij", {v.x, none});
                }),
      of_values(
          "CumulativeSum", [none](const Values& v) { return nn::cumulative_sum(none.on(v.stream), 0); },
          "cumulative_sum"),
      of_values(
          "Sort", [none](const Values& v) { return nn::sort(none.on(v.stream)); }, "sort"),
      of_values("Attention", [none](const Values& v) { return dot_product_attention(v.heads, none, v.heads); }),
      of_values("Remat",
                [none](const Values& v) { return nn::remat([](const Var& x) { return x * 2; }, none.on(v.stream)); }),
      of_values(
          "Backward",
          [none](const Values& v) {
            nn::backward(none.on(v.stream));
            return 0;
          },
          "no parameter"),
      of_values(
          "Gradients", [none](const Values& v) { return nn::gradients(sum(v.x), {none}); }, "no parameter"),
      of_values("Data", [none](const Values&) { return *none.data<float>(); }),
      of_values("LogMetric", [none](const Values&) { return logs().add_metric("loss", none); }),
      of_values("LogLoss", [none](const Values&) { return logs().add_loss("loss", none, true); }),
      of_values("LogOutput", [none](const Values&) { return logs().add_output("logits", none); }),
      of_values("LogCounted",
                [none](const Values&) {
                  return logs().add_metric("loss", nn::Metric{none, none});
                }),
  };
}

TEST(Misuse, OfEmptyValues) { test::expect_errors(empty_values()); }

std::vector<Misuse> in_steps() {
  return {
      {"LayerOfNone",
       {"dense(2)"},
       [] {
         TrainState state = state_of(nn::dense(2));
         (void)state.model()(state.params(), Var());
       }},
      {"LossIsNone",
       {"no parameter"},
       [] {
         TrainState state = state_of(nn::dense(2));
         state.value_and_grad([](const nn::Params&) { return Var(); });
       }},
      {"LogOfAStep",
       {"metrics.loss", "empty"},
       [] {
         TrainState state = state_of(nn::dense(2));
         jit([](TrainState&, const Batch&) { return logs().add_metric("loss", Var()); })(state, batch());
       }},
      {"FeatureIsNone",
       {"x", "empty"},
       [] {
         TrainState state = state_of(nn::dense(2));
         jit([](TrainState&, const Batch& batch) { return logs().add_metric("mean", mean(batch["x"])); })(
             state, Batch(Batch::Features{{"x", Tensor()}}));
       }},
      {"FeatureOfADataset",
       {"x"},
       [] {
         (void)Dataset(Batch::Features{{"x", Tensor()}}).batch(1).spec();
       }},
      {"ArrayOfNone",
       {"empty"},
       [] {
         (void)Batch({{"x", HostArray(Tensor(), nullptr)}});
       }},
      {"VariableIsNone",
       {"stats/seen"},
       [] {
         struct Counting {
           Var operator()(nn::Scope& s, const Var& x) const {
             const auto seen = s.variable("stats", "seen", {3}, nn::zeros());
             seen.set(Var());
             return x;
           }
         };
         (void)state_of(nn::Layer(Counting{}));
       }},
  };
}
TEST(Misuse, OfEmptyValuesInSteps) { test::expect_errors(in_steps()); }

std::vector<Misuse> null_tensors() {
  static const Stream stream(Device::cpu());
  static const Buffer memory = Buffer::allocate(Device::cpu(), 64);
  static const Tensor three(memory.data(), DType::f32, {3}, Device::cpu());
  static const Tensor one(memory.data(), DType::f32, {}, Device::cpu());
  return {
      {"WithAShape", {"f32(3,)", "null"}, [] { (void)Tensor(nullptr, DType::f32, {3}, Device::cpu()); }},
      {"Scalar", {"f64()", "null"}, [] { (void)Tensor(nullptr, DType::f64, {}, Device::cpu()); }},
      {"OfANullBuffer", {"f32(3,)", "null"}, [] { (void)Tensor(std::shared_ptr<const Buffer>(), DType::f32, {3}); }},
      {"OfAnEmptyBuffer", {"f32(3,)", "null"}, [] { (void)Tensor(std::make_shared<const Buffer>(), DType::f32, {3}); }},
      {"WithoutElements",
       {},
       [] {
         (void)Tensor(nullptr, DType::f32, {3, 0}, Device::cpu());
       }},
      {"CopyFrom", {"empty"}, [] { copy(one, Tensor(), stream); }},
      {"CopyTo", {"empty"}, [] { copy(Tensor(), one, stream); }},
      {"ToHost", {"empty"}, [] { (void)to_host<float>(Tensor(), stream); }},
      {"FromHost", {"empty"}, [] { from_host<float>(Tensor(), {1}, stream); }},
      {"CopyOf", {"empty"}, [] { (void)HostArray::copy_of(Tensor(), stream); }},
      {"Fill", {"empty"}, [] { fill(Tensor(), 1, stream); }},
      {"Scale", {"empty"}, [] { scale(one, Tensor(), 2, stream); }},
      {"CastTo", {"empty"}, [] { cast(Tensor(), one, stream); }},
      {"AddOf", {"empty"}, [] { add(three, three, Tensor(), stream); }},
      {"Increment", {"empty"}, [] { increment(Tensor(), 1, stream); }},
      {"SaveAsSafetensors",
       {"a", "empty"},
       [] {
         const test::TemporaryDirectory dir;
         save(dir / "none.safetensors", {{"a", Tensor()}});
       }},
  };
}
TEST(Misuse, OfNullTensors) { test::expect_errors(null_tensors()); }

}  // namespace
}  // namespace giro
