#include "kernels/functors/update.h"

#include "kernels/cpu/for_each.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {
namespace {

// Calls f(begin, end, decay) for runs of [begin, end) that share one decay.
template <class F>
void for_each_run(std::int64_t begin, std::int64_t end, const std::uint8_t* decays, float decay, const F& f) {
  if (decays == nullptr) return f(begin, end, decay);
  constexpr std::int64_t kGranule = optim::UpdateTensors::kGranule;
  while (begin < end) {
    const std::uint8_t masked = decays[begin / kGranule];
    std::int64_t stop = begin + kGranule;
    while (stop < end && decays[stop / kGranule] == masked) stop += kGranule;
    f(begin, std::min(stop, end), masked ? decay : 0.0f);
    begin = stop;
  }
}

}  // namespace

void update(const optim::UpdateRule& rule, const optim::UpdateTensors& t, const Stream& stream) {
  submit(stream, [rule, n = t.params.count(), params = t.params.data<float>(), grads = t.grads.data<float>(),
                  mu = t.mu ? t.mu.data<float>() : nullptr, nu = t.nu ? t.nu.data<float>() : nullptr,
                  decays = t.decays ? t.decays.data<std::uint8_t>() : nullptr, step = t.step.data<std::int64_t>(),
                  rate = t.learning_rate.data<float>(),
                  squared_norm = t.squared_norm ? t.squared_norm.data<float>() : nullptr,
                  loss_scale = t.loss_scale ? t.loss_scale.data<float>() : nullptr,
                  skipped = t.skipped ? t.skipped.data<std::int64_t>() : nullptr] {
    const auto c = functors::UpdateCoefficients::at(rule, step, squared_norm, loss_scale, skipped);
    *rate = c.learning_rate;
    if (c.skips) return;
    for_each_block(n, kBlock, n, [&](std::int64_t block_begin, std::int64_t block_end) {
      for_each_run(block_begin, block_end, decays, c.decay, [&](std::int64_t begin, std::int64_t end, float decay) {
        if (rule.rule == optim::Rule::adam) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            functors::adam_element(c, decay, params[i], grads[i], mu[i], nu[i]);
          }
        } else if (mu != nullptr) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            functors::sgd_element(c, rule.nesterov, decay, params[i], grads[i], mu + i);
          }
        } else {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            functors::sgd_element(c, false, decay, params[i], grads[i], nullptr);
          }
        }
      });
    });
  });
}

void update_and_publish(const optim::UpdateRule& rule, const optim::UpdateTensors& tensors, const RowRing& ring,
                        const Tensor& row, const RowPart& part, const Stream& stream) {
  cpu::update(rule, tensors, stream);
  cpu::publish_columns(ring, row, part, stream);
}

}  // namespace giro::cpu
