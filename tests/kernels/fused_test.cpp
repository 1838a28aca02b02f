// Each fused op must give the same bits as the ops that it replaces.

#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>

#include "kernels/cpu/narrow_dense.h"
#include "kernels/ops.h"
#include "kernels/rules/record.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/relu.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::Tensors;

constexpr DType kStorageDTypes[] = {DType::f32, DType::bf16, DType::f16};

class FusedTest : public test::OpTest {
 protected:
  using Run = std::function<void(const Tensors& out, const Tensors& in, const Stream& stream)>;

  // Expects the same outputs from both for the same inputs.
  void check_same(const std::string& name, const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                  const Run& apart, const Run& fused) {
    SCOPED_TRACE(name);
    const auto results = [&](const Run& run) {
      std::vector<test::GuardedTensor> in, out;
      Tensors in_tensors, out_tensors;
      for (const Array& array : inputs) in.emplace_back(device(), array, 0);
      for (const Array& array : outputs) out.emplace_back(device(), array, 0);
      for (auto* tensors : {&in, &out}) {
        for (test::GuardedTensor& tensor : *tensors) {
          tensor.reset(0xa5, stream());
          (tensors == &in ? in_tensors : out_tensors).push_back(tensor.tensor());
        }
      }
      run(out_tensors, in_tensors, stream());
      std::vector<test::Bytes> bytes;
      for (std::size_t i = 0; i < out.size(); ++i) bytes.push_back(out[i].read(fmt::format("output {}", i), stream()));
      return bytes;
    };
    EXPECT_EQ(results(apart), results(fused));
  }

  Tensor temporary(DType dtype, const Shape& shape) {
    temporaries_.push_back(stream().allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return {temporaries_.back().place(), dtype, shape, device()};
  }

  test::Random random_;
  std::vector<Buffer> temporaries_;
};
INSTANTIATE_TEST_SUITE_P(Devices, FusedTest, test::kDevices, test::device_name);

TEST_P(FusedTest, GatheredBatchesEqualSeparateGathers) {
  const auto slots = [](const Tensor& memory) { return Tensor(memory.raw(), DType::u8, {3, 64}, memory.device()); };
  for (const Shape& row : {Shape{}, Shape{1}, Shape{7}, Shape{28, 28, 1}, Shape{64}, Shape{130}}) {
    for (const std::int64_t count : {1, 5, 33}) {
      for (const bool shuffled : {false, true}) {
        const RowOrder order{20, 3, shuffled};
        std::vector<double> positions(3 * 8, 5.0);
        positions[8] = 17;  // the batch reaches into the next epochs
        const Shape rows = row.with_front(20), batch = row.with_front(count);
        const std::vector<Array> inputs{{DType::i64, {3, 8}, positions},
                                        {DType::i64, {}, {4}},
                                        random_.integers(rows, 0, 255, DType::u8),
                                        random_.integers({20}, 0, 9, DType::i32),
                                        random_.uniform(rows, -1, 1, DType::f64)};
        check_same(
            fmt::format("{} rows of {}{}", count, to_string(row), shuffled ? ", shuffled" : ""), inputs,
            {{DType::f32, batch, {}},
             {DType::i32, {count}, {}},
             {DType::f64, batch, {}},
             {DType::u8, batch, {}},
             {DType::bf16, batch, {}},
             {DType::f16, batch, {}}},
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              const Tensor indices = temporary(DType::i64, {count});
              batch_indices(indices, {slots(in[0]), in[1]}, order, s);
              gather_rows(out[3], in[2], indices, s);
              scale(out[0], out[3], 1 / 255.f, s);
              cast(out[4], out[0], s);
              cast(out[5], out[0], s);
              gather_rows(out[1], in[3], indices, s);
              gather_rows(out[2], in[4], indices, s);
            },
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              queue(ops::GatherBatch{slots(in[0]),
                                     in[1],
                                     {{out[0], in[2], 1 / 255.f},
                                      {out[1], in[3]},
                                      {out[2], in[4]},
                                      {out[3], in[2]},
                                      {out[4], in[2], 1 / 255.f},
                                      {out[5], in[2], 1 / 255.f}},
                                     order},
                    s);
            });
      }
    }
  }
}

TEST_P(FusedTest, CrossEntropyFusesMeanGradientAndAccuracy) {
  for (const std::int64_t rows : {1, 5, 9, 32, 127, 128, 129, 1000, 1025, 2049, 4096}) {
    for (const std::int64_t classes : {1, 2, 10, 33, 200, 1500}) {
      if (rows * classes > (device().is_cpu() ? 100'000 : 20'000)) continue;
      const DType dtype = rows % 2 == 0 ? DType::u8 : DType::i64;
      // With two classes, one label in thirty is invalid.
      const std::int64_t last = std::min<std::int64_t>(classes, dtype == DType::u8 ? 256 : classes) - 1;
      Array labels = random_.integers({rows}, 0, last, dtype), logits = random_.uniform({rows, classes}, -9, 9);
      for (std::int64_t r = 29; r < rows && classes == 2; r += 30)
        labels.values[r] = static_cast<double>(classes % 256);
      if (rows > 100 && classes == 2) logits.values[0] = test::kNaN;
      constexpr double factor = 0.37;
      for (const bool all : {true, false}) {
        check_same(
            fmt::format("{} rows of {} classes, {}", rows, classes, all ? "all" : "the loss alone"), {logits, labels},
            {{DType::f32, {}, {}},
             {DType::f32, {}, {0}},
             {DType::f32, {rows, classes}, std::vector<double>(rows * classes)}},
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              const Tensor losses = temporary(DType::f32, {rows}), gradients = temporary(DType::f32, {rows, classes});
              softmax_cross_entropy(losses, all ? gradients : Tensor(), in[0], in[1], s);
              mean(out[0], losses, s);
              if (!all) return;
              accuracy(out[1], in[0], in[1], s);
              scale(out[2], gradients, factor, s);
            },
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              queue(
                  ops::MeanCrossEntropy{out[0], all ? out[2] : Tensor(), all ? out[1] : Tensor(), in[0], in[1], factor},
                  s);
            });
      }
    }
  }
}

// As if the logits were converted to f32, and the gradient back. With many classes, a GPU splits each row among warps
// or blocks.
TEST_P(FusedTest, CrossEntropyOfSixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Shape& shape : {Shape{5, 10}, Shape{200, 3}, Shape{3, 33}, Shape{2, 1500}}) {
      Array logits = random_.uniform(shape, -9, 9, dtype), labels = random_.integers({shape[0]}, 0, 2, DType::u8);
      if (shape[0] > 2) logits.values[0] = test::kNaN, labels.values[1] = 255;
      const std::vector<Array> outputs{{DType::f32, {shape[0]}, {}}, {DType::f32, shape, {}}, {dtype, shape, {}},
                                       {DType::f32, {}, {}},         {DType::f32, {}, {}},    {dtype, shape, {}}};
      constexpr double factor = 0.37;
      check_same(
          fmt::format("{} {}", name_of(dtype), to_string(shape)), {logits, labels}, outputs,
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            const Tensor converted = temporary(DType::f32, shape);
            cast(converted, in[0], s);
            softmax_cross_entropy(out[0], out[1], converted, in[1], s);
            cast(out[2], out[1], s);
            mean(out[3], out[0], s);
            accuracy(out[4], converted, in[1], s);
            const Tensor scaled = temporary(DType::f32, shape);
            scale(scaled, out[1], factor, s);
            cast(out[5], scaled, s);
          },
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            copy(out[2], in[0], s);
            softmax_cross_entropy(out[0], out[2], out[2], in[1], s);
            softmax_cross_entropy(out[0], {}, in[0], in[1], s);
            softmax_cross_entropy(out[0], out[1], in[0], in[1], s);
            queue(ops::MeanCrossEntropy{out[3], out[5], out[4], in[0], in[1], factor}, s);
          });
    }
  }
}

TEST_P(FusedTest, PoolingGradientMayOverwriteItsImages) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Array images = random_.uniform({3, 8, 6, 5}, -1, 1, dtype), dy = random_.uniform({3, 4, 3, 5}, -1, 1, dtype);
    check_same(
        fmt::format("{}", name_of(dtype)), {dy}, {images, {DType::f32, {5}, {}}},
        [&](const Tensors& out, const Tensors& in, const Stream& s) {
          const Tensor dz = temporary(dtype, images.shape);
          queue(ops::AvgPoolBackward{dz, out[1], in[0], out[0], {}, true}, s);
          copy(out[0], dz, s);
        },
        [&](const Tensors& out, const Tensors& in, const Stream& s) {
          queue(ops::AvgPoolBackward{out[0], out[1], in[0], out[0], {}, true}, s);
        });
  }
}

// Classes beyond 1,024 are split among blocks of a GPU.
TEST_P(FusedTest, GradientsMayOverwriteTheLogits) {
  for (const Shape& shape : {Shape{3, 10}, Shape{200, 10}, Shape{3, 1500}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::int64_t rows = shape[0];
      const Array logits = random_.uniform(shape, -3, 3, dtype), labels = random_.integers({rows}, 0, 9, DType::i32);
      check_same(
          fmt::format("{} {}", name_of(dtype), to_string(shape)), {labels},
          {{DType::f32, {}, {}}, {DType::f32, {}, {}}, logits},
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            const Tensor gradients = temporary(dtype, shape);
            queue(ops::MeanCrossEntropy{out[0], gradients, out[1], out[2], in[0], 0.5}, s);
            copy(out[2], gradients, s);
          },
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            queue(ops::MeanCrossEntropy{out[0], out[2], out[1], out[2], in[0], 0.5}, s);
          });
    }
  }
}

TEST_P(FusedTest, PoolingFusesThePrecedingActivation) {
  for (const auto& [height, width] : {std::pair{2, 2}, {3, 1}, {1, 2}, {6, 8}}) {
    for (const bool has_relu : {false, true}) {
      const PoolOptions options{{height, width}, {height, width}};
      const Shape x{3, 6, 16, 5}, y = pool_shape(x, options);
      for (const DType dtype : kStorageDTypes) {
        check_same(
            fmt::format("{}, windows of {} by {}, {}", name_of(dtype), height, width, has_relu ? "relu" : "none"),
            {random_.uniform(y, -2, 2, dtype), random_.uniform(x, -0.5, 1, dtype)}, {{dtype, x, {}}},
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              avg_pool_backward(out[0], in[0], options, s);
              if (has_relu) test::relu_backward(out[0], out[0], in[1], s);
            },
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              queue(ops::AvgPoolBackward{out[0], {}, in[0], in[1], options, has_relu}, s);
            });
        check_same(
            fmt::format("forward, {}, windows of {} by {}, {}", name_of(dtype), height, width,
                        has_relu ? "relu" : "none"),
            {random_.uniform(x, -2, 2, dtype)}, {{dtype, y, {}}},
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              const Tensor activated = has_relu ? temporary(dtype, x) : in[0];
              if (has_relu) test::relu(activated, in[0], s);
              avg_pool(out[0], activated, options, s);
            },
            [&](const Tensors& out, const Tensors& in, const Stream& s) {
              queue(ops::AvgPool{out[0], in[0], options, has_relu}, s);
            });
      }
    }
  }
}

TEST_P(FusedTest, InfinitePoolingGradientStopsAtInactiveRelu) {
  for (const DType dtype : kStorageDTypes) {
    check({.name = fmt::format("{}", name_of(dtype)),
           .inputs = {{dtype, {1, 1, 2, 1}, {test::kInfinity, test::kNaN}},
                      {dtype, {1, 2, 4, 1}, {-2, 1, -2, 1, 1, -2, 1, -2}}},
           .outputs = {{dtype, {1, 2, 4, 1}, {}}},
           .run =
               [=](const Tensors& out, const Tensors& in, const Stream& s) {
                 queue(ops::AvgPoolBackward{out[0], {}, in[0], in[1], {}, true}, s);
               },
           .expected = {
               {{0, test::kInfinity, 0, test::kNaN, test::kInfinity, 0, test::kNaN, 0}, std::vector<double>(8)}}});
  }
}

TEST_P(FusedTest, PoolingGradientFusesItsSum) {
  const PoolOptions options{};
  for (const auto& [size, channels] : {std::pair{2, 1}, {8, 5}, {28, 40}}) {
    const Shape x{6, size, size, channels}, y = pool_shape(x, options), matrix{6 * size * size, channels};
    for (const DType dtype : kStorageDTypes) {
      check_same(
          fmt::format("{}, {}, {} channels", name_of(dtype), size, channels),
          {random_.uniform(x, -2, 2, dtype), random_.uniform(y, -1, 1, dtype)},
          {{dtype, y, {}}, {dtype, x, {}}, {DType::f32, {channels}, {}}},
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            const Tensor activated = temporary(dtype, x);
            test::relu(activated, in[0], s);
            avg_pool(out[0], activated, options, s);
            avg_pool_backward(out[1], in[1], options, s);
            test::relu_backward(out[1], out[1], activated, s);
            sum_rows(out[2], out[1].reshape(matrix), s);
          },
          [&](const Tensors& out, const Tensors& in, const Stream& s) {
            queue(ops::AvgPool{out[0], in[0], options, true}, s);
            queue(ops::AvgPoolBackward{out[1], out[2], in[1], in[0], options, true}, s);
          });
    }
  }
}

TEST_P(FusedTest, DenseLayersScaleByteInputs) {
  if (device().is_cuda()) return;  // only the CPU's layers read bytes
  for (const auto& [rows, inputs, outputs] :
       {std::tuple{1, 1, 1}, {5, 37, 3}, {32, 784, 10}, {65, 50, 16}, {130, 300, 11}, {0, 5, 3}}) {
    if (!cpu::narrow::can_run(outputs)) continue;
    const Shape x{rows, inputs}, w{inputs, outputs}, y{rows, outputs};
    check_same(
        fmt::format("{} rows, {} inputs, {} outputs", rows, inputs, outputs),
        {random_.integers(x, 0, 255, DType::u8), random_.uniform(w), random_.uniform({outputs}), random_.uniform(y)},
        {{DType::f32, y, {}}, {DType::f32, w, {}}, {DType::f32, {outputs}, {}}},
        [&](const Tensors& out, const Tensors& in, const Stream& s) {
          const Tensor floats = temporary(DType::f32, x);
          scale(floats, in[0], 1 / 255.f, s);
          dense(out[0], floats, in[1], in[2], s);
          dense_backward(Tensor(), out[1], out[2], in[3], floats, in[1], s);
        },
        [&](const Tensors& out, const Tensors& in, const Stream& s) {
          queue(ops::Dense{.y = out[0], .x = in[0], .w = in[1], .b = in[2], .factor = 1 / 255.f}, s);
          queue(ops::DenseBackward{.dw = out[1], .db = out[2], .dz = in[3], .x = in[0], .factor = 1 / 255.f}, s);
        });
  }
}

// Publishes several times to one ring, also with more than one block.
TEST_P(FusedTest, UpdatePublishesTheRow) {
  struct Rule {
    optim::Optimizer optimizer;
    std::vector<const char*> moments;
    bool clips = false;  // the norm is stored in a temporary
  };
  const Rule rules[] = {{optim::adamw(0.01, {.weight_decay = 0.1}), {"mu", "nu"}},
                        {optim::clip_by_global_norm(0.5, optim::adam(0.01)), {"mu", "nu"}, true},
                        {optim::sgd(0.1, {.momentum = 0.9}), {"mu"}},
                        {optim::sgd(0.1), {}}};
  for (const Rule& rule : rules) {
    for (const std::int64_t count : {0, 16, 1024, 1040, 70'000}) {
      const Array flat = random_.uniform({count}, 0.1, 1), step{DType::i64, {}, {6}}, row{DType::i64, {}, {4}};
      std::vector<std::vector<double>> published;
      const auto run = [&](bool fused) {
        return [&, fused](const Tensors& out, const Tensors& in, const Stream& s) {
          const Buffer memory = Buffer::allocate(device(), 12 * sizeof(std::uint64_t), MemoryKind::pinned);
          const ScalarRing ring{.words = static_cast<std::uint64_t*>(memory.data()), .capacity = 2, .columns = 3};
          ring.begin(4);
          for (std::size_t i = 0; i < in.size(); ++i) s.copy(out[i].raw(), in[i].raw(), in[i].bytes());
          optim::UpdateTensors tensors{.params = out[0], .grads = in[1], .step = out[4], .learning_rate = out[6]};
          for (std::size_t i = 0; i < rule.moments.size(); ++i)
            tensors.moments.emplace_back(rule.moments[i], out[2 + i]);
          const std::vector<Tensor> scalars{out[6], out[4], out[5]};
          const auto step = [&] {
            const Buffer norm = s.allocate(sizeof(double));
            if (rule.clips) {
              tensors.squared_norm = Tensor(norm.place(), DType::f64, {}, device());
              sum_of_squares(tensors.squared_norm, tensors.grads, s);
            }
            optim::update(rule.optimizer, tensors, s);
            increment(out[4], 1, s);
            publish_row(ring, out[5], scalars, s);
          };
          if (fused) {
            const Graph graph = rules::record(s, step);
            EXPECT_EQ(graph.program().nodes().size(),
                      (device().is_cuda() ? 1u : 2u) + (rule.clips && count > 0 ? 1u : 0u));
            graph.replay(s, 3);
          } else {
            for (int time = 0; time < 3; ++time) step();
          }
          s.synchronize();
          EXPECT_TRUE(ring.has(6));
          EXPECT_FALSE(ring.has(7));
          published.emplace_back();
          for (const std::int64_t of_row : {5, 6}) {
            for (std::int64_t c = 0; c < 3; ++c) {
              published.back().push_back(ScalarRing::value(ring.slot(of_row), c));
            }
          }
        };
      };
      check_same(fmt::format("{} parameters", count), {flat, flat, flat, flat, step, row},
                 {flat, flat, flat, flat, step, row, {DType::f32, {}, {0}}}, run(false), run(true));
      EXPECT_EQ(published.front(), published.back());
      EXPECT_EQ(published.front()[1], 8);  // the step, in the second call's row
    }
  }
}

}  // namespace
}  // namespace giro
