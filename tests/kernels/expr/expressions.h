#pragma once

// Expressions for tests: functions, a builder, and a reference by plain loops in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/float16.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/tensor.h>

#include "kernels/expr/expression.h"
#include "kernels/expr/table.h"

namespace giro::test {

using expr::Combiner;
using expr::Expression;
using expr::Gives;
using expr::Instruction;
using expr::Layout;
using expr::ScalarFunction;
using expr::Takes;

using Apply3 = double (*)(double, double, double);

// Of the table.
inline const ScalarFunction &test_add = expr::functions::add, &test_subtract = expr::functions::subtract,
                            &test_multiply = expr::functions::multiply, &test_divide = expr::functions::divide,
                            &test_maximum = expr::functions::maximum, &test_less = expr::functions::less,
                            &test_where = expr::functions::where, &test_exp = expr::functions::exp,
                            &test_tanh = expr::functions::tanh;

// Custom ones, of floats.
#define GIRO_TEST_FUNCTION(NAME, CODE)                                                                     \
  struct NAME##_code {                                                                                     \
    template <class T, class A>                                                                            \
    GIRO_LOOP_INLINE static auto value([[maybe_unused]] A a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
      using namespace expr::math;                                                                          \
      return CODE;                                                                                         \
    }                                                                                                      \
  };                                                                                                       \
  inline const ScalarFunction NAME {                                                                       \
    #NAME, 1, #CODE, expr::loops_of<NAME##_code, 1, Takes::floating>(), {}                                 \
  }

GIRO_TEST_FUNCTION(test_rsqrt, rsqrt(a));
GIRO_TEST_FUNCTION(test_reciprocal, T(1) / a);

// The same functions in double.
inline double reference_of(const ScalarFunction& f, double a, double b, double c) {
  if (&f == &test_add) return a + b;
  if (&f == &test_subtract) return a - b;
  if (&f == &test_multiply) return a * b;
  if (&f == &test_maximum) return std::isnan(a) || a > b ? a : b;
  if (&f == &test_less) return a < b;
  if (&f == &test_where) return a != 0 ? b : c;
  if (&f == &test_exp) return std::exp(a);
  if (&f == &test_tanh) return std::tanh(a);
  if (&f == &test_rsqrt) return 1 / std::sqrt(a);
  if (&f == &test_reciprocal) return 1 / a;
  return a / b;
}

// Memory of some dtype, read and written as doubles. It begins at a multiple of 64 bytes, as a leaf does.
class Memory {
 public:
  template <class T>
  struct Aligned {
    using value_type = T;
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
    void deallocate(T* memory, std::size_t) { ::operator delete(memory, std::align_val_t(64)); }
    bool operator==(const Aligned&) const { return true; }
  };
  using Bytes = std::vector<std::byte, Aligned<std::byte>>;

  Memory(DType dtype, std::int64_t count) : dtype_(dtype), count_(count) {
    bytes_.resize(static_cast<std::size_t>(count) * size_of(dtype) + 64, std::byte{0x7f});
  }
  Tensor tensor() { return Tensor(bytes_.data(), dtype_, Shape{count_}, Device::cpu()); }
  DType dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }
  const Bytes& bytes() const { return bytes_; }

  double get(std::int64_t i) const {
    switch (dtype_) {
      case DType::f32:
        return as<float>(i);
      case DType::bf16:
        return static_cast<float>(as<BFloat16>(i));
      case DType::f16:
        return static_cast<float>(as<Float16>(i));
      case DType::f64:
        return as<double>(i);
      case DType::i32:
        return as<std::int32_t>(i);
      case DType::i64:
        return static_cast<double>(as<std::int64_t>(i));
      default:
        return as<std::uint8_t>(i);
    }
  }
  void set(std::int64_t i, double value) {
    switch (dtype_) {
      case DType::f32:
        return put(i, static_cast<float>(value));
      case DType::bf16:
        return put(i, BFloat16(static_cast<float>(value)));
      case DType::f16:
        return put(i, Float16(static_cast<float>(value)));
      case DType::f64:
        return put(i, value);
      case DType::i32:
        return put(i, static_cast<std::int32_t>(value));
      case DType::i64:
        return put(i, static_cast<std::int64_t>(value));
      default:
        return put(i, static_cast<std::uint8_t>(value));
    }
  }

 private:
  template <class T>
  T as(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void put(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }

  DType dtype_;
  std::int64_t count_;
  Bytes bytes_;
};

// `value` rounded to the dtype.
inline double rounded_to(DType dtype, double value) {
  if (dtype == DType::u8) return static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
  Memory one(dtype, 1);
  one.set(0, value);
  return one.get(0);
}

// The strides of contiguous memory over axes of these sizes. They are 0 along the axes in `broadcast`.
inline Layout contiguous(const Shape& shape, const std::vector<bool>& broadcast = {}) {
  Layout layout;
  std::int64_t count = 1;
  for (int a = static_cast<int>(shape.rank()) - 1; a >= 0; --a) {
    const auto i = static_cast<std::size_t>(a);
    const bool is_broadcast = i < broadcast.size() && broadcast[i];
    layout.strides[i] = is_broadcast ? 0 : count;
    if (!is_broadcast) count *= shape[a];
  }
  return layout;
}

class Builder {
 public:
  Expression expression;
  std::vector<std::shared_ptr<Memory>> read_memory, written;

  Builder(const Shape& space, std::size_t reduced) {
    expression.space = space;
    expression.reduced = reduced;
  }
  // Each of these returns the instruction's number.
  std::uint16_t read(const std::shared_ptr<Memory>& memory, const Layout& layout) {
    read_memory.push_back(memory);
    expression.reads.push_back({memory->tensor(), layout});
    return add({.kind = Instruction::Kind::read,
                .dtype = memory->dtype(),
                .index = static_cast<std::uint16_t>(expression.reads.size() - 1)});
  }
  std::uint16_t constant(DType dtype, double value) {
    return add({.kind = Instruction::Kind::constant,
                .dtype = dtype,
                .number = value,
                .integer = std::abs(value) < 0x1p63 ? static_cast<std::int64_t>(value) : 0});
  }
  std::uint16_t place(const Layout& layout) {
    expression.places.push_back(layout);
    return add({.kind = Instruction::Kind::place,
                .dtype = DType::i64,
                .index = static_cast<std::uint16_t>(expression.places.size() - 1)});
  }
  std::uint16_t apply(const ScalarFunction& f, std::uint16_t a, std::uint16_t b = 0, std::uint16_t c = 0) {
    const DType dtype = expression.code[f.inputs == 1 ? a : f.inputs == 2 ? b : c].dtype;
    return add(
        {.kind = Instruction::Kind::apply, .dtype = f.rules.result(dtype), .operands = {a, b, c}, .function = &f});
  }
  std::uint16_t cast(std::uint16_t a, DType dtype) {
    return add({.kind = Instruction::Kind::cast, .dtype = dtype, .operands = {a}});
  }
  std::uint16_t reduce(Combiner combiner, std::uint16_t a) {
    DType dtype = expression.code[a].dtype;
    if (combiner == Combiner::any || combiner == Combiner::all) dtype = DType::boolean;
    if (combiner == Combiner::argmax || combiner == Combiner::argmin) dtype = DType::i64;
    if (combiner == Combiner::sum && dtype == DType::boolean) dtype = DType::i64;
    return add({.kind = Instruction::Kind::reduce, .dtype = dtype, .combiner = combiner, .operands = {a}});
  }
  void write(std::uint16_t value, const std::shared_ptr<Memory>& memory, const Layout& layout) {
    written.push_back(memory);
    expression.writes.push_back({{memory->tensor(), layout}, value});
  }
  // Writes into contiguous memory: one value per row if `of_rows`, otherwise one per element.
  std::shared_ptr<Memory> write(std::uint16_t value, bool of_rows = false) {
    std::vector<bool> broadcast(expression.space.rank(), false);
    std::int64_t count = 1;
    for (std::size_t a = 0; a < broadcast.size(); ++a) {
      broadcast[a] = of_rows && a >= broadcast.size() - expression.reduced;
      if (!broadcast[a]) count *= expression.space[static_cast<int>(a)];
    }
    const auto memory = std::make_shared<Memory>(expression.code[value].dtype, count);
    write(value, memory, contiguous(expression.space, broadcast));
    return memory;
  }

 private:
  std::uint16_t add(Instruction instruction) {
    expression.code.push_back(instruction);
    return static_cast<std::uint16_t>(expression.code.size() - 1);
  }
};

// The expected contents of each write's memory, by plain loops. Each value is rounded to its dtype.
inline std::vector<Memory> computed_plainly(const Builder& b) {
  const Expression& e = b.expression;
  const std::int64_t n = e.space.count();
  std::int64_t length = 1;
  for (std::size_t a = e.space.rank() - e.reduced; a < e.space.rank(); ++a) length *= e.space[static_cast<int>(a)];
  const auto offset = [&](const Layout& layout, std::int64_t i) {
    std::int64_t result = layout.offset;
    for (std::size_t a = e.space.rank(); a-- > 0;) {
      result += i % e.space[static_cast<int>(a)] * layout.strides[a];
      i /= e.space[static_cast<int>(a)];
    }
    return result;
  };
  const auto is_there = [&](const Layout& layout, std::int64_t i) {
    for (std::size_t a = e.space.rank(); a-- > 0;) {
      const std::int64_t at = i % e.space[static_cast<int>(a)];
      if (at < layout.bounds[a].begin || at >= layout.bounds[a].end) return false;
      i /= e.space[static_cast<int>(a)];
    }
    return true;
  };
  std::vector<std::vector<double>> values;
  for (const Instruction& code : e.code) {
    std::vector<double> v(static_cast<std::size_t>(n));
    const auto in = [&](int k, std::int64_t i) { return values[code.operands[k]][static_cast<std::size_t>(i)]; };
    for (std::int64_t i = 0; i < n; ++i) {
      double x = 0;
      switch (code.kind) {
        case Instruction::Kind::read:
          if (!is_there(e.reads[code.index].layout, i)) break;
          x = b.read_memory[code.index]->get(offset(e.reads[code.index].layout, i));
          break;
        case Instruction::Kind::constant:
          x = is_floating(code.dtype) ? code.number : static_cast<double>(code.integer);
          break;
        case Instruction::Kind::place:
          x = static_cast<double>(offset(e.places[code.index], i));
          break;
        case Instruction::Kind::apply:
          x = reference_of(*code.function, in(0, i), code.function->inputs > 1 ? in(1, i) : 0,
                           code.function->inputs > 2 ? in(2, i) : 0);
          break;
        case Instruction::Kind::cast:
          x = code.dtype == DType::boolean ? in(0, i) != 0 : is_floating(code.dtype) ? in(0, i) : std::trunc(in(0, i));
          if (code.dtype == DType::u8 && is_floating(e.code[code.operands[0]].dtype)) x = std::clamp(x, 0.0, 255.0);
          break;
        case Instruction::Kind::reduce: {
          const std::int64_t first = i / length * length;
          if (i != first) {
            v[static_cast<std::size_t>(i)] = v[static_cast<std::size_t>(first)];
            continue;
          }
          std::int64_t best = 0;
          x = code.combiner == Combiner::product || code.combiner == Combiner::all ? 1 : 0;
          for (std::int64_t k = 0; k < length; ++k) {
            const double y = in(0, first + k), old = in(0, first + best);
            if (code.combiner == Combiner::sum) x += y;
            if (code.combiner == Combiner::product) x *= y;
            if (code.combiner == Combiner::any) x = x != 0 || y != 0;
            if (code.combiner == Combiner::all) x = x != 0 && y != 0;
            const bool is_max = code.combiner == Combiner::max || code.combiner == Combiner::argmax;
            if (!std::isnan(old) && (std::isnan(y) || (is_max ? y > old : y < old))) best = k;
          }
          if (code.combiner == Combiner::max || code.combiner == Combiner::min) x = in(0, first + best);
          if (code.combiner == Combiner::argmax || code.combiner == Combiner::argmin) x = static_cast<double>(best);
        }
      }
      v[static_cast<std::size_t>(i)] = rounded_to(code.dtype, x);
    }
    values.push_back(std::move(v));
  }
  std::vector<Memory> result;
  for (std::size_t w = 0; w < e.writes.size(); ++w) {
    result.push_back(*b.written[w]);
    for (std::int64_t i = 0; i < n; ++i) {
      result.back().set(offset(e.writes[w].to.layout, i), values[e.writes[w].value][static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

}  // namespace giro::test
