// Part of ExpressionWriter: the code for a thread's elements and for the values of its rows.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/cuda/expression_writer.h"
#include "kernels/cuda/scalar_source.h"
#include "kernels/expr/scalar_function.h"

namespace giro::cuda {

using Kind = expr::Instruction::Kind;

std::string ExpressionWriter::strided(const ExpressionPlan::Array& array, std::size_t begin, std::size_t end,
                                      std::string_view axis, std::string_view type) {
  std::string sum;
  for (std::size_t i = begin; i < end; ++i) {
    if (array.strides[i] == 0) continue;
    sum += fmt::format("{}{}({}{}) * {}", sum.empty() ? "" : " + ", type, axis, i, array.strides[i]);
  }
  return sum.empty() ? "0" : sum;
}

// Writes the coordinates c<axis> of element number `index`, in its row or, in a pointwise kernel, in the whole space.
void ExpressionWriter::write_coordinates(const std::string& index, int indent) {
  split(index, plan_.element_axis(), plan_.sizes.size(), "c", "q", indent);
}

// Splits a number into coordinates along axes [first, end). `rest`: a variable for what is left of it.
void ExpressionWriter::split(std::string_view number, std::size_t first, std::size_t end, std::string_view axis,
                             std::string_view rest, int indent) {
  if (first == end) return;
  if (first + 1 == end) return line(indent, "const auto {}{} = {};", axis, first, number);
  line(indent, "auto {} = {};", rest, number);
  for (std::size_t i = end - 1; i > first; --i) {
    line(indent, "const auto {0}{1} = {2} % {3}; {2} /= {3};", axis, i, rest, plan_.sizes[i]);
  }
  line(indent, "const auto {}{} = {};", axis, first, rest);
}

std::string ExpressionWriter::offset(const ExpressionPlan::Array& array) const {
  return strided(array, plan_.element_axis(), plan_.sizes.size(), "c", index_type());
}

// `value` where the array has an element at the coordinates, else `other`.
std::string ExpressionWriter::if_in_bounds(const ExpressionPlan::Array& array, const std::string& value,
                                           const std::string& other) const {
  std::vector<std::string> conditions;
  for (std::size_t axis = 0; axis < plan_.sizes.size(); ++axis) {
    const char name = axis >= plan_.element_axis() ? 'c' : 'd';
    const auto [begin, end] = array.bounds[axis];
    if (begin > 0) conditions.push_back(fmt::format("{}{} >= {}", name, axis, begin));
    if (end != ExpressionPlan::Bounds().end) conditions.push_back(fmt::format("{}{} < {}", name, axis, end));
  }
  if (conditions.empty()) return value;
  return fmt::format("({} ? {} : {})", fmt::join(conditions, " && "), value, other);
}

// Whether a pack can span several rows of the last axis, or exist only in part.
bool ExpressionWriter::is_per_element(int pack) const {
  if (plan_.sizes.size() > plan_.element_axis() + 1 && plan_.sizes.back() % pack != 0) return true;
  return std::any_of(plan_.reads.begin(), plan_.reads.end(), [&](const ExpressionPlan::Array& read) {
    return !ExpressionPlan::is_cut_between_packs_of(pack, read, plan_.sizes.size() - 1);
  });
}

bool ExpressionWriter::writes_elements(std::size_t write) const {
  // With a single element, every output is per element.
  if (plan_.is_pointwise && plan_.sizes.empty()) return true;
  return !plan_.writes[write].is_same_along(plan_.element_axis(), plan_.sizes.size());
}

// As an operand, in code for one element (k) or for a row (e).
std::string ExpressionWriter::value(std::size_t number) const {
  const Instruction& instruction = expression_.code[number];
  if (instruction.kind == Kind::constant) return literal(instruction);
  const bool is_of_rows = plan_.is_by_columns && !plan_.is_of_element[number];
  return fmt::format("v{}{}", number, is_kept_[number] ? "[k]" : is_of_rows ? "[e]" : "");
}

// The result of a cast or of an applied function.
std::string ExpressionWriter::computed(std::size_t number) const {
  const Instruction& instruction = expression_.code[number];
  std::string result;
  if (instruction.kind == Kind::cast) {
    result = fmt::format("giro::Cast<{}>::of({})", value_type(instruction.dtype), value(instruction.operands[0]));
  } else {
    std::vector<std::string> operands;
    for (const std::uint16_t operand : expr::operands_of(instruction)) operands.push_back(value(operand));
    result = fmt::format("{}({})", function_name(*instruction.function, plan_.inputs_dtype(instruction)),
                         fmt::join(operands, ", "));
    if (instruction.function->rules.is_exact) return result;
  }
  return rounded(instruction.dtype, result);
}

std::string ExpressionWriter::rounded(DType dtype, const std::string& text) {
  return is_16_bit(dtype) ? fmt::format("giro::rounded<{}>({})", storage_type(dtype), text) : text;
}

void ExpressionWriter::for_each_row(int indent, const std::string& statement) {
  if (!plan_.is_by_columns) return line(indent, statement);
  line(indent, "#pragma unroll");
  line(indent, "for (int e = 0; e < {}; ++e) {}", row_pack_, statement);
}

void ExpressionWriter::define_row_value(std::size_t i, const std::string& text) {
  const std::string_view type = value_type(expression_.code[i].dtype);
  if (!plan_.is_by_columns) return line(1, "const {} v{} = {};", type, i, text);
  line(1, "{} v{}[{}];", type, i, row_pack_);
  for_each_row(1, fmt::format("v{}[e] = {};", i, text));
}

// The term that row e of a pack adds to an offset.
std::string ExpressionWriter::row_of(const ExpressionPlan::Array& array) const {
  return plan_.is_by_columns ? fmt::format(" + e * giro::i64({})", row_stride_of(array)) : "";
}

// Reads and places have level 0. Values of higher levels depend on earlier reductions.
void ExpressionWriter::write_row_values(int level) {
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    const Instruction& instruction = expression_.code[i];
    if (!plan_.is_needed[i] || plan_.is_of_element[i] || plan_.level[i] != level) continue;
    if (instruction.kind == Kind::read) {
      const ExpressionPlan::Array& read = plan_.reads[instruction.index];
      define_row_value(i, fmt::format("{} ? giro::value(x{}[0{}]) : {}(0)", if_in_bounds(read, "live", "false"),
                                      instruction.index, row_of(read), value_type(instruction.dtype)));
    } else if (instruction.kind == Kind::place) {
      define_row_value(i, fmt::format("b{}{}", instruction.index, row_of(plan_.places[instruction.index])));
    } else if (instruction.kind == Kind::apply || instruction.kind == Kind::cast) {
      define_row_value(i, computed(i));
    }
  }
}

// The offset of element k. If the pack is contiguous along the last axis, it is relative to the coordinates of the
// pack's first element.
std::string ExpressionWriter::offset_of(const ExpressionPlan::Array& array, const Elements& elements) const {
  if (is_per_element(elements.pack)) return offset(array);
  return fmt::format("{} + k * {}({})", offset(array), index_type(), plan_.stride_of(array));
}

// By columns, each load is one element of every row in the pack.
void ExpressionWriter::write_loads(const Elements& elements, int indent) {
  const bool per_element = is_per_element(elements.pack);
  if (!per_element) write_coordinates("i", indent);
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    const Instruction& instruction = expression_.code[i];
    if (!elements.run[i] || instruction.kind != Kind::read) continue;
    const ExpressionPlan::Array& array = plan_.reads[instruction.index];
    if (per_element || plan_.is_by_columns) {
      line(indent, "giro::Pack<{}, {}> p{}[{}];", storage_type(array.dtype), rows_of(array), i, elements.pack);
      line(indent, "#pragma unroll");
      line(indent, "for (int k = 0; k < {}; ++k) {{", elements.pack);
      if (per_element) write_coordinates("(i + k)", indent + 1);
      line(indent + 1, "p{}[k] = giro::load<{}, true>(x{} + ({}), {});", i, rows_of(array), instruction.index,
           offset_of(array, elements), if_in_bounds(array, exists(elements), "false"));
      line(indent, "}");
      continue;
    }
    const std::string from = fmt::format("x{} + ({})", instruction.index, offset(array));
    const std::string count = if_in_bounds(array, "count", "0");
    if (ExpressionPlan::takes_packs_of(elements.pack, array, plan_.sizes.size() - 1)) {
      line(indent, "const auto p{} = giro::load<{}, {}>({}, {});", i, elements.pack, elements.is_whole, from, count);
    } else {
      line(indent, "const auto p{} = giro::gather<{}>({}, {}({}), {});", i, elements.pack, from, index_type(),
           plan_.stride_of(array), count);
    }
  }
}

void ExpressionWriter::write_elements(const Elements& elements, int indent) {
  const bool per_element = is_per_element(elements.pack), by_columns = plan_.is_by_columns;
  const bool is_single = per_element || by_columns;  // loaded and stored one by one
  const auto for_each_write = [&](auto&& f) {
    for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
      if (writes_elements_in(elements.pass, w)) f(w, plan_.writes[w]);
    }
  };
  const auto declare_packs = [&](int to, int size) {
    for_each_write([&](std::size_t w, const ExpressionPlan::Array& array) {
      line(to, "giro::Pack<{}, {}> s{};", storage_type(array.dtype), size, w);
    });
  };
  if (!is_single) declare_packs(indent, elements.pack);
  line(indent, "#pragma unroll");
  line(indent, "for (int k = 0; k < {}; ++k) {{", elements.pack);
  const int outer = ++indent;
  if (per_element) write_coordinates("(i + k)", outer);
  if (is_single) {
    declare_packs(outer, row_pack_);
    for_each_row(outer, "{");
    ++indent;
  }
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    if (!elements.run[i]) continue;
    const Instruction& instruction = expression_.code[i];
    std::string result;
    if (instruction.kind == Kind::read) {
      const char* const single = rows_of(plan_.reads[instruction.index]) == 1 ? "[k].element[0]" : "[k].element[e]";
      result = fmt::format("giro::value(p{}{})", i, is_single ? single : ".element[k]");
    } else if (instruction.kind == Kind::place) {
      const ExpressionPlan::Array& place = plan_.places[instruction.index];
      result = fmt::format("b{} + {}", instruction.index, offset(place));
      if (!is_single && plan_.counts_packs_of(elements.pack, place)) {
        result = fmt::format("({}) | k", result);  // shows NVRTC that a pack's numbers share their high bits
      } else if (!per_element) {
        result += fmt::format(" + k * giro::i64({})", plan_.stride_of(place));
      }
      result += row_of(place);
    } else {
      result = computed(i);
    }
    if (elements.keeps) {
      line(indent, "v{}[k] = {};", i, result);
      is_kept_[i] = true;
    } else {
      line(indent, "const {} v{} = {};", value_type(instruction.dtype), i, result);
    }
  }
  for (const std::size_t r : elements.reduced) {
    const Instruction& instruction = expression_.code[r];
    line(indent, "if ({3}) a{0}{4} = Op{0}::take(a{0}{4}, giro::Cast<{1}>::of({2}), i + k);", r, taken_type(r),
         value(instruction.operands[0]), exists(elements), by_columns ? "[e]" : "");
  }
  for_each_write([&](std::size_t w, const ExpressionPlan::Array& array) {
    line(indent, "s{}.element[{}] = giro::Store<{}>::of({});", w,
         by_columns  ? "e"
         : is_single ? "0"
                     : "k",
         storage_type(array.dtype), value(expression_.writes[w].value));
  });
  if (is_single) {
    line(outer, "}");
    for_each_write([&](std::size_t w, const ExpressionPlan::Array& array) {
      line(outer, "giro::store_rows(y{} + ({}), s{}, {});", w, offset_of(array, elements), w, exists(elements));
    });
  }
  line(outer - 1, "}");
  if (is_single) return;
  for_each_write([&](std::size_t w, const ExpressionPlan::Array& array) {
    const std::string to = fmt::format("y{} + ({})", w, offset(array));
    if (ExpressionPlan::takes_packs_of(elements.pack, array, plan_.sizes.size() - 1)) {
      line(outer - 1, "giro::store<{}, {}>({}, s{}, count);", elements.pack, elements.is_whole, to, w);
    } else {
      line(outer - 1, "giro::scatter<{}>({}, {}({}), s{}, count);", elements.pack, to, index_type(),
           plan_.stride_of(array), w);
    }
  });
}

}  // namespace giro::cuda
