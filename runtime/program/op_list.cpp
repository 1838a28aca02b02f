#include "runtime/program/op_list.h"

#include <algorithm>

#include "runtime/internal/arena.h"

namespace giro::rules {
namespace {

using detail::any_overlap;

// Whether two ops have to keep their order.
bool depend(const detail::HeldOp& a, const detail::HeldOp& b) {
  return a.stream != b.stream || a.keeps_its_place() || b.keeps_its_place() || detail::depend(a.node, b.node);
}

}  // namespace

std::optional<std::vector<std::size_t>> OpList::readers(std::size_t i, const Tensor& value, std::size_t most) const {
  const auto* const block = trace_.block_at(value.raw());
  if (block == nullptr || !block->second.free || block->second.pinned) return std::nullopt;
  std::vector<std::size_t> readers;
  for (std::size_t k = i + 1; k < ops_.size(); ++k) {
    if (any_overlap(ops_[k].node.writes, value)) return std::nullopt;
    if (!any_overlap(ops_[k].node.reads, value)) continue;
    if (readers.size() == most || ops_[k].stream != ops_[i].stream) return std::nullopt;
    readers.push_back(k);
  }
  return is_untouched(value, 0, i) ? std::optional(std::move(readers)) : std::nullopt;
}

std::optional<std::size_t> OpList::only_reader(std::size_t i, const Tensor& value) const {
  const auto all = readers(i, value, 1);
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
  for (std::size_t other = i + 1; other < ops_.size(); ++other) {
    const bool may_come_before = other < k || ops_[other].stream != ops_[k].stream;
    if (may_come_before && any_overlap(ops_[other].node.writes, value)) return false;
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

bool OpList::place(Tensor from, Tensor to, std::size_t i, std::size_t k) {
  const auto value_readers = readers(i, from);
  const auto* const block = trace_.block_at(from.raw());
  if (!value_readers || block->first != from.raw() || from.bytes() != to.bytes() || from.device() != to.device() ||
      detail::overlap(from, to)) {
    return false;
  }
  // Memory that another stream uses may be waited for in between.
  for (std::size_t between = i; between < k; ++between) {
    if (ops_[between].keeps_its_place() || ops_[between].stream != ops_[k].stream) return false;
  }
  if (!is_untouched(to, i, k)) return false;
  const auto lies_within = [&](const Tensor& part) {
    const auto* const begin = static_cast<const char*>(from.raw());
    const auto* const at = static_cast<const char*>(part.raw());
    return !detail::overlap(part, from) || (at >= begin && at + part.bytes() <= begin + from.bytes());
  };
  if (!std::all_of(ops_[i].node.writes.begin(), ops_[i].node.writes.end(), lies_within)) return false;
  for (const std::size_t reader : *value_readers) {
    if (reader > k && (!stays(to, k, reader) || any_overlap(ops_[reader].node.writes, to))) return false;
    if (!std::all_of(ops_[reader].node.reads.begin(), ops_[reader].node.reads.end(), lies_within)) return false;
  }
  detail::MemoryMoves moves;
  moves.add(block->first, from.bytes(), static_cast<char*>(to.raw()));
  for (std::size_t at = i; at < ops_.size(); ++at) {
    for (auto* tensors : {&ops_[at].node.reads, &ops_[at].node.writes}) {
      for (Tensor& tensor : *tensors) {
        if (detail::overlap(tensor, from)) tensor = moves(tensor);
      }
    }
    ops_[at].call->move(moves);
  }
  return true;
}

void OpList::replace(std::size_t i, const std::vector<std::size_t>& gone) {
  const std::source_location where = ops_[i].node.where;
  ops_[i] = detail::Recording::current()->take_only();
  ops_[i].node.where = where;
  if (gone.empty()) return;
  std::size_t kept = *std::min_element(gone.begin(), gone.end());
  for (std::size_t k = kept; k < ops_.size(); ++k) {
    if (std::find(gone.begin(), gone.end(), k) == gone.end()) ops_[kept++] = std::move(ops_[k]);
  }
  ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(kept), ops_.end());
}

}  // namespace giro::rules
