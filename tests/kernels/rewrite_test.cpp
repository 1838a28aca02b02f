#include "kernels/rules/record.h"

#include <giro/kernels/conv2d.h>
#include <giro/kernels/matmul.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "kernels/cpu/narrow_dense.h"
#include "kernels/expr/table.h"
#include "kernels/expr/term.h"
#include "kernels/rules/rules.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/relu.h"
#include "tests/support/environment_setting.h"
#include "tests/support/sanitized.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

// A program of the patterns that the rules match, in random order, interleaved with other work on the same values. The
// same seed gives the same program.
class RandomProgram {
 public:
  static constexpr std::int64_t kRows = 4, kColumns = 3;

  RandomProgram(const Stream& stream, unsigned seed) : stream_(stream), random_(seed) {
    for (int i = 0; i < 3; ++i) {
      pool_.push_back(leaf(DType::f32, {kRows, kColumns}, i + 1));
      pool_.push_back(leaf(DType::f32, {1, 4, 4, 3}, i + 5));
      pool_.push_back(leaf(DType::f32, {1, 2, 2, 3}, i + 2));
      pool_.push_back(leaf(DType::f32, {kColumns, kColumns}, i));
      pool_.push_back(leaf(DType::f32, {kRows}, i));
      pool_.push_back(leaf(DType::f32, {}, i));
      pool_.push_back(leaf(DType::f32, {3, 1, 1, 3}, i - 1));
      pool_.push_back(leaf(DType::f32, {3}, -i));
    }
    images_ = leaf(DType::u8, {9, kColumns}, 7);
    classes_ = leaf(DType::u8, {9}, 0);
    labels_ = leaf(DType::u8, {kRows}, 1);
    counter_ = leaf(DType::i64, {}, 0);
    row_ = leaf(DType::i64, {}, 0);
    call_ = leaf(DType::i64, {}, 0);
    slots_ = leaf(DType::u8, {2, 64}, 0);
    row_ring_ = Buffer::allocate(stream.device(), 64 * sizeof(std::uint64_t), MemoryKind::pinned);
    std::fill_n(static_cast<std::uint64_t*>(row_ring_.data()), 64, std::uint64_t{0});
  }

  // Must be called within a recording.
  void queue() {
    std::vector<std::vector<std::function<void()>>> patterns;
    for (int i = 0; i < 3; ++i) patterns.push_back(pattern());
    std::vector<std::size_t> next(patterns.size());
    for (;;) {
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < patterns.size(); ++i) {
        if (next[i] < patterns[i].size()) open.push_back(i);
      }
      if (open.empty()) break;
      if (pick(3) == 0) noise();
      const std::size_t one = open[pick(open.size())];
      patterns[one][next[one]++]();
    }
    for (Buffer& buffer : buffers_) {
      if (pick(8) == 0) held_.push_back(std::move(buffer));
    }
    buffers_.clear();
  }

  std::vector<test::Bytes> contents() const {
    std::vector<test::Bytes> all;
    for (const auto* buffers : {&leaves_, &held_}) {
      for (const Buffer& buffer : *buffers) {
        all.emplace_back(buffer.size());
        stream_.copy(all.back().data(), buffer.data(), buffer.size());
      }
    }
    stream_.synchronize();
    const auto* const ring = static_cast<const unsigned char*>(row_ring_.data());
    all.emplace_back(ring, ring + row_ring_.size());
    return all;
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }

  Tensor leaf(DType dtype, const Shape& shape, int value) {
    leaves_.push_back(Buffer::allocate(stream_.device(), static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    const Tensor tensor(leaves_.back().place(), dtype, shape, stream_.device());
    fill(tensor, value * 0.3 + (dtype == DType::f32 ? 0.1 : 0), stream_);
    return tensor;
  }
  Tensor temporary(DType dtype, const Shape& shape) {
    buffers_.push_back(stream_.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return {buffers_.back().place(), dtype, shape, stream_.device()};
  }
  // One of the float tensors written so far.
  Tensor any(const Shape& shape) {
    std::vector<Tensor> fitting;
    for (const Tensor& tensor : pool_) {
      if (tensor.shape() == shape) fitting.push_back(tensor);
    }
    return fitting[pick(fitting.size())];
  }
  void copy_to_any(const Tensor& from) {
    const Tensor to = any(from.shape());
    if (to.raw() != from.raw()) copy(to, from, stream_);
  }
  // Of images of 4 x 4 pixels, in four windows: those that tile them, which rules know, or a row higher.
  PoolOptions pooling() { return {.pad_before = {pick(4) == 0 ? 1 : 0, 0}}; }
  void noise() {
    const Shape shape = pool_[pick(pool_.size())].shape();
    const Tensor out = any(shape), a = any(shape), b = any(shape);
    if (pick(2) == 0) {
      add(out, a, b, stream_);
    } else {
      copy_to_any(a);
    }
  }

  std::vector<std::function<void()>> pattern() {
    const auto floats = [this](const Shape& shape) { return temporary(DType::f32, shape); };
    const Shape matrix{kRows, kColumns};
    const auto written = [this](const Tensor& tensor) {
      if (pick(4) == 0) pool_.push_back(tensor);
    };
    switch (pick(6)) {
      case 0: {
        const Tensor indices = temporary(DType::i64, {kRows}), bytes = temporary(DType::u8, matrix);
        const Tensor labels = temporary(DType::u8, {kRows}), x = floats(matrix), y = floats(matrix);
        const Tensor flat = bytes.reshape({kRows * kColumns}), x_flat = x.reshape({kRows * kColumns});
        const bool reshapes = pick(2) == 0;
        const Tensor w = any({kColumns, kColumns}), dw = any({kColumns, kColumns}), dz = any(matrix);
        const Tensor product = floats({kColumns, kColumns});
        return {[=, this] {
                  batch_indices(indices, {slots_, call_}, {9, 2, true}, stream_);
                },
                [=, this] { gather_rows(bytes, images_, indices, stream_); },
                [=, this] { gather_rows(labels, classes_, indices, stream_); },
                [=, this] { scale(reshapes ? x_flat : x, reshapes ? flat : bytes, 0.25, stream_), written(x); },
                [=, this] { dense(y, x, w, Tensor(), stream_), written(y); },
                [=, this] { dense_backward(Tensor(), dw, Tensor(), dz, x, w, stream_); },
                [=, this] { matmul(product, y, dz, {.transpose_a = true}, MathMode::f32, stream_), written(product); },
                [=, this] { copy_to_any(product), copy_to_any(y); }};
      }
      case 1: {
        const Tensor losses = floats({kRows}), slopes = floats(matrix), loss = floats({}), one = floats({});
        const Tensor share = floats({kRows}), gradient = floats(matrix), hits = floats({}), logits = any(matrix);
        return {[=, this] { softmax_cross_entropy(losses, slopes, logits, labels_, stream_); },
                [=, this] { written(losses), written(slopes), mean(loss, losses, stream_), written(loss); },
                [=, this] { fill(one, 0.7, stream_), written(one); },
                [=, this] { broadcast(share, one, 1.0 / kRows, stream_), written(share); },
                [=, this] { scale_rows(gradient, slopes, share, stream_), written(gradient); },
                [=, this] { accuracy(hits, logits, labels_, stream_); },
                [=, this] { copy_to_any(hits), copy_to_any(loss); },
                [=, this] { copy_to_any(gradient); }};
      }
      case 2: {
        const Tensor dx = floats({1, 4, 4, 3}), dz = pick(2) == 0 ? dx : floats({1, 4, 4, 3});
        const Tensor dy = any({1, 2, 2, 3}), y = any({1, 4, 4, 3});
        const PoolOptions options = pooling();
        return {[=, this] { avg_pool_backward(dx, dy, options, stream_), written(dx); },
                [=, this] { test::relu_backward(dz, dx, y, stream_), written(dz); }, [=, this] { copy_to_any(dz); }};
      }
      case 3: {
        const Shape image{1, 4, 4, 3};
        const Tensor x = any(image), w = any({3, 1, 1, 3}), b = any({3}), gradient = any({1, 2, 2, 3});
        const Tensor dw = any({3, 1, 1, 3}), db = any({3}), dx = any(image);
        if (dx.raw() == x.raw() || dw.raw() == w.raw()) return pattern();
        const Tensor z = floats(image), y = floats(image), dy = floats(image), dz = floats(image);
        const Tensor pooled = floats({1, 2, 2, 3});
        const PoolOptions options = pooling();
        return {[=, this] { conv2d(z, x, w, b, {}, stream_), written(z); },
                [=, this] { test::relu(y, z, stream_), written(y); },
                [=, this] { avg_pool(pooled, y, options, stream_); },
                [=, this] { copy_to_any(pooled); },
                [=, this] { avg_pool_backward(dy, gradient, options, stream_), written(dy); },
                [=, this] { test::relu_backward(dz, dy, y, stream_); },
                [=, this] { conv2d_backward(dx, dw, db, dz, x, w, {}, stream_); }};
      }
      case 4: {
        const Tensor bytes = images_.rows(0, kRows), x = floats(matrix), back = floats(matrix);
        const Tensor narrow = temporary(pick(2) == 0 ? DType::bf16 : DType::f16, matrix);
        return {[=, this] { scale(x, bytes, 1 / 7.0, stream_), written(x); }, [=, this] { cast(narrow, x, stream_); },
                [=, this] { cast(back, narrow, stream_); }, [=, this] { copy_to_any(back); }};
      }
      default: {
        const Tensor a = any({}), b = any({});
        return {[=, this] { increment(counter_, 2, stream_); }, [=, this] { increment(call_, 1, stream_); },
                [=, this] {
                  publish_row({.words = static_cast<std::uint64_t*>(row_ring_.data()), .capacity = 8, .columns = 3},
                              row_, {a, b, counter_}, stream_);
                }};
      }
    }
  }

  Stream stream_;
  std::mt19937 random_;
  std::vector<Buffer> leaves_, buffers_, held_;
  std::vector<Tensor> pool_;
  Tensor images_, classes_, labels_, counter_, row_, call_, slots_;
  Buffer row_ring_;
};

class RewriteTest : public test::OpTest {
 protected:
  std::vector<std::string> ops_of(const std::function<void()>& body) {
    std::vector<std::string> names;
    const Graph graph = rules::record(stream(), body);
    for (const Program::Node& node : graph.program().nodes()) names.push_back(node.op);
    return names;
  }
  std::vector<Buffer> kept_;
};
INSTANTIATE_TEST_SUITE_P(Devices, RewriteTest, test::kDevices, test::device_name);

TEST_P(RewriteTest, RandomProgramsGiveTheSameBits) {
  std::map<std::string, int> fused;
  const int programs = device().is_cpu() ? test::cases(400) : 40;  // compiling kernels takes long
  for (unsigned seed = 0; seed < static_cast<unsigned>(programs); ++seed) {
    std::vector<std::vector<test::Bytes>> results;
    for (const char* setting : {"0", "1"}) {
      const test::RewriteSetting rewriting(setting);
      const test::ArenaSetting arena("1");
      RandomProgram program(stream(), seed);
      const Graph graph = rules::record(stream(), [&] { program.queue(); });
      for (int i = 0; i < 3; ++i) graph.replay(stream());
      results.push_back(program.contents());
      if (*setting == '0') continue;
      for (const Program::Node& node : graph.program().nodes()) ++fused[node.op];
    }
    ASSERT_TRUE(results[0] == results[1]) << "seed " << seed;
  }
  for (const char* op : {"gather_batch", "mean_cross_entropy", "avg_pool_activation_backward", "activation_avg_pool"}) {
    EXPECT_GT(fused[op], programs / 20) << op;
  }
  if (device().is_cpu() && cpu::narrow::can_run(RandomProgram::kColumns)) {
    EXPECT_GT(fused["dense_u8"], programs / 20);
  }
  EXPECT_GT(fused["avg_pool_backward"], programs / 80) << "not where something else is in the way";
}

TEST_P(RewriteTest, EachRuleCanBeSwitchedOffByItsName) {
  const Buffer row = Buffer::allocate(device(), 16);
  const auto record = [&] {
    const Buffer one = stream().allocate(4);
    const Tensor scalar(one.place(), DType::f32, {}, device()), out(row.place(), DType::f32, {4}, device());
    fill(scalar, 2, stream());
    broadcast(out, scalar, 0.5, stream());
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ops_of(record), Names{"fill+broadcast"});
  for (const char* setting :
       {"0", "-fuse_expressions", "-fuse_gathers,-fuse_expressions", "-fuse_expressions,-fuse_expressions"}) {
    const test::RewriteSetting rewriting(setting);
    EXPECT_EQ(ops_of(record), (Names{"fill", "broadcast"})) << setting;
  }
  for (const char* setting : {"1", "", "-fuse_gathers"}) {
    const test::RewriteSetting rewriting(setting);
    EXPECT_EQ(ops_of(record), Names{"fill+broadcast"}) << setting;
  }
  for (const rules::Rule& rule : rules::rules()) {
    const test::RewriteSetting rewriting(("-" + std::string(rule.name)).c_str());
    EXPECT_NO_THROW(ops_of(record)) << rule.name;
  }
  for (const char* setting : {"off", "-fuse", "fuse_expressions", "-fuse_expressions;-fuse_gathers",
                              "-fuse_expressions,", "-fuse_expressions,1"}) {
    const test::RewriteSetting rewriting(setting);
    test::expect_error(ErrorCode::invalid_argument, {setting, "-fuse_expressions, "}, [&] { (void)ops_of(record); });
  }
}

// Cases that must not confuse the rules, op by op.
TEST_P(RewriteTest, RulesRespectInterveningOps) {
  using Names = std::vector<std::string>;
  const auto floats = [&](const Shape& shape) {
    kept_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * 4));
    return Tensor(kept_.back().place(), DType::f32, shape, device());
  };
  const Tensor logits = floats({4, 3}), hits = floats({}), loss = floats({});
  const Tensor labels(floats({4}).raw(), DType::u8, {4}, device());
  // The gradient overwrites the logits before accuracy reads them.
  EXPECT_EQ(ops_of([&] {
              const Buffer memory = stream().allocate(16);
              const Tensor losses(memory.place(), DType::f32, {4}, device());
              softmax_cross_entropy(losses, logits, logits, labels, stream());
              mean(loss, losses, stream());
              accuracy(hits, logits, labels, stream());
            }),
            (Names{"mean_cross_entropy", "correct", "mean"}));
  // The mean belongs to a loss of two terms. The rule still finds it.
  EXPECT_EQ(ops_of([&] {
              const Buffer memory = stream().allocate(16), mean_memory = stream().allocate(4);
              const Tensor losses(memory.place(), DType::f32, {4}, device());
              const Tensor of_rows(mean_memory.place(), DType::f32, {}, device());
              softmax_cross_entropy(losses, {}, logits, labels, stream());
              mean(of_rows, losses, stream());
              add(loss, of_rows, hits, stream());
            }),
            (Names{"mean_cross_entropy", "add"}));
  // The scale reads only part of the gathered rows.
  const Tensor images8 = Tensor(floats({9, 4}).raw(), DType::u8, {9, 3}, device());
  const Tensor call = Tensor(floats({2}).raw(), DType::i64, {}, device());
  const Tensor slots = Tensor(floats({32}).raw(), DType::u8, {2, 64}, device()), part = floats({2, 3});
  EXPECT_EQ(
      ops_of([&] {
        const Buffer at = stream().allocate(32), memory = stream().allocate(12);
        const Tensor indices(at.place(), DType::i64, {4}, device()), rows(memory.place(), DType::u8, {4, 3}, device());
        batch_indices(indices, {slots, call}, {9, 2, true}, stream());
        gather_rows(rows, images8, indices, stream());
        scale(part, rows.rows(0, 2), 0.5, stream());
      }),
      (Names{"gather_batch", "scale"}));
  // The result overlaps the pool's incoming gradient.
  const Tensor images = floats({1, 4, 4, 1}), pooled = images.reshape({16}).rows(0, 4).reshape({1, 2, 2, 1});
  EXPECT_EQ(ops_of([&] {
              const Buffer memory = stream().allocate(64);
              const Tensor dx(memory.place(), DType::f32, {1, 4, 4, 1}, device());
              avg_pool_backward(dx, pooled, {}, stream());
              test::relu_backward(images, dx, dx, stream());
            }),
            (Names{"avg_pool_backward", "greater+where"}));
  // The counter belongs to the recording.
  const Buffer ring = Buffer::allocate(device(), 64, MemoryKind::pinned);
  const Tensor counter = Tensor(floats({2}).raw(), DType::i64, {}, device()).recorded();
  const Tensor row(floats({2}).raw(), DType::i64, {}, device());
  EXPECT_EQ(ops_of([&] {
              increment(counter, 1, stream());
              publish_row({.words = static_cast<std::uint64_t*>(ring.data()), .capacity = 1}, row, {}, stream());
            }),
            Names{"publish_columns"});
}

TEST_P(RewriteTest, IntegersAreScaledToSixteenBitsAtOnce) {
  kept_.push_back(Buffer::allocate(device(), 64));
  const Tensor bytes(kept_.back().place(), DType::u8, {12}, device());
  kept_.push_back(Buffer::allocate(device(), 64));
  const Tensor out(kept_.back().place(), DType::bf16, {12}, device());
  kept_.push_back(Buffer::allocate(device(), 64));
  const Tensor total(kept_.back().place(), DType::f32, {}, device());
  const auto scaled = [&](bool is_read_twice) {
    return ops_of([&] {
      const Buffer memory = stream().allocate(48);
      const Tensor x(memory.place(), DType::f32, {12}, device());
      scale(x, bytes, 0.1, stream());
      cast(out, x, stream());
      if (is_read_twice) sum(total, x, stream());
    });
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(scaled(false), Names{"scale+cast"});
  EXPECT_EQ(scaled(true), Names{"scale+cast+scale+sum"});
}

// The rule applies on a GPU to layers of 2 to 10 outputs and at least 128 inputs, with at most 64 KiB of weights.
TEST_P(RewriteTest, NarrowLayersFuseSurroundingRelus) {
  struct Layer {
    std::int64_t inputs, outputs;
    bool is_narrow;
  };
  for (const auto& [inputs, outputs, is_narrow] :
       {Layer{128, 2, true}, Layer{128, 1, false}, Layer{127, 2, false}, Layer{130, 10, true}, Layer{130, 11, false},
        Layer{1'639, 10, false}}) {
    const std::int64_t rows = 3;
    const auto filled = [&](const Shape& shape) {
      kept_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * 4));
      const Tensor tensor(kept_.back().place(), DType::f32, shape, device());
      std::vector<float> values(static_cast<std::size_t>(shape.count()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 13) / 8 - 0.75f;
      stream().copy(tensor.raw(), values.data(), tensor.bytes());
      return tensor;
    };
    const Tensor z = filled({rows, inputs}), w = filled({inputs, outputs}), b = filled({outputs});
    const Tensor dy = filled({rows, outputs}), y = filled({rows, outputs}), dz = filled({rows, inputs});
    const auto step = [&] {
      const Buffer memory = stream().allocate(z.bytes()), gradients = stream().allocate(z.bytes());
      const Tensor x(memory.place(), DType::f32, z.shape(), device());
      const Tensor dx(gradients.place(), DType::f32, z.shape(), device());
      test::relu(x, z, stream());
      dense(y, x, w, b, stream());
      dense_backward(dx, {}, {}, dy, x, w, stream());
      test::relu_backward(dz, dx, x, stream());
    };
    const std::size_t count = ops_of(step).size();
    if (device().is_cuda() && is_narrow) {
      EXPECT_LE(count, 2u) << inputs << " to " << outputs;
    } else {
      EXPECT_EQ(count, 4u) << inputs << " to " << outputs;
    }
    std::vector<std::vector<float>> results;
    for (const char* setting : {"0", "1"}) {
      const test::RewriteSetting rewriting(setting);
      rules::record(stream(), step).replay(stream());
      for (const Tensor& result : {y, dz}) {
        results.emplace_back(static_cast<std::size_t>(result.count()));
        stream().copy(results.back().data(), result.raw(), result.bytes());
      }
      stream().synchronize();
    }
    EXPECT_EQ(results[0], results[2]) << inputs << " to " << outputs;
    EXPECT_EQ(results[1], results[3]) << inputs << " to " << outputs;
  }
}

// The rule applies on a GPU, also in 16 bits, where cuDNN's relu keeps infinities.
TEST_P(RewriteTest, ConvolutionFusesTheFollowingRelu) {
  const Shape image{1, 3, 4, 2}, filter{3, 1, 1, 2}, result{1, 3, 4, 3};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (device().is_cpu() && dtype != DType::f32) continue;
    const auto filled = [&](const Shape& shape, const std::vector<double>& values) {
      kept_.push_back(Buffer::allocate(device(), 256));
      const Tensor tensor(kept_.back().place(), dtype, shape, device());
      std::vector<float> elements;
      for (std::size_t i = 0; i < static_cast<std::size_t>(shape.count()); ++i) {
        elements.push_back(static_cast<float>(values[i % values.size()]));
      }
      const Buffer memory = stream().allocate(elements.size() * 4);
      stream().copy(memory.data(), elements.data(), elements.size() * 4);
      cast(tensor, Tensor(memory.place(), DType::f32, shape, device()), stream());
      stream().synchronize();
      return tensor;
    };
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor x = filled(image, {1, -2, infinity, 0.5, std::nan(""), 3, 1e5, -1e5}),
                 w = filled(filter, {1, -0.5, 2});
    const Tensor b = filled({3}, {0.25, -1, 0}), y = filled(result, {7});
    const auto convolve = [&](bool with_bias) {
      return [&, with_bias] {
        const Buffer memory = stream().allocate(256);
        const Tensor z(memory.place(), dtype, result, device());
        conv2d(z, x, w, with_bias ? b : Tensor(), {}, stream());
        test::relu(y, z, stream());
      };
    };
    using Names = std::vector<std::string>;
    const bool is_one = device().is_cuda() && dtype != DType::f32;
    EXPECT_EQ(ops_of(convolve(true)), is_one ? Names{"conv2d"} : (Names{"conv2d", "relu"})) << name_of(dtype);
    EXPECT_EQ(ops_of(convolve(false)), (Names{"conv2d", "relu"})) << name_of(dtype);
    std::vector<std::vector<float>> results;
    for (const char* setting : {"0", "1"}) {
      const test::RewriteSetting rewriting(setting);
      rules::record(stream(), convolve(true)).replay(stream());
      const Buffer memory = stream().allocate(256);
      const Tensor floats(memory.place(), DType::f32, result, device());
      cast(floats, y, stream());
      results.emplace_back(static_cast<std::size_t>(result.count()));
      stream().copy(results.back().data(), floats.raw(), floats.bytes());
      stream().synchronize();
      for (float& value : results.back()) {
        if (std::isnan(value)) value = -7;  // cuDNN chooses the bits of NaN
      }
    }
    EXPECT_EQ(results[0], results[1]) << name_of(dtype);
    for (const float kept : {-7.0f, std::numeric_limits<float>::infinity()}) {
      EXPECT_GT(std::count(results[0].begin(), results[0].end(), kept), 0) << kept;
    }
  }
}

// A convolution of few channels, with a relu, a pooling, and their gradients.
struct PooledConvolution {
  enum class Change {
    none,
    inference,
    no_relu,
    result_is_read,
    dx_is_wanted,
    image_changes_before_the_gradient,
    filters_change_before_the_gradient,
    result_is_reshaped,
    means_overlap_the_image
  };
  std::string name;
  bool fuses, fuses_gradient;
  Shape images{2, 6, 20, 1}, filters{32, 3, 3, 1};
  Conv2dOptions options{.pad_before = {1, 1}, .pad_after = {1, 1}};
  Change change = Change::none;
  bool has_bias = true, is_narrow_bias = true;
};

// The rule applies on a GPU, in 16 bits, unless something else needs the convolution's result.
TEST_P(RewriteTest, ConvolutionOfFewChannelsFusesThePoolingAfterIt) {
  using Change = PooledConvolution::Change;
  const Shape images{2, 6, 20, 1}, filters{32, 3, 3, 1};
  const Conv2dOptions same = {.pad_before = {1, 1}, .pad_after = {1, 1}};
  const std::vector<PooledConvolution> all{
      {"training", true, true},
      {"inference", true, false, images, filters, same, Change::inference},
      {"several rounds of squares", true, true, {2, 28, 28, 1}},
      {"several images for each block", true, true, {600, 2, 2, 1}, {32, 1, 1, 1}, {}},
      {"two products, more filters", true, true, {2, 8, 8, 3}, {64, 3, 3, 3}},
      {"several bands", true, true, {1, 12, 90, 15}, {32, 1, 1, 15}, {}},
      {"stride and dilation", true, true, {2, 11, 12, 2}, {32, 2, 3, 2}, {.stride = {2, 1}, .dilation = {3, 2}}},
      {"no bias", true, true, images, filters, same, Change::none, false},
      {"f32 bias and gradients", true, true, images, filters, same, Change::none, true, false},
      {"odd sizes", false, false, {2, 7, 20, 1}},
      {"no relu", false, false, images, filters, same, Change::no_relu},
      {"result is read", false, false, images, filters, same, Change::result_is_read},
      {"dx is wanted", false, false, images, filters, same, Change::dx_is_wanted},
      {"image changes", false, false, images, filters, same, Change::image_changes_before_the_gradient},
      {"filters change", false, false, images, filters, same, Change::filters_change_before_the_gradient},
      {"result is reshaped", false, false, images, filters, same, Change::result_is_reshaped},
      {"means overlap the image", false, false, images, filters, same, Change::means_overlap_the_image},
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (device().is_cpu() && dtype != DType::f32) continue;
    const bool can = device().is_cuda() && dtype != DType::f32;
    for (const PooledConvolution& of : all) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(dtype), of.name));
      const auto is = [&](Change change) { return of.change == change; };
      const Shape result = conv2d_shape(of.images, of.filters, of.options);
      const Shape pooled =
          is(Change::result_is_reshaped) ? Shape{result[0], result[1] * 2, result[2] / 2, result[3]} : result;
      const Shape means = pool_shape(pooled, {});
      const DType bias_dtype = of.is_narrow_bias ? dtype : DType::f32;
      if (dtype == DType::f16 && (!of.fuses_gradient || of.images[0] > 500))
        continue;  // the rule treats both alike, and kernels take long
      std::vector<std::vector<std::vector<unsigned char>>> bytes;
      for (const char* setting : {"0", "1"}) {
        const test::RewriteSetting rewriting(setting);
        unsigned seed = 0;
        const auto kept = [&](const Shape& shape, DType as) {
          kept_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * 4));
          const Tensor tensor(kept_.back().data(), as, shape, device());
          std::mt19937 random(++seed);
          std::uniform_real_distribution<float> uniform(-1, 1);
          std::vector<float> values(static_cast<std::size_t>(shape.count()));
          for (float& value : values) value = uniform(random);
          const Buffer memory = stream().allocate(values.size() * 4);
          stream().copy(memory.data(), values.data(), values.size() * 4);
          cast(tensor, Tensor(memory.place(), DType::f32, shape, device()), stream());
          stream().synchronize();
          return tensor;
        };
        const Tensor image = kept(of.images, dtype), w = kept(of.filters, dtype), slopes = kept(means, dtype);
        const Tensor b = kept({of.filters[0]}, bias_dtype), other = kept(of.images, dtype), y = kept(means, dtype);
        const Tensor x = is(Change::means_overlap_the_image) ? Tensor(y.raw(), dtype, of.images, device()) : image;
        const std::vector<Tensor> results{y, kept(of.filters, bias_dtype), kept({of.filters[0]}, bias_dtype),
                                          kept(of.images, dtype), kept(result, dtype)};
        std::vector<Buffer> temporaries;
        const auto temporary = [&](const Shape& shape) {
          temporaries.push_back(stream().allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
          return Tensor(temporaries.back().place(), dtype, shape, device());
        };
        const auto body = [&] {
          const Tensor z = temporary(result), activated = is(Change::no_relu) ? z : temporary(result);
          conv2d(z, x, w, of.has_bias ? b : Tensor(), of.options, stream());
          if (!is(Change::no_relu)) test::relu(activated, z, stream());
          avg_pool(y, activated.reshape(pooled), {}, stream());
          if (is(Change::result_is_read)) copy(results[4], activated, stream());
          if (is(Change::image_changes_before_the_gradient)) copy(x, other, stream());
          if (is(Change::filters_change_before_the_gradient)) fill(w, 0.5, stream());
          if (!is(Change::inference) && !is(Change::means_overlap_the_image)) {
            const Tensor dy = temporary(result), dz = is(Change::no_relu) ? dy : temporary(result);
            avg_pool_backward(dy.reshape(pooled), slopes, {}, stream());
            if (!is(Change::no_relu)) test::relu_backward(dz, dy, activated, stream());
            conv2d_backward(is(Change::dx_is_wanted) ? results[3] : Tensor(), results[1],
                            of.has_bias ? results[2] : Tensor(), dz, x, w, of.options, stream());
          }
          temporaries.clear();
        };
        const Graph graph = rules::record(stream(), body);
        std::vector<std::string> names;
        for (const Program::Node& node : graph.program().nodes()) names.push_back(node.op);
        const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
        const bool all_rules = *setting == '1';
        EXPECT_EQ(has("conv2d_avg_pool"), all_rules && can && of.fuses) << fmt::format("{}", fmt::join(names, " "));
        EXPECT_EQ(has("conv2d_avg_pool_backward"), all_rules && can && of.fuses_gradient)
            << fmt::format("{}", fmt::join(names, " "));
        EXPECT_TRUE(!(all_rules && can && of.fuses_gradient) || names.size() == 2u);
        graph.replay(stream());
        auto& of_results = bytes.emplace_back();
        for (const Tensor& tensor : results) {
          of_results.emplace_back(tensor.bytes());
          stream().copy(of_results.back().data(), tensor.raw(), tensor.bytes());
        }
        stream().synchronize();
      }
      for (std::size_t i = 0; i < bytes[0].size(); ++i) {
        EXPECT_EQ(bytes[0][i], bytes[1][i]) << i;
      }
    }
  }
}

// The rule applies on a GPU only, and not if anything else reads the term, or uses the sum before the term is added.
TEST_P(RewriteTest, FurtherGradientsOfAWeightAreAddedInPlace) {
  const auto floats = [&](const Shape& shape, double value) {
    kept_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * 4));
    const Tensor tensor(kept_.back().place(), DType::f32, shape, device());
    fill(tensor, value, stream());
    return tensor;
  };
  const test::RewriteSetting alone("-fuse_expressions");
  const Tensor dz = floats({2, 3}, 0.5), x = floats({2, 4}, 3), w = floats({4, 3}, 1), sum = floats({4, 3}, 10);
  const Tensor other = floats({4, 3}, 0);
  enum Case {
    plain,
    turned_round,
    again,
    term_is_read,
    first_is_read,
    sum_is_read,
    sum_is_written,
    term_is_held,
    doubled
  };
  const auto temporary = [&] {
    kept_.push_back(stream().allocate(48));
    return Tensor(kept_.back().place(), DType::f32, {4, 3}, device());
  };
  const auto record = [&](Case which) {
    return ops_of([&] {
      const Tensor first = temporary(), term = temporary();
      fill(first, 10, stream());
      dense_backward({}, term, {}, dz, x, w, stream());
      if (which == sum_is_read) copy(other, sum, stream());
      if (which == sum_is_written) fill(sum, 1, stream());
      if (which == doubled) {
        add(sum, term, term, stream());
      } else if (which == again) {
        add(sum, sum, term, stream());
      } else if (which == turned_round) {
        add(sum, term, first, stream());
      } else {
        add(sum, first, term, stream());
      }
      if (which == term_is_read) scale(other, term, 2, stream());
      if (which == first_is_read) scale(other, first, 2, stream());
      kept_.resize(kept_.size() - (which == term_is_held ? 1 : 2));
    });
  };
  using Names = std::vector<std::string>;
  const Names apart{"fill", "dense_backward", "add"};
  const bool is_done = device().is_cuda();
  EXPECT_EQ(record(plain), is_done ? (Names{"fill", "dense_backward_add"}) : apart);
  EXPECT_EQ(record(turned_round), is_done ? (Names{"fill", "dense_backward_add"}) : apart);
  EXPECT_EQ(record(again), is_done ? (Names{"dense_backward_add"}) : (Names{"dense_backward", "add"}));
  EXPECT_EQ(record(term_is_read), (Names{"fill", "dense_backward", "add", "scale"}));
  EXPECT_EQ(record(first_is_read), (Names{"fill", "dense_backward", "add", "scale"}));
  EXPECT_EQ(record(sum_is_read), (Names{"fill", "dense_backward", "copy", "add"}));
  EXPECT_EQ(record(sum_is_written), (Names{"fill", "dense_backward", "fill", "add"}));
  EXPECT_EQ(record(term_is_held), apart);
  EXPECT_EQ(record(doubled), (Names{"dense_backward", "add"}));
  const Tensor db = floats({3}, 0);
  const Graph graph = rules::record(stream(), [&] {
    const Tensor first = temporary(), term = temporary();
    fill(first, 10, stream());
    dense_backward({}, term, db, dz, x, w, stream());
    add(sum, first, term, stream());
    kept_.resize(kept_.size() - 2);
  });
  EXPECT_EQ(graph.program().nodes().size(), is_done ? 2u : 3u);
  graph.replay(stream(), 2);
  EXPECT_EQ(to_host<float>(sum, stream()), std::vector<float>(12, 13));
  EXPECT_EQ(to_host<float>(db, stream()), std::vector<float>(3, 1));

  // In between, the stream waits for another stream, which may use the sum.
  const Stream beside(device());
  EXPECT_EQ(ops_of([&] {
              Event forked(stream()), done(stream());
              forked.record(stream());
              beside.wait(forked);
              fill(sum, 1, beside);
              done.record(beside);
              const Tensor first = temporary(), term = temporary();
              fill(first, 10, stream());
              dense_backward({}, term, {}, dz, x, w, stream());
              stream().wait(done);
              add(sum, first, term, stream());
              kept_.resize(kept_.size() - 2);
            }),
            (Names{"fill", "fill", "dense_backward", "add"}));
  const test::RewriteSetting rewriting("-fuse_expressions,-add_in_place");
  EXPECT_EQ(record(plain), apart);
}

// A value that is still held, or has a second reader, must be written as well.
TEST_P(RewriteTest, ValueThatIsOnlyCopiedIsWrittenInPlace) {
  const auto leaf = [&](double value) {
    kept_.push_back(Buffer::allocate(device(), 16));
    const Tensor tensor(kept_.back().place(), DType::f32, {4}, device());
    fill(tensor, value, stream());
    return tensor;
  };
  const test::RewriteSetting alone("-fuse_expressions");
  const Tensor from = leaf(3), to = leaf(1), other = leaf(0);
  enum Case {
    plain,
    is_read_after,
    is_held,
    is_a_part,
    target_is_read,
    target_is_written,
    target_is_an_input,
    changes,
    twice
  };
  const auto record = [&](Case which) {
    return ops_of([&] {
      std::optional<Buffer> memory = stream().allocate(which == is_a_part ? 32 : 16);
      const Tensor value(memory->place(), DType::f32, {4}, device());
      scale(value, which == target_is_an_input ? to : from, 2, stream());
      if (which == is_a_part) fill({static_cast<float*>(value.place()) + 4, DType::f32, {4}, device()}, 1, stream());
      if (which == target_is_read) scale(other, to, 2, stream());
      if (which == target_is_written) fill(to, 7, stream());
      copy(to, value, stream());
      if (which == changes) fill(to, 7, stream());
      if (which == twice) copy(to, value, stream());
      if (which == is_read_after || which == changes) scale(other, value, 3, stream());
      if (which == is_held) kept_.push_back(*std::move(memory));
    });
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(record(plain), (Names{"scale"}));
  EXPECT_EQ(record(is_read_after), (Names{"scale", "scale"}));
  EXPECT_EQ(record(is_held), (Names{"scale", "copy"}));
  EXPECT_EQ(record(target_is_read), (Names{"scale", "scale", "copy"}));
  EXPECT_EQ(record(target_is_written), (Names{"scale", "fill", "copy"}));
  EXPECT_EQ(record(target_is_an_input), (Names{"scale"})) << "element by element";
  EXPECT_EQ(record(changes), (Names{"scale", "copy", "fill", "scale"}));
  EXPECT_EQ(record(is_a_part), (Names{"scale"}));
  EXPECT_EQ(record(twice), (Names{"scale", "copy", "copy"})) << "no copy of the target to itself";
}

// Nor is it where the op that copies it also reads what the target held.
TEST_P(RewriteTest, ValueIsNotWrittenOverWhatTheOpThatCopiesItReads) {
  const test::RewriteSetting alone("-fuse_expressions");
  const auto leaf = [&](double value) {
    kept_.push_back(Buffer::allocate(device(), 16));
    const Tensor tensor(kept_.back().place(), DType::f32, {4}, device());
    fill(tensor, value, stream());
    return tensor;
  };
  const Tensor from = leaf(3), to = leaf(1), sum = leaf(0);
  const Graph graph = rules::record(stream(), [&] {
    const Buffer memory = stream().allocate(16);
    const Tensor value(memory.place(), DType::f32, {4}, device());
    scale(value, from, 2, stream());
    const expr::Layout layout = expr::broadcast_layout(value.shape(), value.shape());
    expr::Builder builder(value.shape());
    const expr::Term scaled = builder.read(value, layout), before = builder.read(to, layout);
    scaled.write(to, layout);
    (scaled + before).write(sum, layout);
    queue("add", std::move(builder).take(), stream());
  });
  graph.replay(stream());
  EXPECT_EQ(to_host<float>(to, stream()), std::vector<float>(4, 6));
  EXPECT_EQ(to_host<float>(sum, stream()), std::vector<float>(4, 7));
}

// One of two values that are added is computed in the leaf that gets their sum, unless something else needs the value,
// or what is in the leaf until then.
TEST_P(RewriteTest, ValueIsComputedInTheLeafThatItIsAddedTo) {
  const test::RewriteSetting alone("-fuse_expressions,-write_in_place");
  const test::ArenaSetting arena("1");
  constexpr std::size_t kBytes = 256;
  const auto leaf = [&](double value) {
    kept_.push_back(Buffer::allocate(device(), kBytes));
    const Tensor tensor(kept_.back().place(), DType::f32, {8, 8}, device());
    fill(tensor, value, stream());
    return tensor;
  };
  enum Case { plain, is_held, is_read_after, leaf_is_read, leaf_is_added, leaf_is_written, is_a_column };
  // The temporaries that remain, and the first and last elements of the sum 2 * 3 + 5 * 3, which may have 1 added.
  const auto check = [&](Case which, std::size_t temporaries, float first, float last) {
    const Tensor x = leaf(3), sum = leaf(1), other = leaf(0);
    std::optional<Buffer> held;
    const Graph graph = rules::record(stream(), [&] {
      Buffer of_a = stream().allocate(kBytes);
      const Buffer of_b = stream().allocate(kBytes);
      const Tensor a(of_a.place(), DType::f32, {8, 8}, device()), b(of_b.place(), DType::f32, {8, 8}, device());
      scale(a, x, 2, stream());
      scale(b, x, 5, stream());
      if (which == leaf_is_read) copy(other, sum, stream());
      if (which == leaf_is_written) fill(sum, 7, stream());
      const Shape space = which == is_a_column ? Shape{8} : sum.shape();
      expr::Layout layout = expr::broadcast_layout(space, space);
      if (which == is_a_column) layout.strides[0] = 8;
      expr::Builder builder(space);
      expr::Term result = builder.read(a, layout) + builder.read(b, layout);
      if (which == leaf_is_added) result = builder.read(sum, layout) + result;
      result.write(sum, layout);
      queue("add", std::move(builder).take(), stream());
      if (which == is_read_after) copy(other, a, stream());
      if (which == is_held) held = std::move(of_a);
    });
    for (int i = 0; i < 2; ++i) {
      fill(sum, 1, stream());
      graph.replay(stream());
    }
    EXPECT_EQ(graph.program().memory(), temporaries * kBytes) << which;
    const std::vector<float> sums = to_host<float>(sum, stream());
    EXPECT_EQ(sums.front(), first) << which;
    EXPECT_EQ(sums.back(), last) << which;
    const float copied = which == is_read_after ? 6 : which == leaf_is_read ? 1 : 0;
    EXPECT_EQ(to_host<float>(other, stream()).front(), copied) << which;
  };
  check(plain, 1, 21, 21);
  check(is_held, 0, 21, 21);  // the second value is in the leaf instead
  check(is_read_after, 1, 21, 21);
  check(leaf_is_read, 2, 21, 21);
  check(leaf_is_added, 2, 22, 22);
  check(leaf_is_written, 2, 21, 21);
  check(is_a_column, 2, 21, 1);  // the rest of the leaf stays
}

TEST_P(RewriteTest, ReadValuesAreKept) {
  Buffer held;
  const Buffer row = Buffer::allocate(device(), 16);
  const auto names = ops_of([&] {
    held = stream().allocate(4);
    const Tensor scalar(held.place(), DType::f32, {}, device()), out(row.place(), DType::f32, {4}, device());
    fill(scalar, 2, stream());
    broadcast(out, scalar, 0.5, stream());
  });
  EXPECT_EQ(names, (std::vector<std::string>{"fill", "broadcast"}));
}

TEST_P(RewriteTest, UnreadValuesAreDropped) {
  const Buffer leaf = Buffer::allocate(device(), 16), ring = Buffer::allocate(device(), 64, MemoryKind::pinned);
  const Tensor out(leaf.place(), DType::f32, {4}, device()), row(leaf.place(), DType::i64, {}, device());
  Buffer held;
  EXPECT_EQ(ops_of([&] {
              const Buffer one = stream().allocate(16), two = stream().allocate(16), three = stream().allocate(4);
              held = stream().allocate(16);
              const auto floats = [&](const Buffer& at) { return Tensor(at.place(), DType::f32, {4}, device()); };
              scale(floats(one), out, 3, stream());          // only the next op reads it
              scale(floats(two), floats(one), 2, stream());  // nothing reads it
              sum(Tensor(three.place(), DType::f32, {}, device()), out, stream());
              scale(floats(held), out, 3, stream());
              publish_row({.words = static_cast<std::uint64_t*>(ring.data()), .capacity = 1}, row, {}, stream());
              scale(out, out, 4, stream());
            }),
            device().is_cuda() ? (std::vector<std::string>{"scale+publish", "scale"})
                               : (std::vector<std::string>{"scale", "publish_columns", "scale"}));
}

}  // namespace
}  // namespace giro
