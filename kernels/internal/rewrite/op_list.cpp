#include "kernels/internal/rewrite/op_list.h"

#include <algorithm>

#include "runtime/internal/arena.h"

namespace giro::rewrite {
namespace {

using detail::any_overlap;

// Whether two ops have to keep their order.
bool depend(const detail::HeldOp& a, const detail::HeldOp& b) {
  return a.stream != b.stream || detail::depend(a.node, b.node);
}

}  // namespace

std::optional<std::vector<std::size_t>> OpList::readers(std::size_t i, const Tensor& value) const {
  const auto* const block = trace_.block_at(value.raw());
  if (block == nullptr || !block->second.free || block->second.pinned) return std::nullopt;
  std::vector<std::size_t> readers;
  for (std::size_t k = 0; k < ops_.size(); ++k) {
    if (k == i) continue;
    if (any_overlap(ops_[k].node.writes, value)) return std::nullopt;
    if (!any_overlap(ops_[k].node.reads, value)) continue;
    if (k < i) return std::nullopt;
    readers.push_back(k);
  }
  return readers;
}

std::optional<std::size_t> OpList::only_reader(std::size_t i, const Tensor& value) const {
  const auto all = readers(i, value);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

bool OpList::can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others) const {
  if (ops_[i].stream != ops_[j].stream) return false;
  for (std::size_t k = i + 1; k < j; ++k) {
    if (std::find(others.begin(), others.end(), k) == others.end() && depend(ops_[k], ops_[j])) return false;
  }
  return true;
}

bool OpList::can_run_late(std::size_t i, std::size_t j) const {
  if (ops_[i].stream != ops_[j].stream) return false;
  for (std::size_t k = i + 1; k < j; ++k) {
    if (depend(ops_[i], ops_[k])) return false;
  }
  return true;
}

bool OpList::stays(const Tensor& value, std::size_t i, std::size_t k) const {
  for (std::size_t between = i + 1; between < k; ++between) {
    if (any_overlap(ops_[between].node.writes, value)) return false;
  }
  return ops_[i].stream == ops_[k].stream;
}

bool OpList::is_untouched(const Tensor& value, std::size_t i, std::size_t k) const {
  for (; i < k; ++i) {
    const Program::Node& node = ops_[i].node;
    if (any_overlap(node.writes, value) || any_overlap(node.reads, value)) return false;
  }
  return true;
}

void OpList::replace(std::size_t i, const std::vector<std::size_t>& gone) {
  const std::source_location where = ops_[i].node.where;
  ops_[i] = std::move(detail::Recording::current()->take_held().front());
  ops_[i].node.where = where;
  std::vector<std::size_t> last_first = gone;
  std::sort(last_first.rbegin(), last_first.rend());
  for (const std::size_t k : last_first) ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(k));
}

}  // namespace giro::rewrite
