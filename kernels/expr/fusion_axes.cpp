#include "kernels/expr/fusion_axes.h"

#include <algorithm>
#include <cstddef>

namespace giro::expr {
namespace {

std::size_t rows_of(const Expression& e) { return e.space.rank() - e.reduced; }
bool is_reduced(const Expression& e, std::size_t axis) { return axis >= rows_of(e); }
std::int64_t size_of_axis(const Expression& e, std::size_t axis) { return e.space.begin()[axis]; }

// Cuts an axis in two; the second has `inner` elements.
void cut(Expression& e, std::size_t axis, std::int64_t inner) {
  std::vector<std::int64_t> sizes(e.space.begin(), e.space.end());
  sizes[axis] /= inner;
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, inner);
  e.reduced += is_reduced(e, axis);
  e.space = Shape(sizes);
  const auto cut = [&](Layout& layout) {
    std::copy_backward(layout.strides.begin() + static_cast<std::ptrdiff_t>(axis), layout.strides.end() - 1,
                       layout.strides.end());
    layout.strides[axis] *= inner;
    std::copy_backward(layout.bounds.begin() + static_cast<std::ptrdiff_t>(axis), layout.bounds.end() - 1,
                       layout.bounds.end());
  };
  for (Access& read : e.reads) cut(read.layout);
  for (Layout& place : e.places) cut(place);
  for (Expression::Write& write : e.writes) cut(write.to.layout);
}

// An axis along which a read is bounded cannot be cut.
bool can_split(const Expression& e, std::size_t axis) {
  return e.space.rank() < Shape::kMaxRank && std::all_of(e.reads.begin(), e.reads.end(), [&](const Access& read) {
           return read.layout.bounds[axis] == Layout::Bounds();
         });
}

}  // namespace

bool runs_along_all(const Expression& e, const Layout& layout) {
  for (std::size_t a = 0; a < e.space.rank(); ++a) {
    if (size_of_axis(e, a) != 1 && layout.strides[a] == 0) return false;
  }
  return true;
}

std::optional<std::vector<Axis>> pair_axes(const Expression& p, const Expression& c, const Layout& written,
                                           const Layout& read) {
  if (written.offset != read.offset) return std::nullopt;
  std::vector<int> partner(c.space.rank(), -1);
  std::vector<Axis> axes;
  std::vector<std::size_t> open;  // axes of the producer over which the value was reduced
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    if (size_of_axis(p, a) == 1) continue;
    if (written.strides[a] == 0) {
      open.push_back(a);
      continue;
    }
    std::size_t k = 0;
    while (k < c.space.rank() &&
           (partner[k] >= 0 || read.strides[k] != written.strides[a] || size_of_axis(c, k) != size_of_axis(p, a))) {
      ++k;
    }
    if (k == c.space.rank()) return std::nullopt;
    partner[k] = static_cast<int>(a);
  }
  for (std::size_t k = 0; k < c.space.rank(); ++k) {
    if (partner[k] < 0 && read.strides[k] != 0 && size_of_axis(c, k) != 1) return std::nullopt;
  }
  for (const std::size_t a : open) {
    if (!is_reduced(p, a)) return std::nullopt;
    for (std::size_t k = 0; k < c.space.rank(); ++k) {
      const bool fits =
          partner[k] < 0 && size_of_axis(c, k) == size_of_axis(p, a) && (c.reduced == 0 || is_reduced(c, k));
      if (!fits) continue;
      partner[k] = static_cast<int>(a);
      break;
    }
  }
  for (std::size_t k = 0; k < c.space.rank(); ++k) {
    if (size_of_axis(c, k) == 1) continue;
    axes.push_back({size_of_axis(c, k), is_reduced(c, k), partner[k], static_cast<int>(k)});
  }
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    if (size_of_axis(p, a) == 1 || std::find(partner.begin(), partner.end(), static_cast<int>(a)) != partner.end())
      continue;
    axes.push_back({size_of_axis(p, a), is_reduced(p, a), static_cast<int>(a), -1});
  }
  return axes;
}

bool split_matching_axes(Expression& p, const Layout& written, Expression& c, const Layout& read) {
  bool has_cut = false;
  for (std::size_t a = 0; a < p.space.rank(); ++a) {
    for (std::size_t k = 0; k < c.space.rank(); ++k) {
      const std::int64_t of_p = size_of_axis(p, a), of_c = size_of_axis(c, k);
      const std::int64_t large = std::max(of_p, of_c), small = std::min(of_p, of_c);
      if (written.strides[a] != read.strides[k] || written.strides[a] == 0 || small == 1 || large == small ||
          large % small != 0) {
        continue;
      }
      if (!(of_p > of_c ? can_split(p, a) : can_split(c, k))) return false;
      of_p > of_c ? cut(p, a, small) : cut(c, k, small);
      has_cut = true;
      a = 0, k = static_cast<std::size_t>(-1);
    }
  }
  return has_cut;
}

bool order_reduced_axes(std::vector<Axis>& axes, const Expression& p, const Expression& c) {
  const bool producer = reduces(p), consumer = reduces(c);
  for (Axis& axis : axes) {
    const bool in_p = axis.producer >= 0 && is_reduced(p, static_cast<std::size_t>(axis.producer));
    const bool in_c = axis.consumer >= 0 && is_reduced(c, static_cast<std::size_t>(axis.consumer));
    if (producer && consumer && in_p != in_c) return false;
    axis.is_reduced = producer ? in_p : in_c;
    // Otherwise a reduction would run over more than its own elements, or be repeated for rows.
    if (producer && axis.producer < 0) return false;
    if (consumer && axis.consumer < 0) return false;
  }
  std::stable_partition(axes.begin(), axes.end(), [](const Axis& axis) { return !axis.is_reduced; });
  const auto in_order = [&](int Axis::*of) {
    const auto reduced = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.is_reduced; });
    return std::is_sorted(reduced, axes.end(), [&](const Axis& a, const Axis& b) { return a.*of < b.*of; });
  };
  // Each expression keeps its own order of sums.
  return (!producer || in_order(&Axis::producer)) && (!consumer || in_order(&Axis::consumer));
}

Layout to_common_axes(const Layout& layout, const std::vector<Axis>& axes, int Axis::*of) {
  Layout result{.offset = layout.offset};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].*of < 0) continue;
    result.strides[i] = layout.strides[static_cast<std::size_t>(axes[i].*of)];
    result.bounds[i] = layout.bounds[static_cast<std::size_t>(axes[i].*of)];
  }
  return result;
}

}  // namespace giro::expr
