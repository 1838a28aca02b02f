#include "kernels/cuda/scalar_source.h"

#include <fmt/format.h>

#include <cmath>

#include <giro/runtime/float16.h>

#include "runtime/checksum.h"

namespace giro::cuda {

using expr::Instruction;
using expr::ScalarFunction;
using expr::Takes;

std::string_view value_type(DType dtype) {
  constexpr std::string_view kNames[] = {"giro::f32", "giro::f32", "giro::f32", "giro::f64",
                                         "giro::i32", "giro::i64", "giro::u8",  "bool"};  // in the order of DType
  return kNames[static_cast<std::size_t>(dtype)];
}

std::string_view storage_type(DType dtype) {
  return dtype == DType::bf16      ? "giro::bf16"
         : dtype == DType::f16     ? "giro::f16"
         : dtype == DType::boolean ? "giro::boolean"
                                   : value_type(dtype);
}

std::string literal(const Instruction& constant) {
  const double number = constant.number;
  switch (constant.dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16: {
      auto value = static_cast<float>(number);
      if (constant.dtype == DType::bf16) value = BFloat16(value);
      if (constant.dtype == DType::f16) value = Float16(value);
      if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
      if (std::isinf(value)) return value > 0 ? "__int_as_float(0x7f800000)" : "(-__int_as_float(0x7f800000))";
      return fmt::format("({:a}f)", value);
    }
    case DType::f64:
      if (std::isnan(number)) return "__longlong_as_double(0x7ff8000000000000ll)";
      if (std::isinf(number))
        return fmt::format("({}__longlong_as_double(0x7ff0000000000000ll))", number > 0 ? "" : "-");
      return fmt::format("({:a})", number);
    case DType::boolean:
      return constant.integer != 0 ? "true" : "false";
    default:
      // Through its bits, since the smallest i64 has no literal.
      return fmt::format("{}({:#x}ull)", value_type(constant.dtype), static_cast<std::uint64_t>(constant.integer));
  }
}

std::string function_name(const ScalarFunction& function, DType inputs) {
  return fmt::format("giro::{}_{}::apply", function.name,
                     detail::digits_of({fmt::format("{} {}", value_type(inputs), function.source)}));
}

std::string function_definition(const ScalarFunction& function, DType inputs) {
  std::string parameters;
  for (int i = 0; i < function.inputs; ++i) {
    const bool condition = i == 0 && function.rules.takes == Takes::select;
    parameters += fmt::format("{}{} {}", i == 0 ? "" : ", ", condition ? "bool" : "T", static_cast<char>('a' + i));
  }
  std::string space = function_name(function, inputs);
  space = space.substr(6, space.rfind("::") - 6);
  return fmt::format(
      "#ifndef GIRO_{0}\n#define GIRO_{0}\nnamespace giro {{\nnamespace {0} {{\ntypedef {1} T;\n"
      "__device__ inline {2} apply({3}) {{ return {4}; }}\n}}\n}}\n#endif\n",
      space, value_type(inputs), value_type(function.rules.result(inputs)), parameters, function.source);
}

}  // namespace giro::cuda
