// own_kernel: an op of your own in a recorded train step, with a CUDA kernel, a CPU version of it and a gradient.
//
// Fits a line to samples of which every tenth is an outlier. The squared error is misled by the outliers; the smooth L1
// loss, whose gradient is never larger than 1, hardly notices them.
//
//   own_kernel [auto | cpu | cuda]

#include <giro/giro.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace nn = giro::nn;
using giro::Tensor;

#if OWN_KERNEL_WITH_CUDA
// Both are in own_kernel.cu. They launch kernels on the stream, which may be recording.
void smooth_l1_cuda(const Tensor& losses, const std::vector<Tensor>& in, CUstream_st* stream);
void smooth_l1_slope_cuda(const Tensor& slopes, const std::vector<Tensor>& in, CUstream_st* stream);
#else
constexpr std::nullptr_t smooth_l1_cuda = nullptr, smooth_l1_slope_cuda = nullptr;
#endif

namespace {

constexpr float kBeta = 0.1f;  // below this difference the loss is quadratic, above it is linear

void smooth_l1_cpu(const Tensor& losses, const std::vector<Tensor>& in) {
  const float *predictions = in[0].data<float>(), *targets = in[1].data<float>();
  for (std::int64_t i = 0; i < losses.count(); ++i) {
    const float difference = std::abs(predictions[i] - targets[i]);
    losses.data<float>()[i] = difference < kBeta ? difference * difference / (2 * kBeta) : difference - kBeta / 2;
  }
}

void smooth_l1_slope_cpu(const Tensor& slopes, const std::vector<Tensor>& in) {
  const float *predictions = in[0].data<float>(), *targets = in[1].data<float>();
  for (std::int64_t i = 0; i < slopes.count(); ++i) {
    slopes.data<float>()[i] = std::clamp((predictions[i] - targets[i]) / kBeta, -1.0f, 1.0f);
  }
}

// The op, element by element. Its gradient uses ops of giro and another kernel; targets need none.
nn::Var smooth_l1(const nn::Var& predictions, const nn::Var& targets) {
  return nn::call("smooth_l1", {.shape = predictions.shape()}, {predictions, targets},
      {.cuda = smooth_l1_cuda, .cpu = smooth_l1_cpu, .vjp = [](auto&, auto& dy, auto& in) {
         const nn::Var slopes = nn::call("smooth_l1_slope", {.shape = dy.shape()}, {in[0], in[1]},
             {.cuda = smooth_l1_slope_cuda, .cpu = smooth_l1_slope_cpu});
         return std::vector{dy * slopes, nn::Var()};
       }});
}

nn::Var squared_error(const nn::Var& predictions, const nn::Var& targets) { return square(predictions - targets); }

// y = 3 x0 - 2 x1 + 1 and a little noise; every tenth y is 10 too high.
giro::Dataset samples() {
  struct Samples {
    std::vector<float> x, y;
  };
  constexpr std::int64_t kCount = 1'000;
  auto samples = std::make_shared<Samples>();
  std::mt19937 engine(0);
  const auto uniform = [&] { return static_cast<float>(engine() % 2'001) / 1'000 - 1; };
  for (std::int64_t i = 0; i < kCount; ++i) {
    const float x0 = uniform(), x1 = uniform();
    samples->x.insert(samples->x.end(), {x0, x1});
    samples->y.push_back(3 * x0 - 2 * x1 + 1 + 0.05f * uniform() + (i % 10 == 0 ? 10.0f : 0.0f));
  }
  return giro::Dataset({{"x", Tensor(samples->x.data(), giro::DType::f32, {kCount, 2}, giro::Device::cpu())},
                           {"y", Tensor(samples->y.data(), giro::DType::f32, {kCount, 1}, giro::Device::cpu())}},
      samples);
}

// The three numbers of the line with the smallest `loss`.
std::vector<float> fit_line(
    giro::Device device, const std::function<nn::Var(const nn::Var& predictions, const nn::Var& targets)>& loss) {
  const auto data = samples().shuffle(0).repeat().batch(100).to(device);
  const auto model = nn::sequential(nn::dense(1));
  auto state = giro::TrainState::create(model, giro::optim::adam(0.02), {.inputs = data.spec(), .context = device});
  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto mean_loss =
        state.value_and_grad([&](auto& params) { return mean(loss(model(params, batch["x"]), batch["y"])); });
    state.apply_gradients();
    return giro::logs().add_metric("loss", mean_loss);
  });
  auto [trained, history, elapsed] =
      giro::loop(std::move(state), data, {{giro::every(1), train_step}}, {.stop = giro::at(800)});

  std::vector<float> line = giro::to_host<float>(trained.at("params/dense0/kernel"), trained.stream());
  line.push_back(giro::to_host<float>(trained.at("params/dense0/bias"), trained.stream()).front());
  return line;
}

// The largest error of the three numbers.
float error_of(const std::vector<float>& line) {
  return std::max({std::abs(line[0] - 3), std::abs(line[1] + 2), std::abs(line[2] - 1)});
}

bool run(const std::string& device_name) {
  const giro::Device device = giro::parse_device(device_name, giro::discover_devices());
  const auto smooth = fit_line(device, smooth_l1), squared = fit_line(device, squared_error);
  const auto print = [](const char* loss, const std::vector<float>& line) {
    std::printf("%-14s y = %.3f x0 %+.3f x1 %+.3f, off by %.3f\n", loss, static_cast<double>(line[0]),
        static_cast<double>(line[1]), static_cast<double>(line[2]), static_cast<double>(error_of(line)));
  };
  std::printf("on %s\n", to_string(device).c_str());
  print("smooth L1:", smooth);
  print("squared error:", squared);
  return error_of(smooth) < 0.05f && error_of(squared) > 0.5f;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "auto") ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_kernel: %s\n", error.what());
    return 2;
  }
}
