#include "tests/kernels/expr/expression_cases.h"

namespace giro::test {
namespace {

using Value = ExpressionCase::Value;

constexpr DType kNumbers[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8};
constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

Array random(Random& source, const Shape& shape, DType dtype) {
  if (dtype == DType::boolean) return source.integers(shape, 0, 1, dtype);
  if (!is_floating(dtype)) return source.integers(shape, 0, 100, dtype);
  return source.uniform(shape, -3, 3, dtype);
}

std::string named(const std::string& name, DType dtype) { return fmt::format("{} of {}", name, name_of(dtype)); }

// x -> exp(x - max(x)) / sum(exp(x - max(x))).
ExpressionCase softmax(DType dtype, const Shape& space, std::size_t reduced, const Layout& layout) {
  Random source;
  ExpressionCase c(fmt::format("softmax of {} {}", name_of(dtype), to_string(space)), space, reduced);
  const Value x = c.read(random(source, {space.count()}, dtype), layout);
  const Value e = c.apply(kExp, c.apply(kSubtract, x, c.reduce(Combiner::max, x)));
  const Value y = c.apply(kDivide, e, c.reduce(Combiner::sum, e));
  c.write(y, layout, space.count(), 0);
  return c;
}

// Sums, extremes and their positions, and each element's share of the sum, along rows or columns.
ExpressionCase statistics(DType dtype, std::int64_t rows, std::int64_t length, bool in_columns) {
  Random source;
  const Layout layout = in_columns ? strided({1, rows}) : strided({length, 1});
  ExpressionCase c(
      fmt::format("statistics of {} {} of {} {}", rows, in_columns ? "columns" : "rows", length, name_of(dtype)),
      {rows, length}, 1);
  const Value x = c.read(random(source, {rows * length}, dtype), layout);
  const Value sum = c.reduce(Combiner::sum, c.apply(kMultiply, x, x));
  c.write_row(sum);
  c.write_row(c.reduce(Combiner::max, x));
  c.write_row(c.reduce(Combiner::argmin, x));
  c.write_row(c.reduce(Combiner::sum, c.apply(kSubtract, x, sum)));
  return c;
}

// Sums over columns in memory with rows of `stride` elements, from element `offset` on, and elementwise results that
// use the sums.
ExpressionCase column_sums(DType dtype, std::int64_t rows, std::int64_t length, std::int64_t stride,
                           std::int64_t offset) {
  Random source;
  ExpressionCase c(
      fmt::format("sums of {} columns of {} {}, {} apart from {}", rows, length, name_of(dtype), stride, offset),
      {rows, length}, 1);
  const Value x = c.read(random(source, {offset + stride * length}, dtype), strided({1, stride}, offset));
  const Layout to = strided({1, rows});
  if (dtype == DType::boolean) {
    const Value any = c.reduce(Combiner::any, x);
    c.write_row(any);
    c.write(c.apply(kLess, x, any), to, rows * length);
    return c;
  }
  const Value weighted = c.apply(kMultiply, x, c.read(random(source, {length}, dtype), strided({0, 1})));
  const Value row = c.read(random(source, {rows}, dtype), strided({1, 0}));
  const Value sum = c.apply(kAdd, c.reduce(Combiner::sum, weighted), row);
  c.write_row(sum);
  c.write(c.apply(kSubtract, weighted, sum), to, rows * length);
  return c;
}

}  // namespace

std::vector<ExpressionCase> pointwise_cases() {
  std::vector<ExpressionCase> cases;
  Random source;
  for (const DType dtype : kNumbers) {
    for (const std::int64_t n : {1, 7, 4099}) {
      ExpressionCase c(fmt::format("{} {}", named("a * b + a", dtype), n), {n});
      const Value a = c.read(random(source, {n}, dtype)), b = c.read(random(source, {n}, dtype));
      c.write(c.apply(kAdd, c.apply(kMultiply, a, b), a));
      cases.push_back(std::move(c));
    }
  }
  for (const DType from : kAllDTypes) {
    ExpressionCase c(named("casts", from), {1003});
    const Value x = c.read(random(source, {1003}, from));
    for (const DType to : kAllDTypes) {
      if (from == to) continue;
      // Negative numbers do not fit into u8.
      const bool is_signed = is_floating(from) && to == DType::u8;
      c.write(c.cast(to, is_signed ? c.apply(kMultiply, x, x) : x));
    }
    cases.push_back(std::move(c));
  }
  for (const DType dtype : kFloats) {
    ExpressionCase c(named("where(a < b, tanh(a), 0.3)", dtype), {2000});
    const Value a = c.read(random(source, {2000}, dtype)), b = c.read(random(source, {2000}, dtype));
    const Value is_less = c.apply(kLess, a, b);
    c.write(c.apply(kWhere, is_less, c.apply(kTanh, a), c.constant(dtype, 0.3)));
    c.write(is_less);
    c.write(c.apply(kExp, b), row_major({2000}), 2000, 1);  // in place
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("a fill", {100});
    c.write(c.constant(DType::f16, 0.1));
    c.write(c.constant(DType::i64, -5));
    c.write(c.constant(DType::f64, -kInfinity));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("a scalar", {});
    const Value x = c.read(random(source, {1}, DType::f32), Layout{});
    c.write(c.apply(kAdd, x, x));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<ExpressionCase> layout_cases() {
  std::vector<ExpressionCase> cases;
  Random source;
  const auto add = [&](const std::string& name, const Shape& space, const Array& a, const Layout& at_a, const Array& b,
                       const Layout& at_b) {
    ExpressionCase c(name, space);
    c.write(c.apply(kAdd, c.read(a, at_a), c.read(b, at_b)));
    cases.push_back(std::move(c));
  };
  const auto f32 = [&](std::int64_t n) { return random(source, {n}, DType::f32); };
  const auto bf16 = [&](std::int64_t n) { return random(source, {n}, DType::bf16); };
  add("beside the alignment", {999}, f32(1000), strided({1}, 1), f32(999), strided({1}));
  add("a scalar beside", {50, 20}, f32(1000), strided({20, 1}), f32(3), strided({}, 2));
  add("a row beside", {50, 24}, f32(1200), strided({24, 1}), f32(24), strided({0, 1}));
  add("a row of odd length", {50, 21}, bf16(1050), strided({21, 1}), bf16(21), strided({0, 1}));
  add("a column beside", {50, 24}, bf16(1200), strided({24, 1}), bf16(50), strided({1, 0}));
  add("transposed", {40, 24}, f32(960), strided({1, 40}), f32(960), strided({24, 1}));
  add("flipped", {500}, f32(500), strided({-1}, 499), f32(500), strided({1}));
  add("every other", {500}, f32(1000), strided({2}), f32(1000), strided({2}, 1));
  add("three axes", {7, 6, 16}, f32(7 * 6 * 16), strided({16, 112, 1}), f32(6), strided({0, 1, 0}));
  for (const std::int64_t before : {8, 3}) {  // packs, and single elements
    ExpressionCase c(fmt::format("padded by {}", before), {9, 48});
    const Value a = c.read(f32(7 * 24), bounded(bounded(row_major({7, 24}), 1, before, before + 24), 0, 1, 8));
    const Value b = c.read(bf16(24), bounded(strided({0, 1}), 1, before, before + 24));
    c.write(c.apply(kAdd, a, c.cast(DType::f32, b)));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("a slice written", {10, 12});
    c.write(c.apply(kAdd, c.read(f32(120), row_major({10, 12})), c.constant(DType::f32, 1)), strided({30, 1}, 5), 300);
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("places", {9, 100});
    c.write(c.place(strided({100, 1}, -3)));
    c.write(c.cast(DType::f32, c.place(strided({1, 0}, 0))));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<ExpressionCase> row_cases() {
  std::vector<ExpressionCase> cases;
  Random source;
  for (const std::int64_t length : {1, 5, 16, 100, 257, 1024, 3000}) {
    const Shape space{5, length};
    ExpressionCase c(fmt::format("sum, max and argmin of {}", to_string(space)), space, 1);
    const Value x = c.read(random(source, space, DType::f32));
    c.write_row(c.reduce(Combiner::sum, c.apply(kMultiply, x, x)));
    c.write_row(c.reduce(Combiner::max, x));
    c.write_row(c.reduce(Combiner::argmin, x));
    cases.push_back(std::move(c));
  }
  for (const DType dtype : kAllDTypes) {
    const Shape space{6, 72};
    ExpressionCase c(named("all combiners", dtype), space, 1);
    Array array = random(source, space, dtype);
    if (is_floating(dtype)) array.values[100] = array.values[130] = kNaN;
    const Value x = c.read(array);
    for (const Combiner combiner : {Combiner::sum, Combiner::max, Combiner::min, Combiner::argmax, Combiner::argmin}) {
      c.write_row(c.reduce(combiner, x));
    }
    const Value is_true = dtype == DType::boolean ? x : c.cast(DType::boolean, x);
    c.write_row(c.reduce(Combiner::any, is_true));
    c.write_row(c.reduce(Combiner::all, is_true));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("products", {4, 40}, 1);
    c.write_row(c.reduce(Combiner::product, c.read(source.uniform({4, 40}, 0.8, 1.25))));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("padded rows", {5, 50}, 1);
    const Value x =
        c.read(random(source, {3, 41}, DType::f32), bounded(bounded(row_major({3, 41}), 1, 7, 48), 0, 1, 4));
    const Value r = c.read(random(source, {2}, DType::f32), bounded(strided({1}), 0, 2, 4));
    const Value sum = c.apply(kAdd, r, c.reduce(Combiner::sum, x));
    c.write_row(sum);
    c.write(c.apply(kAdd, x, sum));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("two axes apart", {4, 5, 6}, 2);  // the first and the last axis of (5, 4, 6)
    c.write_row(c.reduce(Combiner::sum, c.read(random(source, {5, 4, 6}, DType::f32), strided({6, 24, 1}))));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("what is written of elements and rows", {7, 33}, 1);
    const Value x = c.read(random(source, {7, 33}, DType::f32)),
                r = c.read(random(source, {7}, DType::f32), strided({1}));
    const Value sum = c.apply(kAdd, r, c.reduce(Combiner::sum, x));
    c.write(sum, strided({1}), 7, 1);  // in place
    c.write(sum);
    c.write(c.apply(kMultiply, x, sum), row_major({7, 33}), 231, 0);  // in place
    cases.push_back(std::move(c));
  }
  for (const std::int64_t length : {3, 64, 1000})
    cases.push_back(softmax(DType::f32, {6, length}, 1, row_major({6, length})));
  cases.push_back(softmax(DType::bf16, {3, 2048}, 1, row_major({3, 2048})));
  cases.push_back(softmax(DType::f64, {3, 9000}, 1, row_major({3, 9000})));
  {
    ExpressionCase c("rows of nothing", {3, 0}, 1);
    const Value x = c.read(Array{DType::f32, {3, 0}, {}});
    c.write_row(c.reduce(Combiner::sum, x));
    c.write_row(c.reduce(Combiner::max, x));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<ExpressionCase> column_cases() {
  std::vector<ExpressionCase> cases;
  Random source;
  for (const std::int64_t length : {1, 7, 9, 130, 1500}) cases.push_back(statistics(DType::f32, 37, length, true));
  for (const std::int64_t rows : {2, 5, 32}) cases.push_back(statistics(DType::f32, rows, 200, true));
  for (const DType dtype : {DType::bf16, DType::f64, DType::i32, DType::u8}) {
    cases.push_back(statistics(dtype, 40, 100, true));
  }
  for (const DType dtype : kAllDTypes) cases.push_back(column_sums(dtype, 48, 12, 48, 0));
  for (const std::int64_t length : {1, 3, 4, 8, 200}) cases.push_back(column_sums(DType::bf16, 24, length, 24, 0));
  for (const std::int64_t rows : {20, 21, 22}) cases.push_back(column_sums(DType::bf16, rows, 12, rows, 0));
  for (const std::int64_t offset : {1, 4}) cases.push_back(column_sums(DType::f16, 24, 12, 32, offset));
  for (const std::int64_t stride : {28, 29}) cases.push_back(column_sums(DType::f32, 24, 12, stride, 0));
  cases.push_back(softmax(DType::f32, {33, 60}, 1, strided({1, 33})));
  for (const std::int64_t before : {8, 3}) {
    ExpressionCase c(fmt::format("columns padded by {}", before), {40, 12}, 1);
    const Value x = c.read(random(source, {12, 24}, DType::bf16), bounded(strided({1, 24}), 0, before, before + 24));
    c.write_row(c.reduce(Combiner::sum, c.apply(kAdd, x, c.cast(DType::bf16, c.place(strided({2, 5}))))));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("padded columns", {40, 30}, 1);
    const Value x =
        c.read(random(source, {20, 36}, DType::f32), bounded(bounded(strided({1, 36}), 1, 3, 23), 0, 1, 37));
    c.write_row(c.reduce(Combiner::sum, x));
    cases.push_back(std::move(c));
  }
  {
    ExpressionCase c("all but the channels", {6, 5, 10}, 2);  // a (5, 10, 6) array, read transposed
    const Value x = c.read(random(source, {5, 10, 6}, DType::f32), strided({1, 60, 6}));
    const Value mean = c.apply(kDivide, c.reduce(Combiner::sum, x), c.constant(DType::f32, 50));
    const Value centred = c.apply(kSubtract, x, mean);
    c.write_row(c.reduce(Combiner::sum, c.apply(kMultiply, centred, centred)));
    c.write(centred, strided({1, 60, 6}), 300);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<ExpressionCase> long_cases() {
  std::vector<ExpressionCase> cases;
  cases.push_back(statistics(DType::f32, 1, 40'000, false));
  cases.push_back(statistics(DType::bf16, 3, 33'001, false));
  cases.push_back(statistics(DType::f32, 3, 5'000, true));
  cases.push_back(statistics(DType::f64, 40, 4'100, true));
  cases.push_back(column_sums(DType::bf16, 48, 4'100, 48, 0));
  cases.push_back(softmax(DType::f32, {2, 33'000}, 1, row_major({2, 33'000})));
  cases.push_back(softmax(DType::f32, {5, 6'000}, 1, strided({1, 5})));
  {
    Random source;
    ExpressionCase c("what is written of elements and of long rows", {2, 33'000}, 1);
    const Value x = c.read(random(source, {2, 33'000}, DType::f32));
    const Value r = c.read(random(source, {2}, DType::f32), strided({1}));
    const Value sum = c.apply(kAdd, r, c.reduce(Combiner::sum, x));
    c.write(sum, strided({1}), 2, 1);                                        // in place
    c.write(c.apply(kMultiply, x, sum), row_major({2, 33'000}), 66'000, 0);  // in place
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace giro::test
