#include "runtime/program/memory_index.h"

#include <algorithm>
#include <iterator>

#include "runtime/throw_error.h"

namespace giro::rules {
namespace {

std::uintptr_t begin_of(const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.raw()); }

// f(tensor, whether it is written).
template <class F>
void for_each_part(const detail::HeldOp& op, F&& f) {
  for (const auto* tensors : {&op.node.reads, &op.node.writes}) {
    for (const Tensor& tensor : *tensors) {
      if (tensor && tensor.bytes() > 0) f(tensor, tensors == &op.node.writes);
    }
  }
}

const std::vector<std::size_t> kNone;

void insert(std::vector<std::size_t>& ops, std::size_t i) {
  const auto place = std::lower_bound(ops.begin(), ops.end(), i);
  if (place == ops.end() || *place != i) ops.insert(place, i);
}

void erase(std::vector<std::size_t>& ops, std::size_t i) {
  const auto place = std::lower_bound(ops.begin(), ops.end(), i);
  if (place != ops.end() && *place == i) ops.erase(place);
}

}  // namespace

MemoryIndex::MemoryIndex(const std::vector<detail::HeldOp>& ops) {
  for (const detail::HeldOp& op : ops) {
    for_each_part(op, [&](const Tensor& tensor, bool) {
      regions_.push_back({begin_of(tensor), begin_of(tensor) + tensor.bytes(), {}, {}});
    });
  }
  std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < regions_.size(); ++i) {
    if (regions_[i].begin < regions_[last].end) {
      regions_[last].end = std::max(regions_[last].end, regions_[i].end);
    } else {
      regions_[++last] = regions_[i];
    }
  }
  if (!regions_.empty()) regions_.resize(last + 1);
  for (std::size_t i = 0; i < ops.size(); ++i) add(i, ops[i]);
}

const MemoryIndex::Region* MemoryIndex::at(const Tensor& tensor) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), begin_of(tensor),
                       [](std::uintptr_t address, const Region& region) { return address < region.begin; });
  if (after == regions_.begin() || begin_of(tensor) >= std::prev(after)->end) return nullptr;
  return &*std::prev(after);
}

const std::vector<std::size_t>& MemoryIndex::ops_at(const Tensor& tensor) const {
  const Region* const region = at(tensor);
  return region != nullptr ? region->ops : kNone;
}

const std::vector<std::size_t>& MemoryIndex::writers_at(const Tensor& tensor) const {
  const Region* const region = at(tensor);
  return region != nullptr ? region->writers : kNone;
}

void MemoryIndex::add(std::size_t i, const detail::HeldOp& op) {
  for_each_part(op, [&](const Tensor& tensor, bool is_written) {
    Region* const region = at(tensor);
    if (region == nullptr) {
      throw_invalid("{}: a rule makes it touch memory that no op of the program touched before", op.node.op);
    }
    insert(region->ops, i);
    if (is_written) insert(region->writers, i);
  });
}

void MemoryIndex::remove(std::size_t i, const detail::HeldOp& op) {
  for_each_part(op, [&](const Tensor& tensor, bool) {
    Region* const region = at(tensor);
    erase(region->ops, i);
    erase(region->writers, i);
  });
}

}  // namespace giro::rules
