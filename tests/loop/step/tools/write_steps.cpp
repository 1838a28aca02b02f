// Trains each case that is compared with JAX for some steps: write_steps DEVICE jit|eager. Writes the losses and a
// checksum of the state that is left, a case a line, for tests/digests.py.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/giro.h>

#include "runtime/checksum.h"
#include "tests/kernels/nn/jax/cases.h"
#include "tests/kernels/precisions.h"
#include "tests/kernels/written.h"
#include "tests/support/saved_bytes.h"

namespace giro::nn {
namespace {

constexpr int kSteps = 3;

void write(const Case& of, Precision precision, const Device& device, bool is_jit) {
  TrainStateOptions options{.inputs = {}, .seed = 5, .context = device, .precision = precision};
  for (const Input& input : of.inputs) options.inputs.push_back({input.name, input.dtype, input.shape});
  // Ops have parameters, too: each floating input has one added to it, and a case without any has the loss's own.
  const auto loss_of = [&](Scope s, const Batch& batch) {
    Vars inputs;
    for (const Input& input : of.inputs) {
      const Var x = batch[input.name];
      inputs.push_back(is_floating(x.dtype()) ? x + s.param(input.name, x.shape(), zeros()) : x);
    }
    return sum(square(cast(of.layer(s, inputs).front(), DType::f32))) + square(s.param("shift", {}, ones()));
  };
  TrainState state = TrainState::create(loss_of, optim::adamw(0.01), options);

  test::Random random;
  test::Storage storage(state.stream());
  Batch::Features features;
  for (const Input& input : of.inputs) {
    const auto low = static_cast<std::int64_t>(input.low), high = static_cast<std::int64_t>(input.high);
    features.emplace_back(
        input.name, storage.upload(is_floating(input.dtype) ? random.uniform(input.shape, input.low, input.high)
                                                            : random.integers(input.shape, low, high, input.dtype)));
  }
  const Batch batch(features, state.stream());
  const auto body = [&](TrainState& s, const Batch& b) {
    const Var loss = s.value_and_grad([&](const Params& params) { return loss_of(params, b); });
    s.apply_gradients();
    return logs().add_metric("loss", loss);
  };
  std::vector<double> losses;
  const auto train = [&](const auto& step) {
    for (int i = 0; i < kSteps; ++i) losses.push_back(step(state, batch).entry_value("loss"));
  };
  is_jit ? train(jit(body)) : train(eager(body));
  detail::Checksum left;
  for (const auto& [path, bytes] : test::leaf_bytes(state)) left.add(bytes.data(), bytes.size());
  fmt::print("{}, {}\t{:a}, {}\n", of.name, name_of(precision), fmt::join(losses, ", "), left.digits());
}

}  // namespace
}  // namespace giro::nn

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const giro::Device device = giro::parse_device(argv[1], giro::discover_devices());
  const bool is_jit = std::string_view(argv[2]) == "jit";
  const bool has_bf16 = giro::test::computes_in(giro::Precision::bf16, device);
  for (const auto& cases : {giro::nn::op_cases(), giro::nn::loss_cases(), giro::nn::layer_cases()}) {
    for (const giro::nn::Case& of : cases) {
      giro::nn::write(of, giro::Precision::f32, device, is_jit);
      if (of.has_bf16 && has_bf16) giro::nn::write(of, giro::Precision::bf16, device, is_jit);
    }
  }
}
