#include <giro/kernels/nn/call.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/support/environment_setting.h"
#if GIRO_WITH_CUDA
#include "tests/kernels/nn/own_kernels.h"
#endif

namespace giro::nn {
namespace {

using test::Array;
using In = std::vector<Tensor>;

class CallTest : public GradientTest {
 protected:
  // Functions for both devices: `kernel(stream)` on a GPU, element(i) on the CPU.
  template <class Kernel, class Element>
  static CallFunctions bodies(const Kernel& kernel, const Element& element) {
    return {.cuda = [=](auto& out, auto& in, CUstream_st* stream) { kernel(out, in, stream); },
            .cpu =
                [=](auto& out, auto& in) {
                  float* values = out.template data<float>();
                  for (std::int64_t i = 0; i < out.count(); ++i) values[i] = element(i, in);
                }};
  }
  static float at(const Tensor& tensor, std::int64_t i) { return tensor.data<float>()[i]; }

  // x^2 w, without a gradient.
  static CallFunctions bend_functions() {
    return bodies(
        []([[maybe_unused]] const Tensor& out, [[maybe_unused]] const In& in, [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
          test::bend(out.data<float>(), in[0].data<float>(), in[1].data<float>(), out.count(), stream);
#endif
        },
        [](std::int64_t i, const In& in) { return at(in[0], i) * at(in[0], i) * at(in[1], i); });
  }
  // Its gradients, as separate kernels.
  static Var bend_dx(const Var& dy, const Var& x, const Var& w) {
    return call("bend_dx", {.shape = x.shape()}, {dy, x, w},
                bodies(
                    []([[maybe_unused]] const Tensor& out, [[maybe_unused]] const In& in,
                       [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
                      test::bend_dx(out.data<float>(), in[0].data<float>(), in[1].data<float>(), in[2].data<float>(),
                                    out.count(), stream);
#endif
                    },
                    [](std::int64_t i, const In& in) { return at(in[0], i) * 2 * at(in[1], i) * at(in[2], i); }));
  }
  static Var bend_dw(const Var& dy, const Var& x) {
    return call("bend_dw", {.shape = x.shape()}, {dy, x},
                bodies(
                    []([[maybe_unused]] const Tensor& out, [[maybe_unused]] const In& in,
                       [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
                      test::bend_dw(out.data<float>(), in[0].data<float>(), in[1].data<float>(), out.count(), stream);
#endif
                    },
                    [](std::int64_t i, const In& in) { return at(in[0], i) * at(in[1], i) * at(in[1], i); }));
  }
  static Var bend(const Var& x, const Var& w, decltype(CallFunctions::vjp) vjp) {
    CallFunctions functions = bend_functions();
    functions.vjp = std::move(vjp);
    return call("bend", {.shape = x.shape()}, {x, w}, std::move(functions));
  }
  static Var bend(const Var& x, const Var& w) {
    return bend(x, w, [](auto&, auto& dy, auto& in) {
      return std::vector{bend_dx(dy, in[0], in[1]), bend_dw(dy, in[0])};
    });
  }

  Tensor ones() { return upload({DType::f32, {3}, {1, 1, 1}}); }
  // Expects an error when the op's vjp returns `terms`.
  void expect_rejected(ErrorCode code, std::initializer_list<std::string> words,
                       const std::function<Gradients(const Var& dy)>& terms) {
    const Tensor values = ones();
    expect_error(code, words, [&] {
      const Var x = Var::parameter(values, tensor({3}), stream());
      backward(sum(bend(x, Var(values), [&](auto&, auto& dy, auto&) { return terms(dy); })));
    });
  }
};

TEST_P(CallTest, GradientsByUserKernels) {
  const Array x = random_.uniform({5, 17}), w = random_.uniform({5, 17});
  check("x^2 w", {x, w}, [](const Vars& p) { return bend(p[0], p[1]); });
  check("x^2 x", {x}, [](const Vars& p) { return bend(p[0], p[0]); });
  check("x^2 w of computed values", {x, w}, [](const Vars& p) { return bend(tanh(p[0]), sigmoid(p[1])); });
  check("x^2 w, used twice", {x, w}, [](const Vars& p) {
    const Var y = bend(p[0], p[1]), h = tanh(y);
    return bend(h, y) + h;
  });
  const Tensor constant = upload(w);
  check("x^2 constant", {x}, [&](const Vars& p) { return bend(p[0], constant); });
  check("constant^2 w", {x}, [&](const Vars& p) { return bend(constant, p[0]); });
}

TEST_P(CallTest, GradientsByOps) {
  const Array x = random_.uniform({5, 17}), w = random_.uniform({5, 17});
  check("x^2 w", {x, w}, [](const Vars& p) {
    return bend(p[0], p[1], [](auto&, auto& dy, auto& in) {
      return std::vector{2 * dy * in[0] * in[1], dy * square(in[0])};
    });
  });
  const Tensor constant = upload(w);
  check("no gradient for a constant", {x}, [&](const Vars& p) {
    return bend(p[0], constant, [](auto&, auto& dy, auto& in) { return std::vector{2 * dy * in[0] * in[1], Var()}; });
  });
}

// A vjp may return dy itself, one value for two inputs, or a value that it keeps. The inputs' backward passes overwrite
// the gradients that they get, but must not see each other's writes.
TEST_P(CallTest, GradientsPassedThrough) {
  std::vector<float> y_seen, y;
  std::vector<Var> kept;
  const std::vector<decltype(CallFunctions::vjp)> vjps{[](auto&, auto& dy, auto&) {
                                                         return std::vector{scale(dy, 1.0), scale(dy, 1.0)};
                                                       },
                                                       [](auto&, auto& dy, auto&) {
                                                         return std::vector{dy, dy};
                                                       },
                                                       [](auto&, auto& dy, auto&) -> Gradients {
                                                         return {dy.reshape({20}).reshape({4, 5}), dy};
                                                       },
                                                       [](auto&, auto& dy, auto&) {
                                                         const Var d = scale(dy, 1.0);
                                                         return std::vector{d, d};
                                                       },
                                                       [](auto&, auto& dy, auto&) {
                                                         const Var d = scale(dy, 1.0);
                                                         return std::vector{d.reshape({4, 5}), d.reshape({4, 5})};
                                                       },
                                                       [&](auto& out, auto& dy, auto&) {
                                                         y_seen = to_host<float>(out.value(), out.stream());
                                                         kept = {scale(dy, 1.0), scale(dy, 1.0)};
                                                         return kept;
                                                       }};
  const Array x = random_.uniform({4, 3}), w = random_.uniform({3, 5}), bias = random_.uniform({5});
  const Array v = random_.uniform({3, 5}), weights = random_.uniform({4, 5});
  std::optional<std::vector<std::vector<float>>> first;
  for (const auto& vjp : vjps) {
    const auto actual = gradients(
        {x, w, bias, v},
        [&](const Vars& p) {
          const Var a = dense(p[0], p[1], p[2], Activation::tanh);
          const Var b = dense(p[0], p[3], p[2], Activation::sigmoid);
          const Var result = bend(a, b, vjp);
          y = to_host<float>(result.value(), stream());
          return result;
        },
        weights);
    if (!first) first = actual;
    EXPECT_EQ(actual, *first) << "vjp " << &vjp - vjps.data();
  }
  EXPECT_EQ(y_seen, y);
  // The kept values are unchanged: weights times 1.
  for (const Var& term : kept) {
    const std::vector<float> values = to_host<float>(term.value(), stream());
    EXPECT_EQ(std::vector<double>(values.begin(), values.end()), weights.values);
  }
}

TEST_P(CallTest, RunsAtEachReplay) {
  const Tensor x = upload({DType::f32, {3}, {1, 2, 3}}), w = upload({DType::f32, {3}, {1, 1, -1}});
  const Tensor y = tensor({3}), dx = tensor({3}), dw = tensor({3});
  const auto body = [&] {
    const Var a = Var::parameter(x, dx, stream()), b = Var::parameter(w, dw, stream());
    const Var result = bend(a, b);
    copy(y, result.value(), stream());
    backward(sum(result));
  };
  const Graph graph = Graph::record(stream(), body);
  for (const float last : {3.0f, 5.0f, 7.0f}) {
    from_host(x, std::vector<float>{1, 2, last}, stream());
    graph.replay(stream(), 2);
    const auto recorded =
        std::vector{to_host<float>(y, stream()), to_host<float>(dx, stream()), to_host<float>(dw, stream())};
    EXPECT_EQ(recorded,
              (std::vector<std::vector<float>>{{1, 4, -last * last}, {2, 4, -2 * last}, {1, 4, last * last}}));
    for (const Tensor& result : {y, dx, dw}) stream().fill(result.raw(), 0xFF, result.bytes());
    body();
    EXPECT_EQ(recorded,
              (std::vector{to_host<float>(y, stream()), to_host<float>(dx, stream()), to_host<float>(dw, stream())}));
  }
}

TEST_P(CallTest, RulesTreatItLikeAnyOp) {
  const Tensor x = upload({DType::f32, {3}, {1, 2, 3}}), w = upload({DType::f32, {3}, {1, 1, -1}}), y = tensor({3});
  const auto ops = [&](const std::function<void()>& body) {
    std::vector<std::string> names;
    const Graph graph = rules::record(stream(), body);
    for (const Program::Node& node : graph.program().nodes()) names.push_back(node.op);
    stream().fill(y.raw(), 0xFF, y.bytes());
    graph.replay(stream());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ops([&] { (void)bend(Var(x, stream()), Var(w, stream())); }), Names{}) << "nobody reads it";
  EXPECT_EQ(ops([&] { copy(y, bend(Var(x, stream()), Var(w, stream())).value(), stream()); }), Names{"bend"})
      << "written to where it was to be copied";
  EXPECT_EQ(to_host<float>(y, stream()), (std::vector<float>{1, 4, -9}));
  // An op's name has no effect on what it does.
  EXPECT_EQ(ops([&] {
              const Var twice = Var(x, stream()) * 2;
              const Var bent = call("copy", {.shape = {3}}, {twice, Var(w, stream())}, bend_functions());
              copy(y, (bent + 1).value(), stream());
            }),
            (Names{"multiply", "copy", "add"}));
  EXPECT_EQ(to_host<float>(y, stream()), (std::vector<float>{5, 17, -35}));
}

class CpuCallTest : public CallTest {};

TEST_P(CpuCallTest, HostFunctionIsCalledOncePerRun) {
  const Var x(tensor({2}), stream());
  int calls = 0;
  const auto count = [&] {
    call("count", {.dtype = DType::i32}, {x, Var()}, {.cpu = [&](auto& out, auto& in) {
           EXPECT_FALSE(in[1]) << "an argument that is not there";
           *out.template data<std::int32_t>() = ++calls;
         }});
  };
  count();
  EXPECT_EQ(calls, 1);
  const Graph graph = Graph::record(stream(), count);
  EXPECT_EQ(calls, 1);
  graph.replay(stream(), 7);
  EXPECT_EQ(calls, 8);
}

TEST_P(CpuCallTest, FunctionThatChangesAnInputIsFound) {
  const Var x(tensor({1, 2}), stream()), y(tensor({3}), stream());
  int line = 0;
  const auto mine = [&](bool changes) {
    line = __LINE__ + 1;
    call("mine", {}, {x, Var(), y}, {.cpu = [changes](auto& out, auto& in) {
           *out.template data<float>() = 1;
           if (changes) in[2].template data<float>()[0] += 1;
         }});
  };
  const test::EnvironmentSetting verify("GIRO_VERIFY", "1");
  mine(false);
  const std::string found = "'mine': its function changed input 2, f32(3,)", at = fmt::format("call_test.cpp:{}", line);
  test::expect_invalid({found, at}, [&] { mine(true); });
  const Graph graph = Graph::record(stream(), [&] { mine(true); });
  test::expect_invalid({found, at}, [&] { graph.replay(stream()); });
}

TEST_P(CallTest, ErrorsNameTheOp) {
  const Var x(ones(), stream());
  const std::string device_name = to_string(device());
  expect_error(ErrorCode::unsupported, {"'bend'", device_name, device().is_cuda() ? ".cuda" : ".cpu"}, [&] {
    call("bend", {.shape = {3}}, {x, x}, {});
  });
  expect_error(ErrorCode::device_mismatch, {"'bend'", "input 1", "cpu", "cuda:0"},
               [&] { bend(x, elsewhere(tensor({3}))); });
  expect_error(ErrorCode::invalid_argument, {"no stream"}, [&] { bend(tensor({3}), tensor({3})); });

  // A missing gradient is an error only when it is needed.
  const Var parameter = Var::parameter(ones(), tensor({3}), stream());
  const Var without = call("bend", {.shape = {3}}, {parameter, x}, bend_functions());
  expect_error(ErrorCode::unsupported, {"'bend'", "vjp"}, [&] {
    const Var p = Var::parameter(x.value(), tensor({3}), stream());
    backward(sum(call("bend", {.shape = {3}}, {p, x}, bend_functions())));
  });

  expect_rejected(ErrorCode::invalid_argument, {"'bend'", "1 gradients", "2"}, [](const Var& dy) { return dy; });
  expect_rejected(ErrorCode::invalid_argument, {"'bend'", "3 gradients", "2"}, [](const Var& dy) {
    return std::vector{dy, dy, dy};
  });
  expect_rejected(ErrorCode::invalid_argument, {"'bend'", "none", "input 0", "(3,)"}, [](const Var& dy) {
    return std::vector{Var(), dy};
  });
  expect_rejected(ErrorCode::shape_mismatch, {"'bend'", "input 0", "(3, 1)", "(3,)"}, [](const Var& dy) {
    return std::vector{dy.reshape({3, 1}), Var()};
  });
  expect_rejected(ErrorCode::dtype_mismatch, {"'bend'", "input 0", "f64", "f32"}, [&](const Var&) {
    return std::vector{Var(tensor({3}, DType::f64)), Var()};
  });
  expect_rejected(ErrorCode::device_mismatch, {"'bend'", "input 0", "cpu", "cuda:0"}, [&](const Var&) {
    return std::vector{Var(elsewhere(tensor({3}))), Var()};
  });
}

#if GIRO_WITH_CUDA
class CudaCallTest : public CallTest {};

TEST_P(CudaCallTest, CudaErrorNamesTheOp) {
  const Var x(tensor({3}), stream());
  expect_error(ErrorCode::device, {"'nothing'", "invalid"},
               [&] { call("nothing", {}, {x}, {.cuda = [](auto&, auto&, auto s) { test::launch_nothing(s); }}); });
  test::expect_error(ErrorCode::unsupported, {"'waits'", "recorded"}, [&] {
    Graph::record(stream(), [&] { call("waits", {}, {x}, {.cuda = [](auto&, auto&, auto s) { test::wait_for(s); }}); });
  });
  EXPECT_FALSE(stream().is_recording());
  call("waits", {}, {x}, {.cuda = [](auto&, auto&, auto s) { test::wait_for(s); }});
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaCallTest, ::testing::Values(Device::Kind::cuda), test::device_name);
#endif

INSTANTIATE_TEST_SUITE_P(Devices, CpuCallTest, ::testing::Values(Device::Kind::cpu), test::device_name);

INSTANTIATE_TEST_SUITE_P(Devices, CallTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
