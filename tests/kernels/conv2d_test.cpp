#include <giro/kernels/conv2d.h>

#include <optional>

#include "tests/kernels/convolutions.h"
#include "tests/kernels/declined.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/sanitized.h"

#include "kernels/cpu/winograd.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/few_channels.h"

#if GIRO_WITH_CUDA
#include "kernels/cuda/own_conv2d.h"
#include "kernels/elementwise.h"
#include "runtime/program/op.h"
#include "tests/support/tensor_ops.h"
#endif

namespace giro {
namespace {

using test::Array, test::Convolution, test::convolutions, test::Expected, test::kLeafAlignment, test::same,
    test::Tensors;
using Values = std::vector<double>;

Expected forward(const Convolution& conv, const Values& x, const Values& w, const Values& b,
                 Precision precision = Precision::f32) {
  const auto channels = static_cast<std::size_t>(conv.w[0]);
  Values sum(static_cast<std::size_t>(conv.y().count())), magnitude(sum.size());
  conv.for_each_product([&](auto i_y, auto i_x, auto i_w, auto n) {
    const double *const xs = &x[i_x], *const ws = &w[i_w];
    double of_y = 0, magnitude_of_y = 0;
    for (std::int64_t c = 0; c < n; ++c) {
      const double product = xs[c] * ws[c];
      of_y += product;
      magnitude_of_y += std::abs(product);
    }
    sum[i_y] += of_y;
    magnitude[i_y] += magnitude_of_y;
  });
  Expected y;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double bias = b.empty() ? 0 : b[i % channels];
    y.add(sum[i] + bias, test::sum_tolerance(conv.w.count() / conv.w[0] + 1, magnitude[i] + std::abs(bias)) +
                             test::factor_error(precision, magnitude[i]));
  }
  return y;
}

struct Gradients {
  Expected dx, dw, db;
};

Gradients backward(const Convolution& conv, const Values& dz, const Values& x, const Values& w,
                   Precision precision = Precision::f32) {
  Values dx(x.size()), dw(w.size()), db(static_cast<std::size_t>(conv.w[0]));
  Values dx_magnitude(dx.size()), dw_magnitude(dw.size()), db_magnitude(db.size());
  conv.for_each_product([&](auto i_y, auto i_x, auto i_w, auto n) {
    const double dy = dz[i_y], *const xs = &x[i_x], *const ws = &w[i_w];
    double *const dxs = &dx[i_x], *const dws = &dw[i_w];
    double *const dxs_magnitude = &dx_magnitude[i_x], *const dws_magnitude = &dw_magnitude[i_w];
    for (std::int64_t c = 0; c < n; ++c) {
      const double to_x = dy * ws[c], to_w = dy * xs[c];
      dxs[c] += to_x;
      dxs_magnitude[c] += std::abs(to_x);
      dws[c] += to_w;
      dws_magnitude[c] += std::abs(to_w);
    }
  });
  for (std::size_t i = 0; i < dz.size(); ++i) {
    db[i % db.size()] += dz[i];
    db_magnitude[i % db.size()] += std::abs(dz[i]);
  }
  const std::int64_t pixels = conv.y().count() / conv.w[0];
  Gradients g;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    g.dx.add(dx[i], test::sum_tolerance(conv.w.count() / conv.x[3], dx_magnitude[i]) +
                        test::factor_error(precision, dx_magnitude[i]));
  }
  for (std::size_t i = 0; i < dw.size(); ++i) {
    g.dw.add(dw[i], test::sum_tolerance(pixels, dw_magnitude[i]) + test::factor_error(precision, dw_magnitude[i]));
  }
  for (std::size_t i = 0; i < db.size(); ++i) g.db.add(db[i], test::sum_tolerance(pixels, db_magnitude[i]));
  return g;
}

class Conv2dTest : public test::OpTest {
 protected:
  void check_forward(const std::vector<Convolution>& all);
  void check_backward(const std::vector<Convolution>& all);
  void check_other_precisions(const Convolution& conv);
  void check_nan_and_infinities(const std::vector<Convolution>& all);
};
INSTANTIATE_TEST_SUITE_P(Devices, Conv2dTest, test::kDevices, test::device_name);

void Conv2dTest::check_forward(const std::vector<Convolution>& all) {
  for (const Convolution& conv : all) {
    const double range = std::sqrt(3.0 * static_cast<double>(conv.w[0]) / static_cast<double>(conv.w.count()));
    const Array x = random_.uniform(conv.x), w = random_.uniform(conv.w, -range, range);
    const Array b = random_.uniform({conv.w[0]});
    for (const bool with_bias : {true, false}) {
      check(
          {.name = fmt::format("{}, {} bias", conv.name, with_bias ? "with" : "no"),
           .inputs = {x, w, b},
           .outputs = {{DType::f32, conv.y(), {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { conv2d(out[0], in[0], in[1], with_bias ? in[2] : Tensor{}, conv.options, s); },
           .expected = {forward(conv, x.values, w.values, with_bias ? b.values : Values{})},
           .alignment = kLeafAlignment});
    }
  }
}

void Conv2dTest::check_backward(const std::vector<Convolution>& all) {
  for (const Convolution& conv : all) {
    SCOPED_TRACE(conv.name);
    const Array x = random_.uniform(conv.x), w = random_.uniform(conv.w), dz = random_.uniform(conv.y());
    const Gradients g = backward(conv, dz.values, x.values, w.values);
    const Array dx{DType::f32, conv.x, {}}, dw{DType::f32, conv.w, {}}, db{DType::f32, {conv.w[0]}, {}};

    const auto gradients = check(
        {.name = "all",
         .inputs = {dz, x, w},
         .outputs = {dx, dw, db},
         .run = [=](const Tensors& out, const Tensors& in,
                    const Stream& s) { conv2d_backward(out[0], out[1], out[2], in[0], in[1], in[2], conv.options, s); },
         .expected = {g.dx, g.dw, g.db},
         .alignment = kLeafAlignment});
    check({.name = "dw and db",
           .inputs = {dz, x, w},
           .outputs = {dw, db},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { conv2d_backward({}, out[0], out[1], in[0], in[1], in[2], conv.options, s); },
           .expected = {g.dw, g.db},
           .alignment = kLeafAlignment});
    check({.name = "dx and dw",
           .inputs = {dz, x, w},
           .outputs = {dx, dw},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { conv2d_backward(out[0], out[1], {}, in[0], in[1], in[2], conv.options, s); },
           .expected = {g.dx, g.dw},
           .alignment = kLeafAlignment});
    check({.name = "db",
           .inputs = {dz, x, w},
           .outputs = {db},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { conv2d_backward({}, {}, out[0], in[0], in[1], in[2], conv.options, s); },
           .expected = {g.db},
           .alignment = kLeafAlignment});

    if (conv.y().count() * conv.w.count() > 60'000) continue;
    const Values b(static_cast<std::size_t>(conv.w[0]), 0.5);
    const auto contracted = [&](const Values& x_, const Values& w_, const Values& b_) {
      return test::contracted(dz.values, forward(conv, x_, w_, b_).values);
    };
    test::expect_finite_differences("dx", gradients[0], g.dx, x.values,
                                    [&](const Values& v) { return contracted(v, w.values, b); });
    test::expect_finite_differences("dw", gradients[1], g.dw, w.values,
                                    [&](const Values& v) { return contracted(x.values, v, b); });
    test::expect_finite_differences("db", gradients[2], g.db, b,
                                    [&](const Values& v) { return contracted(x.values, w.values, v); });
  }
}

// Inputs are rounded to the dtype first, so the products are exact in f32. dx, dw (which cuDNN computes in 16 bits) and
// y are stored in 16 bits; y twice if the bias is added in a separate pass.
void Conv2dTest::check_other_precisions(const Convolution& conv) {
  for (const Precision precision : test::other_precisions(device())) {
    const DType dtype = compute_dtype(precision);
    SCOPED_TRACE(fmt::format("{}, {}", conv.name, name_of(precision)));
    const Array x = random_.uniform(conv.x, -1, 1, dtype), w = random_.uniform(conv.w, -1, 1, dtype);
    const Array dz = random_.uniform(conv.y(), -1, 1, dtype);
    for (const DType bias_dtype : {DType::f32, dtype}) {
      const Array b = random_.uniform({conv.w[0]}, -1, 1, bias_dtype);
      Expected y = forward(conv, x.values, w.values, {}, precision).stored_as(dtype);
      for (std::size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] += b.values[i % b.values.size()];
        y.tolerances[i] += 4 * test::kUnit;  // of the bias
      }
      check({.name = fmt::format("forward, bias {}", name_of(bias_dtype)),
             .inputs = {x, w, b},
             .outputs = {{dtype, conv.y(), {}}},
             .run =
                 [=](const Tensors& out, const Tensors& in, const Stream& s) {
                   conv2d(out[0], in[0], in[1], in[2], conv.options, math_mode_of(precision), s);
                 },
             .expected = {y.stored_as(dtype)},
             .alignment = kLeafAlignment});
    }
    const Gradients g = backward(conv, dz.values, x.values, w.values, precision);
    for (const DType of_weights : {DType::f32, dtype}) {
      check({.name = fmt::format("backward, dw {}", name_of(of_weights)),
             .inputs = {dz, x, w},
             .outputs = {{dtype, conv.x, {}}, {of_weights, conv.w, {}}, {of_weights, {conv.w[0]}, {}}},
             .run =
                 [=](const Tensors& out, const Tensors& in, const Stream& s) {
                   conv2d_backward(out[0], out[1], out[2], in[0], in[1], in[2], conv.options, math_mode_of(precision),
                                   s);
                 },
             .expected = {g.dx.stored_as(dtype), g.dw.stored_as(dtype), g.db.stored_as(of_weights)},
             .alignment = kLeafAlignment});
    }
  }
}

TEST_P(Conv2dTest, OtherPrecisions) {
  // The dtype does not affect how a window moves, so a few cases are enough.
  int found = 0;
  for (const Convolution& conv : convolutions()) {
    const std::string& name = conv.name;
    if (name == "several tiles" || name == "asymmetric" || name == "depthwise" || name == "groups, dilation, stride") {
      check_other_precisions(conv);
      ++found;
    }
  }
  EXPECT_EQ(found, 4);
}

TEST_P(Conv2dTest, Tf32IsUsedOnlyOnRequest) {
  const bool has_tf32 = test::computes_in(Precision::tf32, device());
  const Shape one{1, 4, 4, 1}, filter{1, 1, 1, 1};
  const Array x{DType::f32, one, Values(16, 1 + 0x1p-12)}, w{DType::f32, filter, {1}};
  for (const bool is_tf32 : {true, false}) {
    check({.name = is_tf32 ? "tf32" : "f32",
           .inputs = {x, w},
           .outputs = {{DType::f32, one, {}}},
           .run =
               [=](const Tensors& out, const Tensors& in, const Stream& s) {
                 conv2d(out[0], in[0], in[1], {}, {}, is_tf32 ? MathMode::tf32 : MathMode::f32, s);
               },
           .expected = {{Values(16, is_tf32 && has_tf32 ? 1 : 1 + 0x1p-12), Values(16, 0)}},
           .alignment = kLeafAlignment});
  }
}

TEST_P(Conv2dTest, Forward) { check_forward(convolutions()); }
TEST_P(Conv2dTest, Backward) { check_backward(convolutions()); }

void Conv2dTest::check_nan_and_infinities(const std::vector<Convolution>& all) {
  for (const Convolution& conv : all) {
    Array x = random_.uniform(conv.x), w = random_.uniform(conv.w), b = random_.uniform({conv.w[0]});
    x.values.front() = test::kNaN;
    b.values.front() = -test::kInfinity;
    b.values.back() = test::kNaN;
    const Expected y = forward(conv, x.values, w.values, b.values).with_exact_infinities();
    check({.name = conv.name,
           .inputs = {x, w, b},
           .outputs = {{DType::f32, conv.y(), {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { conv2d(out[0], in[0], in[1], in[2], conv.options, s); },
           .expected = {y},
           .alignment = kLeafAlignment});
  }
}

TEST_P(Conv2dTest, KeepsNaNAndInfinities) { check_nan_and_infinities(convolutions()); }

// Convolutions for which a GPU has a kernel of its own in 16 bits.
class FewChannelsTest : public Conv2dTest {
 protected:
  static std::vector<Convolution> shapes() {
    return {
        same("first layer", {3, 28, 28, 1}, {32, 3, 3, 1}),
        same("three channels, odd sizes", {2, 9, 11, 3}, {64, 3, 3, 3}),
        {"one column", {2, 3, 1, 1}, {32, 1, 1, 1}, {}},
        {"as many terms as possible", {1, 4, 40, 1}, {32, 1, 31, 1}, {}},
        {"15 terms and a bias in one product", {1, 6, 9, 5}, {32, 3, 1, 5}, {}},
        {"16 terms", {1, 6, 9, 4}, {32, 2, 2, 4}, {}},
        {"several images for each block", {530, 2, 2, 1}, {32, 1, 1, 1}, {}},
        {"asymmetric", {1, 13, 12, 2}, {32, 2, 3, 2}, {.stride = {2, 3}, .pad_before = {0, 1}, .pad_after = {2, 0}}},
        {"dilation", {1, 11, 12, 2}, {32, 3, 2, 2}, {.pad_before = {1, 0}, .dilation = {2, 5}}},
        {"stride beyond the window", {1, 9, 9, 2}, {32, 2, 2, 2}, {.stride = {4, 3}}},
        same("several bands", {1, 11, 90, 15}, {32, 1, 1, 15}),
        same("a wide row", {1, 5, 160, 31}, {32, 1, 1, 31}),
    };
  }
  // The emulated GPU takes a second for one.
  static bool has_many_blocks(const Convolution& conv) { return conv.x[0] > 500; }
};
INSTANTIATE_TEST_SUITE_P(Devices, FewChannelsTest, ::testing::Values(Device::Kind::cuda), test::device_name);

TEST_P(FewChannelsTest, SupportsOnlyTheseShapes) {
  const auto fits = [](const Convolution& c, DType dtype = DType::bf16) {
    return static_cast<bool>(FewChannels(c.x, c.w, c.options, dtype));
  };
  for (const Convolution& conv : shapes()) EXPECT_TRUE(fits(conv)) << conv.name;
  const Shape x{1, 9, 9, 2}, w{32, 3, 3, 2};
  EXPECT_TRUE(fits({"", x, w, {}}, DType::f16));
  EXPECT_FALSE(fits({"", x, w, {}}, DType::f32));
  EXPECT_FALSE(fits({"", {0, 9, 9, 2}, w, {}}));
  EXPECT_FALSE(fits({"", x, {33, 3, 3, 2}, {}}));
  EXPECT_FALSE(fits({"", x, {32, 4, 4, 2}, {}}));
  EXPECT_FALSE(fits({"", x, {32, 3, 3, 1}, {.groups = 2}}));
  EXPECT_FALSE(fits({"", {1, 9, 12'000, 1}, {32, 3, 3, 1}, {}}));
  EXPECT_FALSE(fits({"one row", {4, 1, 90, 1}, {32, 1, 5, 1}, {}}));
  EXPECT_FALSE(fits({"filters", {1, 4, 4, 1}, {std::int64_t{1} << 22, 1, 1, 1}, {}}));
  const auto band = [](const Shape& images, const Shape& filters) {
    return FewChannels(images, filters, {.pad_before = {1, 1}, .pad_after = {1, 1}}, DType::bf16);
  };
  const FewChannels whole = band({1024, 28, 28, 1}, {32, 3, 3, 1}), few_images = band({32, 28, 28, 1}, {32, 3, 3, 1}),
                    large = band({256, 224, 224, 3}, {64, 3, 3, 3});
  EXPECT_EQ(whole.band, 14);
  EXPECT_EQ(whole.band_height, 30);
  EXPECT_EQ(whole.band_width, 30);
  EXPECT_EQ(whole.blocks, 528);
  EXPECT_EQ(few_images.band, 3) << "rows of 14 squares for at least 32";
  EXPECT_EQ(few_images.blocks, 160);
  EXPECT_EQ(large.band, 5) << "a row of 226 pixels takes 1,356 of 16,384 bytes";
  EXPECT_EQ(large.blocks, 198);
}

TEST_P(FewChannelsTest, Forward) {
  for (const Convolution& conv : shapes()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Array x = random_.uniform(conv.x, -1, 1, dtype), w = random_.uniform(conv.w, -1, 1, dtype);
      if (dtype == DType::f16 && has_many_blocks(conv)) continue;
      for (const std::optional<DType> bias :
           {std::optional(DType::f32), std::optional(dtype), std::optional<DType>()}) {
        const Array b = random_.uniform({conv.w[0]}, -1, 1, bias.value_or(dtype));
        if (bias != dtype && has_many_blocks(conv)) continue;
        check({.name = fmt::format("{}, {}, bias {}", conv.name, name_of(dtype), bias ? name_of(*bias) : "none"),
               .inputs = {x, w, b},
               .outputs = {{dtype, conv.y(), {}}},
               .run = [=](const Tensors& out, const Tensors& in,
                          const Stream& s) { conv2d(out[0], in[0], in[1], bias ? in[2] : Tensor(), conv.options, s); },
               .expected = {forward(conv, x.values, w.values, bias ? b.values : Values()).stored_as(dtype)}});
      }
    }
  }
}

TEST_P(FewChannelsTest, Backward) {
  for (const Convolution& conv : shapes()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Array x = random_.uniform(conv.x, -1, 1, dtype), dz = random_.uniform(conv.y(), -1, 1, dtype);
      const Gradients g = backward(conv, dz.values, x.values, Values(static_cast<std::size_t>(conv.w.count())));
      for (const DType of_weights : {DType::f32, dtype}) {
        const bool with_db = of_weights == DType::f32;
        // f16 differs from bf16 only where an element is converted, and so do gradients in another dtype.
        const bool is_plain = dtype == DType::bf16 && with_db;
        if (!is_plain && conv.name != "three channels, odd sizes" && conv.name != "asymmetric") continue;
        std::vector<Array> outputs{{of_weights, conv.w, {}}, {of_weights, {conv.w[0]}, {}}};
        std::vector<Expected> expected{g.dw.stored_as(of_weights), g.db.stored_as(of_weights)};
        if (!with_db) outputs.pop_back(), expected.pop_back();
        check({.name = fmt::format("{}, {}, dw {}", conv.name, name_of(dtype), name_of(of_weights)),
               .inputs = {dz, x, random_.uniform(conv.w, -1, 1, dtype)},
               .outputs = outputs,
               .run =
                   [=](const Tensors& out, const Tensors& in, const Stream& s) {
                     conv2d_backward({}, out[0], with_db ? out[1] : Tensor(), in[0], in[1], in[2], conv.options, s);
                   },
               .expected = expected});
      }
    }
  }
}

// A NaN or an infinity reaches what it belongs to, and nothing else: some terms of a product, and some pixels of a
// square, do not exist.
TEST_P(FewChannelsTest, KeepsNaNAndInfinities) {
  for (const Convolution& conv : shapes()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      if (has_many_blocks(conv) || (dtype == DType::f16 && conv.x.count() > 1000)) continue;
      Array x = random_.uniform(conv.x, -1, 1, dtype), dz = random_.uniform(conv.y(), -1, 1, dtype);
      Array w = random_.uniform(conv.w, -1, 1, dtype), b = random_.uniform({conv.w[0]}, -1, 1, dtype);
      x.values.front() = test::kNaN;
      x.values.back() = test::kInfinity;
      b.values.front() = -test::kInfinity;
      b.values.back() = test::kNaN;
      check({.name = fmt::format("{}, {}", conv.name, name_of(dtype)),
             .inputs = {x, w, b},
             .outputs = {{dtype, conv.y(), {}}},
             .run = [=](const Tensors& out, const Tensors& in,
                        const Stream& s) { conv2d(out[0], in[0], in[1], in[2], conv.options, s); },
             .expected = {forward(conv, x.values, w.values, b.values).stored_as(dtype).with_exact_infinities()}});
      const Gradients g = backward(conv, dz.values, x.values, w.values);
      check({.name = fmt::format("{}, {}, backward", conv.name, name_of(dtype)),
             .inputs = {dz, x, w},
             .outputs = {{DType::f32, conv.w, {}}, {DType::f32, {conv.w[0]}, {}}},
             .run = [=](const Tensors& out, const Tensors& in,
                        const Stream& s) { conv2d_backward({}, out[0], out[1], in[0], in[1], in[2], conv.options, s); },
             .expected = {g.dw.with_exact_infinities(), g.db}});
    }
  }
}

// Convolutions that the CPU computes with Winograd's algorithm.
class WinogradTest : public Conv2dTest {
 protected:
  static std::vector<Convolution> shapes() {
    const Shape w{32, 3, 3, 32};
    return {
        same("odd sizes", {1, 11, 13, 32}, {64, 3, 3, 32}),
        same("several blocks", {1, 17, 30, 32}, w),
        {"no padding", {1, 14, 13, 32}, w, {}},
        {"wide padding", {1, 8, 14, 32}, w, {.pad_before = {2, 2}, .pad_after = {2, 2}}},
        {"uneven padding", {2, 9, 8, 32}, w, {.pad_before = {0, 2}, .pad_after = {1, 0}}},
    };
  }
  static std::vector<Convolution> some_shapes() {
    std::vector<Convolution> some = shapes();
    if (test::kSanitized) some.erase(some.begin() + 1, some.end() - 1);
    return some;
  }
  template <class F>
  static void for_each_instruction_set(F f) {
    const expr::InstructionSet best = expr::instruction_set();
    for (const auto set : {expr::kBaseline, expr::kAvx2, expr::kAvx512}) {
      if (expr::use_instruction_set(set)) f();
    }
    expr::use_instruction_set(best);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, WinogradTest, ::testing::Values(Device::Kind::cpu), test::device_name);

TEST_P(WinogradTest, SupportsOnlyTheseShapes) {
  const auto fits = [](const Convolution& c, DType dtype = DType::f32) {
    return cpu::winograd::fits(c.x, c.w, c.y(), dtype, c.options);
  };
  for (const Convolution& conv : shapes()) EXPECT_TRUE(fits(conv)) << conv.name;
  const Shape x{1, 16, 16, 32}, w{32, 3, 3, 32};
  EXPECT_TRUE(fits({"", x, w, {}}));
  EXPECT_FALSE(fits({"", x, w, {}}, DType::bf16));
  EXPECT_FALSE(fits({"", x, w, {.pad_before = {3, 0}}}));
  EXPECT_FALSE(fits({"", {1, 32, 32, 32}, w, {.stride = {1, 2}}}));
  EXPECT_FALSE(fits({"", x, w, {.dilation = {2, 1}}}));
  EXPECT_FALSE(fits({"", {1, 16, 16, 64}, w, {.groups = 2}}));
  EXPECT_FALSE(fits({"", {1, 16, 16, 48}, {32, 3, 3, 48}, {}}));
  EXPECT_FALSE(fits({"", x, {48, 3, 3, 32}, {}}));
  EXPECT_FALSE(fits({"", x, {32, 3, 5, 32}, {}}));
  EXPECT_FALSE(fits({"127 pixels", {1, 129, 3, 32}, w, {}}));
}

TEST_P(WinogradTest, Forward) {
  for_each_instruction_set([&] { check_forward(some_shapes()); });
}
TEST_P(WinogradTest, Backward) {
  for_each_instruction_set([&] { check_backward(some_shapes()); });
}

TEST_P(WinogradTest, KeepsNaN) { check_nan_and_infinities(shapes()); }

// If cuDNN has no plan, giro's own kernels compute the same.
class DeclinedConv2dTest : public test::DeclinedTest<Conv2dTest> {
 protected:
  static std::vector<Convolution> small() {
    std::vector<Convolution> chosen = convolutions();
    std::erase_if(
        chosen, [](const Convolution& c) { return c.name != "several tiles" && c.y().count() * c.w.count() > 5'000; });
    return chosen;
  }
  // A tile has 64 x 64 elements, or 128 x 32 if there are at most 32 columns. Channels are loaded in quads where
  // possible.
  static std::vector<Convolution> tiles() {
    return {
        {"a pixel less, quads", {1, 9, 7, 4}, {64, 1, 1, 4}, {}},
        {"a pixel more", {1, 13, 5, 2}, {65, 1, 1, 2}, {}},
        {"a narrow tile, quads", {2, 8, 8, 4}, {32, 1, 1, 4}, {}},
        {"a pixel more than a narrow tile", {1, 3, 43, 1}, {31, 1, 1, 1}, {}},
        same("quads that are padded", {1, 5, 6, 4}, {8, 3, 3, 4}, {2, 1}),
        {"quads in groups", {1, 6, 5, 8}, {8, 3, 2, 4}, {.dilation = {2, 1}, .groups = 2}},
        {"several tiles in groups", {1, 9, 9, 6}, {140, 1, 1, 3}, {.groups = 2}},
    };
  }
  // Sums of at least 256 terms, which are split over blocks.
  static std::vector<Convolution> splits() {
    return {
        same("y, dx", {1, 2, 3, 32}, {36, 3, 3, 32}),
        {"dw", {2, 13, 12, 1}, {3, 2, 2, 1}, {}},
        {"dw, quads", {1, 18, 17, 4}, {4, 1, 1, 4}, {}},
        {"dw, groups", {1, 18, 17, 8}, {8, 1, 1, 4}, {.groups = 2}},
        {"y, dx, groups", {1, 1, 2, 264}, {264, 1, 2, 132}, {.groups = 2}},
    };
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DeclinedConv2dTest, ::testing::Values(Device::Kind::cuda), test::device_name);

TEST_P(DeclinedConv2dTest, Forward) { check_forward(small()); }
TEST_P(DeclinedConv2dTest, Backward) { check_backward(small()); }
TEST_P(DeclinedConv2dTest, TilesForward) { check_forward(tiles()); }
TEST_P(DeclinedConv2dTest, TilesBackward) { check_backward(tiles()); }
TEST_P(DeclinedConv2dTest, SplitsForward) { check_forward(splits()); }
TEST_P(DeclinedConv2dTest, SplitsBackward) { check_backward(splits()); }
TEST_P(DeclinedConv2dTest, KeepsNaNAndInfinities) {
  check_nan_and_infinities(tiles());
  check_nan_and_infinities(splits());
}
TEST_P(DeclinedConv2dTest, OtherPrecisions) {
  int found = 0;
  for (const Convolution& conv : convolutions()) {
    if (conv.name != "asymmetric" && conv.name != "several tiles") continue;
    check_other_precisions(conv);
    ++found;
  }
  EXPECT_EQ(found, 2);
  for (const Convolution& conv : splits()) check_other_precisions(conv);
}

TEST_P(DeclinedConv2dTest, RejectsImagesTooLargeForItsKernels) {
  const Shape shape{1, 1 << 15, 1 << 15, 1};
  const Tensor x(tensor({1}).raw(), DType::f32, shape, device()), y(tensor({1}).raw(), DType::f32, shape, device());
  expect_error(ErrorCode::unsupported,
               {to_string(shape), to_string(Shape{1, 1, 1, 1}), "f32", "cuDNN", "2^30", "1073741824"}, [&] {
                 conv2d(y, x, tensor({1, 1, 1, 1}), {}, {}, stream());
               });
}

// cuDNN's plans are made, but all of them fail when run.
class RefusedConv2dTest : public test::DeclinedTest<Conv2dTest, cuda_on_cpu::Decline::to_run_any> {};
INSTANTIATE_TEST_SUITE_P(Devices, RefusedConv2dTest, ::testing::Values(Device::Kind::cuda), test::device_name);

TEST_P(RefusedConv2dTest, FallsBackToOwnKernels) {
  const Convolution conv = same("", {2, 5, 4, 3}, {4, 3, 3, 3});
  check_forward({conv});
  check_backward({conv});
  check_other_precisions(conv);
}

#if GIRO_WITH_CUDA
struct TiledConv2d {
  static constexpr const char* kName = "tiled_conv2d";
  Out y{};
  In x{}, w{}, b{};
  bool relu = false;
  Conv2dOptions options{};
};
void run(const TiledConv2d& op, const Stream& stream) {
  cuda::tiled_conv2d(op.y, op.x, op.w, op.b, op.relu, op.options, stream);
}

// They are applied as y is stored, and round as separate ops would.
TEST_P(DeclinedConv2dTest, BiasAndRelu) {
  for (const Convolution& conv : {splits().front(), same("not split", {1, 4, 5, 3}, {5, 3, 3, 3}),
                                  Convolution{"groups", {1, 4, 5, 4}, {6, 3, 3, 2}, {.groups = 2}}}) {
    for (const auto& [dtype, bias_dtype] : {std::pair{DType::f32, DType::f32},
                                            {DType::bf16, DType::f32},
                                            {DType::bf16, DType::bf16},
                                            {DType::f16, DType::f16}}) {
      const Array x = random_.uniform(conv.x, -1, 1, dtype), w = random_.uniform(conv.w, -1, 1, dtype);
      const Array b = random_.uniform({conv.w[0]}, -1, 1, bias_dtype), y{dtype, conv.y(), {}};
      Expected expected = forward(conv, x.values, w.values, {}).stored_as(dtype);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        expected.values[i] = std::max(0.0, expected.values[i] + b.values[i % b.values.size()]);
        expected.tolerances[i] += 4 * test::kUnit;  // of the bias
      }
      const auto values =
          check({.name = fmt::format("{}, {}, bias {}", conv.name, name_of(dtype), name_of(bias_dtype)),
                 .inputs = {x, w, b},
                 .outputs = {y, y},
                 .run =
                     [=](const Tensors& out, const Tensors& in, const Stream& s) {
                       queue(TiledConv2d{out[0], in[0], in[1], in[2], true, conv.options}, s);
                       queue(TiledConv2d{.y = out[1], .x = in[0], .w = in[1], .options = conv.options}, s);
                       ops::add_bias(out[1], in[2], s);
                       ops::add_bias(out[1], {}, s, true);
                     },
                 .expected = {expected.stored_as(dtype), expected.stored_as(dtype)},
                 .alignment = kLeafAlignment});
      EXPECT_EQ(values[0], values[1]);
    }
  }
}
#endif

TEST(Conv2dShapeTest, SamePaddingRoundsTheQuotientUp) {
  for (const std::int64_t height : {1, 2, 5, 8, 28}) {
    for (const std::int64_t width : {1, 3, 7, 14}) {
      for (const std::int64_t kh : {1, 2, 3, 5}) {
        for (const std::int64_t kw : {1, 2, 3, 4}) {
          for (const std::int64_t stride : {1, 2, 3}) {
            const Conv2dOptions options = same_padding(height, width, {kh, kw}, {stride, stride});
            EXPECT_EQ(options.stride, (std::array<std::int64_t, 2>{stride, stride}));
            const Shape y = conv2d_shape({1, height, width, 1}, {1, kh, kw, 1}, options);
            EXPECT_EQ(y[1], (height + stride - 1) / stride);
            EXPECT_EQ(y[2], (width + stride - 1) / stride);
            const std::int64_t wanted = std::max<std::int64_t>(0, (y[1] - 1) * stride + kh - height);
            EXPECT_EQ(options.pad_before[0], wanted / 2);
            EXPECT_EQ(options.pad_after[0], wanted - wanted / 2);
            EXPECT_TRUE(options.pad_after[1] == options.pad_before[1] ||
                        options.pad_after[1] == options.pad_before[1] + 1);
          }
        }
      }
    }
  }
}

TEST(Conv2dShapeTest, SamePaddingOfDilatedWindows) {
  const Conv2dOptions options = same_padding(9, 8, {3, 2}, {1, 2}, {2, 3});
  EXPECT_EQ(options.dilation, (std::array<std::int64_t, 2>{2, 3}));
  EXPECT_EQ(conv2d_shape({1, 9, 8, 1}, {1, 3, 2, 1}, options), (Shape{1, 9, 4, 1}));
}

TEST(Conv2dShapeTest, TransposedShapeInvertsTheConvolution) {
  for (const Convolution& conv : convolutions()) {
    const Shape y = conv.y();
    std::array<std::int64_t, 2> more{};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const int i = static_cast<int>(axis) + 1;
      const Shape smallest = conv2d_transpose_shape(y, conv.w, conv.options);
      more[axis] = conv.x[i] - smallest[i];
    }
    EXPECT_EQ(conv2d_transpose_shape(y, conv.w, conv.options, more), conv.x) << conv.name;
  }
}

TEST(Conv2dShapeTest, CountsWholeWindows) {
  EXPECT_EQ(conv2d_shape({2, 28, 28, 1}, {32, 3, 3, 1}, {}), (Shape{2, 26, 26, 32}));
  EXPECT_EQ(conv2d_shape({2, 8, 10, 3}, {5, 3, 3, 3}, {.stride = {3, 4}}), (Shape{2, 2, 2, 5}));
  EXPECT_EQ(conv2d_shape({1, 6, 5, 3}, {4, 3, 2, 3}, {.pad_before = {0, 1}, .pad_after = {2, 0}}), (Shape{1, 6, 5, 4}));
  EXPECT_EQ(conv2d_shape({1, 1, 1, 1}, {1, 3, 3, 1}, {.pad_before = {1, 1}, .pad_after = {1, 1}}), (Shape{1, 1, 1, 1}));
}

TEST_P(Conv2dTest, ShapeRejectsMismatches) {
  const Shape x{2, 7, 9, 3}, w{5, 3, 3, 3};
  expect_shape_error(x, {5, 3, 3, 4}, [&] { conv2d_shape(x, {5, 3, 3, 4}, {}); });
  expect_error(ErrorCode::shape_mismatch, {"8", "7"}, [&] { conv2d_shape(x, {5, 8, 3, 3}, {}); });
  expect_error(ErrorCode::shape_mismatch, {"11", "9"}, [&] { conv2d_shape(x, {5, 3, 11, 3}, {}); });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{7, 9, 3})}, [&] { conv2d_shape({7, 9, 3}, w, {}); });
  expect_error(ErrorCode::invalid_argument, {"stride", "0"}, [&] { conv2d_shape(x, w, {.stride = {0, 1}}); });
  expect_error(ErrorCode::invalid_argument, {"dilation", "0"}, [&] { conv2d_shape(x, w, {.dilation = {0, 1}}); });
  expect_error(ErrorCode::invalid_argument, {"0 groups"}, [&] { conv2d_shape(x, w, {.groups = 0}); });
  expect_error(ErrorCode::shape_mismatch, {"C / 3 groups"}, [&] { conv2d_shape(x, w, {.groups = 3}); });
  expect_error(ErrorCode::shape_mismatch, {"C / 3 groups"}, [&] { conv2d_shape(x, {5, 3, 3, 1}, {.groups = 3}); });
  expect_error(ErrorCode::shape_mismatch, {"window of 9", "7"}, [&] { conv2d_shape(x, w, {.dilation = {4, 1}}); });
  expect_error(ErrorCode::shape_mismatch, {"conv2d_transpose", to_string(x)},
               [&] { conv2d_transpose_shape(x, w, {}); });
  expect_error(ErrorCode::shape_mismatch, {"conv2d_transpose", "window of 1", "leaves nothing"}, [&] {
    conv2d_transpose_shape({1, 2, 2, 5}, {5, 1, 1, 3}, {.pad_before = {1, 0}, .pad_after = {1, 0}});
  });
  expect_error(ErrorCode::invalid_argument, {"conv2d_transpose", "2 extra", "stride of 2", "0 to 1"}, [&] {
    conv2d_transpose_shape({1, 2, 2, 5}, w, {.stride = {2, 2}}, {0, 2});
  });
  expect_error(ErrorCode::invalid_argument, {"stride", "0"}, [] { same_padding(7, 9, {3, 3}, {1, 0}); });
  expect_error(ErrorCode::invalid_argument, {"pad", "-1"}, [&] { conv2d_shape(x, w, {.pad_before = {0, -1}}); });
  expect_error(ErrorCode::invalid_argument, {"pad", "-2"}, [&] { conv2d_shape(x, w, {.pad_after = {-2, 0}}); });
}

}  // namespace
}  // namespace giro
