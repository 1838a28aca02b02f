#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Consecutive scalars of a row.
struct RowPart {
  static constexpr int kMaxColumns = 32;

  const void* scalars[kMaxColumns];
  DType dtypes[kMaxColumns];
  int columns = 0;  // of this part
  int first = 0;    // where they lie in the row
  int row_columns = 0;

  // Counters that are incremented first, by the part that ends the row.
  static constexpr int kMaxCounters = 4;
  std::int64_t* counters[kMaxCounters] = {};
  std::int64_t amounts[kMaxCounters] = {};
  int num_counters = 0;

  RowPart(const std::vector<Tensor>& row, std::size_t first, std::size_t columns)
      : columns(static_cast<int>(columns)), first(static_cast<int>(first)), row_columns(static_cast<int>(row.size())) {
    for (std::size_t c = 0; c < columns; ++c) {
      scalars[c] = row[first + c].raw();
      dtypes[c] = row[first + c].dtype();
    }
  }

  void add_counter(const Tensor& counter, std::int64_t amount) {
    counters[num_counters] = static_cast<std::int64_t*>(counter.raw());
    amounts[num_counters++] = amount;
  }
  void count() const {
    for (int c = 0; c < num_counters; ++c) *counters[c] += amounts[c];
  }
  bool ends_row() const { return first + columns == row_columns; }
  // As a double. All NaNs are one: their signs and payloads differ with the code that has computed them.
  double read(int column) const {
    const double number = number_at(scalars[column], dtypes[column]);
    return number == number ? number : static_cast<double>(NAN);
  }

 private:
  static double number_at(const void* scalar, DType dtype) {
    switch (dtype) {
      case DType::f32:
        return *static_cast<const float*>(scalar);
      case DType::bf16:
        return static_cast<float>(*static_cast<const BFloat16*>(scalar));
      case DType::f16:
        return static_cast<float>(*static_cast<const Float16*>(scalar));
      case DType::f64:
        return *static_cast<const double*>(scalar);
      case DType::i32:
        return *static_cast<const std::int32_t*>(scalar);
      case DType::i64:
        return static_cast<double>(*static_cast<const std::int64_t*>(scalar));
      case DType::u8:
        return *static_cast<const std::uint8_t*>(scalar);
      case DType::boolean:
        return *static_cast<const bool*>(scalar) ? 1.0 : 0.0;
    }
    return NAN;
  }
};

}  // namespace giro
