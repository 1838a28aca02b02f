#include <giro/kernels/nn/slice.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>

#include "kernels/elementwise.h"
#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "kernels/nn/gradients.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

using expr::broadcast_layout;
using expr::Builder;
using expr::Layout;
using expr::Term;

constexpr std::size_t kMaxFused = 16;  // parts per kernel

// An element's index along an axis.
Term place_along(Builder& builder, std::size_t axis) {
  Layout layout;
  layout.strides[axis] = 1;
  return builder.place(layout);
}

// A read of x, placed at index `begin` along an axis of a larger space. The other axes are x's.
Term read_from(Builder& builder, const Var& x, std::size_t axis, std::int64_t begin, std::int64_t size) {
  Layout layout = broadcast_layout(x.shape(), x.shape());
  layout.offset = -begin * layout.strides[axis];
  layout.bounds[axis] = {std::max<std::int64_t>(begin, 0), std::min(begin + x.shape().begin()[axis], size)};
  return builder.read(x.value(), layout);
}

// Negative padding cuts elements off.
Var padded(const Var& x, std::size_t axis, std::int64_t before, std::int64_t after, double value) {
  const std::int64_t own = x.shape().begin()[axis], size = before + own + after;
  const Shape shape = with_size(x.shape(), axis, size);
  Var y = Var::computed(x.dtype(), shape, {x}, [=](const Var&, const Var& dy, const std::vector<Var>&) {
    return padded(dy, axis, -before, -after, 0);
  });
  Builder builder(shape);
  const bool is_zero = value == 0 && !std::signbit(value), is_left = before + own > 0 && before < size && own > 0;
  const auto filling = [&] { return builder.constant(x.dtype(), value); };
  Term result = is_left ? read_from(builder, x, axis, before, size) : filling();
  if (is_left && !is_zero) {
    const Term outside = filling(), place = place_along(builder, axis);
    if (after > 0) result = where(place < before + own, result, outside);
    if (before > 0) result = where(place < before, outside, result);
  }
  return write("pad", result, builder, y);
}

// The parts have one dtype and fitting shapes, and none is empty. Parts of equal size are written to their place in the
// result by an expression over the space of one part, so that the ops that compute them can write there directly.
Var joined(const std::vector<Var>& parts, std::size_t axis) {
  if (parts.size() == 1) return parts.front();
  const Shape& first = parts.front().shape();
  const bool are_equal = std::all_of(parts.begin(), parts.end(), [&](const Var& x) { return x.shape() == first; });
  const bool are_contiguous = are_equal && split_around_axis(first, axis)[0] == 1;
  if (parts.size() > kMaxFused && !are_contiguous) {
    std::vector<Var> groups;
    std::size_t done = 0;
    for (std::size_t k = 0; k < kMaxFused; ++k) {
      const std::size_t end = parts.size() * (k + 1) / kMaxFused;
      groups.push_back(joined(std::vector(parts.begin() + static_cast<std::ptrdiff_t>(done),
                                          parts.begin() + static_cast<std::ptrdiff_t>(end)),
                              axis));
      done = end;
    }
    return joined(groups, axis);
  }
  std::int64_t size = 0;
  for (const Var& part : parts) size += part.shape().begin()[axis];
  const Shape shape = with_size(first, axis, size);
  Var y =
      Var::computed(parts.front().dtype(), shape, parts, [axis](const Var&, const Var& dy, const std::vector<Var>& in) {
        std::vector<Var> terms;
        std::int64_t begin = 0;
        for (const Var& part : in) {
          const std::int64_t end = begin + part.shape().begin()[axis];
          terms.push_back(part.requires_grad() ? slice(dy, {.axis = static_cast<int>(axis), .begin = begin, .end = end})
                                               : Var());
          begin = end;
        }
        return Gradients(std::move(terms));
      });
  const Layout whole = broadcast_layout(shape, shape);
  if (are_equal) {
    const Tensor flat = y.value().reshape({shape.count()});
    for (std::size_t begin = 0; begin < parts.size(); begin += kMaxFused) {
      const std::size_t end = std::min(begin + kMaxFused, parts.size());
      const auto element = [&](std::size_t part) { return static_cast<std::int64_t>(part) * first.count(); };
      const Tensor memory = flat.rows(element(begin), element(end));  // all of it, unless the parts are contiguous
      Builder builder(first);
      Layout to = whole;
      for (std::size_t i = begin; i < end; ++i) {
        builder.read(parts[i].value(), broadcast_layout(first, first)).write(memory, to);
        to.offset += first.begin()[axis] * whole.strides[axis];
      }
      queue("concatenate", std::move(builder).take(), y.stream());
    }
  } else {
    Builder builder(shape);
    const Term place = place_along(builder, axis);
    std::int64_t begin = size - parts.back().shape().begin()[axis];
    Term value = read_from(builder, parts.back(), axis, begin, size);
    for (std::size_t i = parts.size() - 1; i-- > 0;) {
      const std::int64_t end = std::exchange(begin, begin - parts[i].shape().begin()[axis]);
      const Term before_end = read_from(builder, parts[i], axis, begin, size);
      value = where(place < end, before_end, value);
    }
    write("concatenate", value, builder, y);
  }
  return y;
}

// A value of the shape with x at `part` and 0 elsewhere.
Var zero_pad(const Var& x, const Part& part, const Shape& shape) {
  Var y = x;
  if (part.step > 1 && x.shape().count() > 0) {
    const auto [outer, own, inner] = split_around_axis(x.shape(), part.axis);
    const Shape apart = with_size(x.shape(), part.axis, own * part.step);
    y = padded(y.reshape({outer, own, 1, inner}), 2, 0, part.step - 1, 0).reshape(apart);
  }
  return padded(y, part.axis, part.begin, shape.begin()[part.axis] - part.begin - y.shape().begin()[part.axis], 0);
}

// The value that these parts make up, or nullopt unless they tile the shape along one axis, contiguous or interleaved.
// Sorts the parts.
std::optional<Var> assemble(std::vector<std::pair<Part, Var>>& parts, const Shape& shape) {
  if (parts.empty()) return std::nullopt;
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto [axis, first, step] = parts.front().first;
  std::int64_t next = 0;  // where the next part must begin
  std::vector<Var> values;
  for (const auto& [part, value] : parts) {
    const std::int64_t own = value.shape().begin()[axis];
    if (own == 0) continue;
    const bool takes_turns = step > 1 && own * step == shape.begin()[axis];
    if (part.axis != axis || part.step != step || part.begin != next || !(step == 1 || takes_turns)) {
      return std::nullopt;
    }
    next += takes_turns ? 1 : own;
    values.push_back(value);
  }
  if (values.empty()) return std::nullopt;
  if (step == 1) return next == shape.begin()[axis] ? std::optional(joined(values, axis)) : std::nullopt;
  if (next != step) return std::nullopt;
  const auto [outer, own, inner] = split_around_axis(values.front().shape(), axis);
  for (Var& value : values) value = value.reshape({outer, own, 1, inner});
  return joined(values, 2).reshape(shape);
}

Var sum_of(const Var& a, const Var& b, bool is_of_leaf) {
  if (!is_of_leaf) return a + b;
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [](const Var&, const Var& dy, const std::vector<Var>&) {
    return Gradients{dy, dy};
  });
  ops::add(y.value(), a.value(), b.value(), y.stream());
  return y;
}

}  // namespace

Var slice(const Operand& x, const Slice& of) {
  const ValueCall call("slice", x);
  const Shape& from = x.var.shape();
  const std::size_t axis = checked_axis("slice", x, of.axis);
  const std::int64_t size = from.begin()[axis];
  const std::int64_t step = std::clamp(of.step, -size - 1, size + 1);  // a longer step has the same effect
  const auto fail = [&](const std::string& found) {
    throw_invalid("slice: {} along axis {} of {}", found, axis, to_string(from));
  };
  if (step == 0) fail("step 0");
  // Forwards, places run from 0 to the size; backwards, from the last element down to one before the first.
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto place = [&](const char* what, const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    const std::int64_t result = *given < 0 ? *given + size : *given;
    if (result < 0 || result > highest) {
      fail(fmt::format("{} {}, expected one from {} to {},", what, *given, -size, highest));
    }
    return result;
  };
  const std::int64_t begin = place("begin", of.begin, step > 0 ? lowest : highest);
  const std::int64_t end = place("end", of.end, step > 0 ? highest : lowest);
  if (step > 0 ? end < begin : end > begin) fail(fmt::format("end {} before begin {} with step {}", end, begin, step));
  const std::int64_t count = (end - begin + step - (step > 0 ? 1 : -1)) / step;
  if (begin == 0 && step == 1 && count == size) return x.var;
  const Shape shape = with_size(from, axis, count);
  const Part part{axis, step > 0 ? begin : begin + (count - 1) * step, std::abs(step)};
  const Gradient gradient = [part, step](const Var&, const Var& dy, const std::vector<Var>&) {
    return Gradients(step > 0 ? dy : flip(dy, {static_cast<int>(part.axis)}), part);
  };
  if (axis == 0 && step == 1) return x.var.view(x.var.value().rows(begin, end), gradient);
  Layout layout = broadcast_layout(from, from);
  layout.offset = begin * layout.strides[axis];
  layout.strides[axis] *= step;
  return view("slice", x.var, shape, layout, gradient);
}

std::vector<Var> split(const Operand& x, int parts, int axis) {
  const ValueCall call("split", x);
  const std::int64_t size = x.var.shape().begin()[checked_axis("split", x, axis)];
  if (parts < 1 || size % parts != 0) {
    throw_shape("split: axis {} of {} into {} parts, expected equal parts", axis, to_string(x.var.shape()), parts);
  }
  return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(parts), size / parts), axis);
}

std::vector<Var> split(const Operand& x, const std::vector<std::int64_t>& sizes, int axis) {
  const ValueCall call("split", x);
  const std::int64_t size = x.var.shape().begin()[checked_axis("split", x, axis)];
  std::int64_t sum = 0;
  bool fits = true;
  for (const std::int64_t each : sizes) fits = fits && each >= 0 && each <= size - sum, sum += fits ? each : 0;
  if (!fits || sum != size) {
    throw_shape("split: axis {} of {} into parts of {}, expected sizes that add up to {}", axis,
                to_string(x.var.shape()), fmt::join(sizes, ", "), size);
  }
  std::vector<Var> parts;
  std::int64_t begin = 0;
  for (const std::int64_t each : sizes) {
    parts.push_back(slice(x, {.axis = axis, .begin = begin, .end = begin + each}));
    begin += each;
  }
  return parts;
}

Var concatenate(const std::vector<Var>& parts, int axis, Where where) {
  const detail::CallSite site(where);
  if (parts.empty()) throw_invalid("concatenate: expected at least one value, found none");
  const Shape& first = parts.front().shape();
  const std::size_t along = checked_axis("concatenate", parts.front(), axis);
  DType dtype = parts.front().dtype();
  std::int64_t size = 0;
  for (const Var& part : parts) {
    const Shape& shape = part.shape();
    if (shape.rank() != first.rank() || with_size(shape, along, first.begin()[along]) != first) {
      throw_shape("concatenate: {} and {}, expected equal sizes except along axis {}", to_string(shape),
                  to_string(first), along);
    }
    dtype = promoted(dtype, part.dtype());
    size += shape.begin()[along];
  }
  std::vector<Var> there;
  for (const Var& part : parts) {
    if (part.shape().count() > 0) there.push_back(cast(part, dtype));
  }
  if (there.empty()) return cast(parts.front(), dtype).reshape(with_size(first, along, size));
  return joined(there, along);
}

Var stack(const std::vector<Var>& parts, int axis, Where where) {
  const detail::CallSite site(where);
  if (parts.empty()) throw_invalid("stack: expected at least one value, found none");
  const Shape& first = parts.front().shape();
  const int rank = static_cast<int>(first.rank()) + 1, along = axis < 0 ? axis + rank : axis;
  if (along < 0 || along >= rank) {
    throw_invalid("stack: axis {} of {}, expected one from {} to {}", axis, to_string(first), -rank, rank - 1);
  }
  std::vector<std::int64_t> sizes(first.begin(), first.end());
  sizes.insert(sizes.begin() + along, 1);
  std::vector<Var> flat;
  for (const Var& part : parts) {
    if (part.shape() != first) {
      throw_shape("stack: {} and {}, expected equal shapes", to_string(part.shape()), to_string(first));
    }
    flat.push_back(part.reshape(Shape(sizes)));
  }
  return concatenate(flat, along);
}

Var pad(const Operand& x, const PadOptions& with) {
  const ValueCall call("pad", x);
  const Var& from = x.var;
  const std::size_t axis = checked_axis("pad", x, with.axis);
  if (with.before < 0 || with.after < 0) {
    throw_invalid("pad: {} before and {} after axis {} of {}, expected 0 or more", with.before, with.after, axis,
                  to_string(from.shape()));
  }
  expect_fits("pad", with.value, from.dtype());
  if (!is_floating(from.dtype()) && with.value != std::trunc(with.value)) {
    throw_invalid("pad: value {} for {}, expected a whole number", with.value, name_of(from.dtype()));
  }
  if (with.before == 0 && with.after == 0) return from;
  return padded(from, axis, with.before, with.after, with.value);
}

void GradientTerms::add(const Var& term, const std::optional<Part>& part, bool is_of_leaf) {
  if (!part) {
    whole_ = whole_ ? sum_of(*whole_, term, is_of_leaf) : term;
    return;
  }
  const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const auto& other) {
    return other.first == *part && other.second.shape() == term.shape();
  });
  if (same != parts_.end()) {
    same->second = same->second + term;
  } else {
    parts_.emplace_back(*part, term);
  }
}

Var GradientTerms::sum(const Shape& shape, bool is_of_leaf) {
  if (std::optional<Var> together = assemble(parts_, shape)) {
    parts_.clear();
    add(*together, std::nullopt, is_of_leaf);
  }
  for (const auto& [part, term] : std::exchange(parts_, {})) add(zero_pad(term, part, shape), std::nullopt, is_of_leaf);
  return *std::exchange(whole_, std::nullopt);
}

}  // namespace giro::nn
