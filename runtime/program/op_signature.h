#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/not_copied.h>
#include <giro/runtime/tensor.h>

namespace giro::detail {

// The arguments of an op in one line: their names, dtypes and dimensions.
//
//   "x: s(bi), w: s(io), b?: s|f32(o) -> y: s(bo)"
//
// First the Ins, then, behind the arrow, the Outs and InOuts, each in the order of the op's fields. A question mark:
// may be omitted.
//
// Dtypes, one of several with |:
//   s        f32, bf16 or f16, the same for all arguments with an s; n: the same of all dtypes but bool, t: of all
//   i        u8, i32 or i64
//   f32 ...  that one;  *: any
//
// Dimensions in einsum's notation, of which each has one size: i above, which only inputs have, is summed over. Nothing
// in their place: any shape.
//   [n]      must be whole to compute any of the result
//   (gc)     one axis made of several dimensions, the first one slowest
//   ...      any number of axes, which broadcast
class OpSignature : NotCopied {
 public:
  // Error(invalid_argument) for a line that is not as above.
  explicit OpSignature(std::string_view line);

  // Throws what does not fit: Error(shape_mismatch or dtype_mismatch), naming the op, the argument and what is
  // expected. Error(invalid_argument) for another number of arguments.
  using Tensors = std::span<const Tensor* const>;
  void check(std::string_view op, Tensors reads, Tensors writes, std::optional<Device> device = {}) const;

  struct Axis {
    std::string letters = {};  // the first one slowest; empty: any axes
    bool is_whole = false;
  };
  struct Type {
    char variable = 0;         // of one dtype for all arguments
    std::uint32_t dtypes = 0;  // a bit for each that is possible
  };
  struct Argument {
    std::string_view name = {};
    bool is_optional = false;
    std::vector<Type> types = {};
    std::optional<std::vector<Axis>> axes = {};  // none: any shape
  };
  const std::vector<Argument>& reads() const noexcept { return reads_; }
  const std::vector<Argument>& writes() const noexcept { return writes_; }
  const std::string& line() const noexcept { return line_; }

 private:
  std::string line_;
  std::vector<Argument> reads_, writes_;
};

// Checks values that are not yet the arguments of an op against a line, which is a literal. `results` follow the arrow,
// if it has one; they broadcast with nothing.
void expect_fit(std::string_view op, const char* line, std::initializer_list<const Tensor*> values,
                std::initializer_list<const Tensor*> results = {});

// Error(device_mismatch), naming the op and the argument, if that is on another device.
void expect_on_device(std::string_view op, const Tensor& argument, Device device,
                      std::string_view name = "an argument");

}  // namespace giro::detail
