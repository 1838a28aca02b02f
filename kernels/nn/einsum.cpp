#include <giro/kernels/nn/einsum.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/matmul.h>
#include <giro/kernels/nn/reduce.h>

#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// The names of axes: letters, and digits for the axes of "...", where 0 is the last one.
using Labels = std::string;

// A value and the names of its axes.
struct Named {
  Var value;
  Labels labels;
};

bool contains(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

template <class Condition>
Labels filtered(const Labels& labels, Condition condition) {
  Labels result;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(result), condition);
  return result;
}

// The term with its axes in `order`, which has all of its labels. The other labels get axes of size 1.
Named permuted(const Named& term, const Labels& order) {
  std::vector<int> axes;
  std::vector<std::int64_t> sizes;
  for (const char label : order) {
    const std::size_t at = term.labels.find(label);
    if (at != Labels::npos) axes.push_back(static_cast<int>(at));
    sizes.push_back(at == Labels::npos ? 1 : term.value.shape().begin()[at]);
  }
  Var value = std::is_sorted(axes.begin(), axes.end()) ? term.value : transpose(term.value, axes);
  if (value.shape() != Shape(sizes)) value = value.reshape(Shape(sizes));
  return {value, order};
}

// Sums over the axes that are not in `wanted`.
Named reduced(const Named& term, const Labels& wanted) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (!contains(wanted, term.labels[i])) axes.push_back(static_cast<int>(i));
  }
  if (axes.empty()) return term;
  return {cast(sum(term.value, Axes(axes).dropped()), term.value.dtype()),
          filtered(term.labels, [&](char label) { return contains(wanted, label); })};
}

std::int64_t count_of(const Named& term, const Labels& labels) {
  std::int64_t count = 1;
  for (const char label : labels) count *= term.value.shape().begin()[term.labels.find(label)];
  return count;
}

// An operand of a product, as matrices (batch..., outer, inner) or transposed.
struct Factor {
  Var value;
  bool is_transposed = false;
};

Factor as_matrices(const Named& term, const Labels& batch, const Labels& outer, const Labels& inner) {
  const bool is_transposed = term.labels == batch + inner + outer && !outer.empty() && !inner.empty();
  const Named ordered = permuted(term, is_transposed ? term.labels : batch + outer + inner);
  std::vector<std::int64_t> sizes(ordered.value.shape().begin(),
                                  ordered.value.shape().begin() + static_cast<std::ptrdiff_t>(batch.size()));
  const std::int64_t outers = count_of(ordered, outer), inners = count_of(ordered, inner);
  sizes.insert(sizes.end(), {is_transposed ? inners : outers, is_transposed ? outers : inners});
  return {ordered.value.reshape(Shape(sizes)), is_transposed};
}

// The product of two terms, summed over the axes that are not in `wanted`. The result's axes are in that order only if
// the matrix product gives it.
Named contracted(const Named& given_a, const Named& given_b, const Labels& wanted) {
  const Named a = reduced(given_a, wanted + given_b.labels), b = reduced(given_b, wanted + given_a.labels);
  const auto in_a = [&](char label) { return contains(a.labels, label); };
  const auto in_b = [&](char label) { return contains(b.labels, label); };
  const Labels batch = filtered(wanted, [&](char label) { return in_a(label) && in_b(label); });
  const Labels left = filtered(wanted, [&](char label) { return in_a(label) && !in_b(label); });
  const Labels right = filtered(wanted, [&](char label) { return in_b(label) && !in_a(label); });
  const Labels summed = filtered(a.labels, [&](char label) { return !contains(wanted, label); });
  if (summed.empty() || (left.empty() && right.empty())) {
    // An elementwise product, perhaps with a sum: one expression, in f32 like a matrix product.
    const Labels order = filtered(wanted, [&](char label) { return in_a(label) || in_b(label); }) + summed;
    const DType dtype = summed.empty() ? a.value.dtype() : DType::f32;
    const Var product = cast(permuted(a, order).value, dtype) * cast(permuted(b, order).value, dtype);
    Named result = reduced({product, order}, wanted);
    result.value = cast(result.value, a.value.dtype());
    return result;
  }
  const bool swaps = wanted != batch + left + right && wanted == batch + right + left;
  const Factor of_a = as_matrices(a, batch, left, summed), of_b = as_matrices(b, batch, right, summed);
  const auto& [first, second] = swaps ? std::pair(of_b, of_a) : std::pair(of_a, of_b);
  const Var product =
      matmul(first.value, second.value, {.transpose_a = first.is_transposed, .transpose_b = !second.is_transposed});
  const Labels labels = batch + (swaps ? right + left : left + right);
  std::vector<std::int64_t> sizes(product.shape().begin(), product.shape().end() - 2);
  for (const char label : labels.substr(batch.size())) {
    const Named& of = in_a(label) ? a : b;
    sizes.push_back(of.value.shape().begin()[of.labels.find(label)]);
  }
  return {product.reshape(Shape(sizes)), labels};
}

class Equation {
 public:
  Equation(std::string_view text, const std::vector<Var>& operands) : text_(text) {
    const std::string compact = filtered(text_, [](char c) { return c != ' '; });
    const std::size_t arrow = compact.find("->");
    const std::string left = compact.substr(0, arrow);
    for (std::size_t begin = 0; begin <= left.size();) {
      const std::size_t end = std::min(left.find(',', begin), left.size());
      names_.push_back(left.substr(begin, end - begin));
      begin = end + 1;
    }
    if (names_.size() != operands.size()) {
      fail(ErrorCode::invalid_argument, fmt::format("expected {} operands, found {}", names_.size(), operands.size()));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) terms_.push_back(term_of(i, operands[i]));
    if (arrow == std::string::npos) {
      result_ = implicit();
    } else {
      result_ = labels_of("the result", compact.substr(arrow + 2), digits_.size());
      for (const char label : result_) {
        if (!sizes_.contains(label))
          fail(ErrorCode::invalid_argument, fmt::format("no operand has the axis {}", label));
      }
      if (!contains(result_, '0') && !digits_.empty()) {
        fail(ErrorCode::invalid_argument, "the result lacks the \"...\" of the operands");
      }
    }
  }

  std::vector<Named>& terms() { return terms_; }
  const Labels& result() const { return result_; }

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw_error(code, "einsum \"{}\": {}", text_, what);
  }

 private:
  // Replaces "..." by `further` digits.
  Labels labels_of(const std::string& whose, const std::string& names, std::size_t further) const {
    Labels labels;
    bool has_dots = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names.compare(i, 3, "...") == 0 && !has_dots) {
        for (std::size_t digit = further; digit-- > 0;) labels += static_cast<char>('0' + digit);
        has_dots = true;
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(names[i])) == 0) {
        fail(ErrorCode::invalid_argument,
             fmt::format("found '{}' in the axes of {}, expected letters and one \"...\"", names[i], whose));
      } else if (contains(labels, names[i])) {
        fail(ErrorCode::invalid_argument, fmt::format("the axis {} appears twice in {}", names[i], whose));
      } else {
        labels += names[i];
      }
    }
    return labels;
  }

  Named term_of(std::size_t i, const Var& operand) {
    const std::string whose = fmt::format("operand {}", i), &names = names_[i];
    const bool has_dots = names.find("...") != std::string::npos;
    const std::size_t rank = operand.shape().rank(), letters = names.size() - (has_dots ? 3 : 0);
    const Labels labels = labels_of(whose, names, has_dots && rank > letters ? rank - letters : 0);
    if (labels.size() != rank) {
      fail(ErrorCode::shape_mismatch, fmt::format("{} is {}, expected {} axes{}", whose, to_string(operand.value()),
                                                  letters, has_dots ? " or more" : ""));
    }
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const char label = labels[axis];
      const std::int64_t size = operand.shape().begin()[axis];
      const bool is_digit = std::isdigit(static_cast<unsigned char>(label)) != 0;
      if (is_digit && !contains(digits_, label)) digits_ += label;
      const auto [known, is_new] = sizes_.try_emplace(label, size);
      if (is_new || known->second == size) continue;
      if (!is_digit || (known->second != 1 && size != 1)) {
        fail(ErrorCode::shape_mismatch,
             fmt::format("the axis {} has size {} in {}, but {} before",
                         is_digit ? fmt::format("{} of \"...\" from the end", label - '0' + 1) : std::string(1, label),
                         size, whose, known->second));
      }
      if (known->second == 1) known->second = size;
    }
    return {operand, labels};
  }

  Labels implicit() const {
    std::map<char, int> occurrences;
    for (const Named& term : terms_) {
      for (const char label : term.labels) ++occurrences[label];
    }
    Labels letters;
    for (const auto& [label, count] : occurrences) {
      if (count == 1 && !contains(digits_, label)) letters += label;
    }
    return labels_of("the result", (digits_.empty() ? "" : "...") + letters, digits_.size());
  }

  std::string text_;
  std::vector<std::string> names_;
  std::vector<Named> terms_;
  std::map<char, std::int64_t> sizes_;
  Labels digits_, result_;
};

}  // namespace

Var einsum(std::string_view text, const std::vector<Var>& operands, Where where) {
  const detail::CallSite site(where);
  Equation equation(text, operands);
  std::vector<Named>& terms = equation.terms();
  const auto on_stream = std::find_if(operands.begin(), operands.end(), [](const Var& v) { return v.has_stream(); });
  DType dtype = operands.front().dtype();
  for (const Var& operand : operands) dtype = promoted(dtype, operand.dtype());
  if (dtype != DType::f32 && !is_16_bit(dtype)) {
    equation.fail(ErrorCode::dtype_mismatch,
                  fmt::format("the operands promote to {}, expected dtype f32, bf16 or f16", name_of(dtype)));
  }
  for (Named& term : terms) {
    if (on_stream != operands.end()) term.value = term.value.on(on_stream->stream());
    term.value = cast(term.value, dtype);
  }
  Named result = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels wanted = equation.result();
    for (std::size_t k = i + 1; k < terms.size(); ++k) {
      wanted += filtered(terms[k].labels, [&](char label) { return !contains(wanted, label); });
    }
    result = contracted(result, terms[i], wanted);
  }
  return permuted(reduced(result, equation.result()), equation.result()).value;
}

}  // namespace giro::nn
