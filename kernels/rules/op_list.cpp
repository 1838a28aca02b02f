#include "kernels/rules/op_list.h"

#include <algorithm>

#include "runtime/arena.h"
#include "runtime/program/recording.h"

namespace giro::rules {

OpList::OpList(std::vector<detail::HeldOp>& ops, const Arena& trace) : ops_(ops), trace_(trace), index_(ops) {
  std::size_t segment = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool continues =
        i > 0 && ops[i].stream == ops[i - 1].stream && !ops[i].is_barrier() && !ops[i - 1].is_barrier();
    segment_.push_back(continues ? segment : ++segment);
  }
}

bool OpList::is_temporary(const Tensor& tensor) const { return trace_.block_at(tensor.raw()) != nullptr; }

std::optional<std::vector<std::size_t>> OpList::readers(std::size_t i, const Tensor& value, std::size_t most) const {
  const auto* const block = trace_.block_at(value.raw());
  if (block == nullptr || !block->second.free || block->second.pinned) return std::nullopt;
  std::vector<std::size_t> readers;
  for (const std::size_t k : near(value)) {
    const bool is_read = detail::any_overlap(ops_[k].node.reads, value),
               is_written = detail::any_overlap(ops_[k].node.writes, value);
    if (k == i || !(is_read || is_written)) continue;
    if (k < i || is_written || readers.size() == most || ops_[k].stream != ops_[i].stream) return std::nullopt;
    readers.push_back(k);
  }
  return readers;
}

std::optional<std::size_t> OpList::only_reader(std::size_t i, const Tensor& value) const {
  const auto all = readers(i, value, 1);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

// Whether op `i` must keep its order with an op in [begin, end) that is not among `but`.
bool OpList::depends_on_any(std::size_t i, std::size_t begin, std::size_t end,
                            const std::vector<std::size_t>& but) const {
  const auto meets = [&](const std::vector<Tensor>& tensors, bool is_read) {
    for (const Tensor& tensor : tensors) {
      const std::vector<std::size_t>& ops = is_read ? index_.writers_at(tensor) : near(tensor);
      for (auto k = std::lower_bound(ops.begin(), ops.end(), begin); k != ops.end() && *k < end; ++k) {
        const Program::Node& node = ops_[*k].node;
        if (*k == i || std::find(but.begin(), but.end(), *k) != but.end()) continue;
        if (detail::any_overlap(node.writes, tensor) || (!is_read && detail::any_overlap(node.reads, tensor)))
          return true;
      }
    }
    return false;
  };
  return meets(ops_[i].node.reads, true) || meets(ops_[i].node.writes, false);
}

bool OpList::can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others) const {
  return segment_[i] == segment_[j] && !depends_on_any(j, i + 1, j, others);
}

bool OpList::can_run_late(std::size_t i, std::size_t j) const {
  return segment_[i] == segment_[j] && !depends_on_any(i, i + 1, j, {});
}

bool OpList::is_unchanged(const Tensor& value, std::size_t i, std::size_t k) const {
  for (const std::size_t other : index_.writers_at(value)) {
    const bool may_come_before = other > i && (other < k || ops_[other].stream != ops_[k].stream);
    if (may_come_before && detail::any_overlap(ops_[other].node.writes, value)) return false;
  }
  return ops_[i].stream == ops_[k].stream;
}

bool OpList::is_untouched(const Tensor& value, std::size_t i, std::size_t k) const {
  const std::vector<std::size_t>& ops = near(value);
  return std::none_of(ops.begin(), ops.end(), [&](std::size_t at) {
    const Program::Node& node = ops_[at].node;
    return at >= i && at < k && (detail::any_overlap(node.writes, value) || detail::any_overlap(node.reads, value));
  });
}

bool OpList::relocate(Tensor from, Tensor to, std::size_t i, std::size_t k) {
  const auto value_readers = readers(i, from);
  const auto* const block = trace_.block_at(from.raw());
  if (!value_readers || block->first != from.raw() || from.bytes() != to.bytes() || from.device() != to.device() ||
      detail::overlap(from, to)) {
    return false;
  }
  // Another stream may use the memory, and be waited for in between.
  if (segment_[i] != segment_[k] || !is_untouched(to, i, k)) return false;
  const auto lies_within = [&](const Tensor& part) {
    const auto* const begin = static_cast<const char*>(from.raw());
    const auto* const at = static_cast<const char*>(part.raw());
    return !detail::overlap(part, from) || (at >= begin && at + part.bytes() <= begin + from.bytes());
  };
  if (!std::all_of(ops_[i].node.writes.begin(), ops_[i].node.writes.end(), lies_within)) return false;
  for (const std::size_t reader : *value_readers) {
    if (reader > k && (!is_unchanged(to, k, reader) || detail::any_overlap(ops_[reader].node.writes, to))) return false;
    if (!std::all_of(ops_[reader].node.reads.begin(), ops_[reader].node.reads.end(), lies_within)) return false;
  }
  detail::MemoryMoves moves;
  moves.add(block->first, from.bytes(), static_cast<char*>(to.raw()));
  const std::vector<std::size_t> touching = near(from);
  for (const std::size_t at : touching) {
    index_.remove(at, ops_[at]);
    for (auto* tensors : {&ops_[at].node.reads, &ops_[at].node.writes}) {
      for (Tensor& tensor : *tensors) {
        if (detail::overlap(tensor, from)) tensor = moves(tensor);
      }
    }
    ops_[at].call->move(moves);
    index_.add(at, ops_[at]);
  }
  return true;
}

void OpList::replace(std::size_t i, const std::vector<std::size_t>& gone) {
  detail::HeldOp op = detail::Recording::current()->take_single_op();
  op.node.where = ops_[i].node.where;
  index_.remove(i, ops_[i]);
  index_.add(i, op);
  ops_[i] = std::move(op);
  for (const std::size_t k : gone) drop(k);
}

void OpList::drop(std::size_t i) {
  index_.remove(i, ops_[i]);
  ops_[i].node = Program::Node("", {}, {});
  ops_[i].call = nullptr;
}

void OpList::compact() {
  std::erase_if(ops_, [](const detail::HeldOp& op) { return op.call == nullptr; });
}

}  // namespace giro::rules
