#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/program/memory_index.h"
#include "runtime/program/op.h"
#include "runtime/program/overlap.h"

namespace giro::rules {

// The ops of a program while rules replace some of them: which op reads what, and which ops may be reordered. A dropped
// op leaves an empty one behind, which has no type and touches nothing, until compact().
class OpList {
 public:
  OpList(std::vector<detail::HeldOp>& ops, const Arena& trace);

  std::size_t size() const { return ops_.size(); }
  const detail::HeldOp& operator[](std::size_t i) const { return ops_[i]; }

  // The ops that touch the memory of the tensor, or some near it, in their order.
  const std::vector<std::size_t>& near(const Tensor& tensor) const { return index_.ops_at(tensor); }

  // Whether it lies in memory that was allocated within the recording; it may still be held.
  bool is_temporary(const Tensor& tensor) const;

  // The only op that reads what op `i` writes to `value`, if nothing else ever uses the value. nullopt if the value
  // lies outside the program, is still held, or is also written by another op.
  std::optional<std::size_t> only_reader(std::size_t i, const Tensor& value) const;
  // The ops that read `value`, possibly none, under the same conditions; nullopt if these do not hold, if there are
  // more than `most` readers, or if one is on another stream.
  std::optional<std::vector<std::size_t>> readers(std::size_t i, const Tensor& value,
                                                  std::size_t most = std::numeric_limits<std::size_t>::max()) const;

  // Whether op `j` may run in op `i`'s place, i < j, if its reads of results of op `i` and of `others` are replaced.
  bool can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others = {}) const;
  // Whether op `i` may be delayed until just before op `j`, i < j.
  bool can_run_late(std::size_t i, std::size_t j) const;

  // Whether op `k` finds in `value` what op `i` found there, i < k.
  bool is_unchanged(const Tensor& value, std::size_t i, std::size_t k) const;
  // Whether no op in [i, k) reads or writes it.
  bool is_untouched(const Tensor& value, std::size_t i, std::size_t k) const;

  // Moves the value that op `i` writes to `from` to the memory of `to`, which op `k` fills from it, i < k. Returns
  // false if that is impossible: `from` is not all of a temporary, or something else uses `to` in between.
  bool relocate(Tensor from, Tensor to, std::size_t i, std::size_t k);

  // Puts the one op that was queued, on op `i`'s stream, in the place of op `i`, and drops the ops `gone`.
  void replace(std::size_t i, const std::vector<std::size_t>& gone = {});
  void drop(std::size_t i);

  // Removes the empty ops. The list must not be used afterwards.
  void compact();

 private:
  bool depends_on_any(std::size_t i, std::size_t begin, std::size_t end, const std::vector<std::size_t>& but) const;

  std::vector<detail::HeldOp>& ops_;
  const Arena& trace_;
  MemoryIndex index_;
  // Ops with the same number are on one stream, with no op between them that keeps its place.
  std::vector<std::size_t> segment_;
};

// Whether two views show the same elements.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.dtype() == b.dtype() && a.count() == b.count();
}

}  // namespace giro::rules
