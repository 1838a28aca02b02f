#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/program/memory_index.h"
#include "runtime/program/op.h"

namespace giro::rules {

// The ops of a program while rules replace some of them: who reads what, and which of them may change places. An op
// that was dropped leaves an empty one behind, which is of no type and touches nothing, until compact().
class OpList {
 public:
  OpList(std::vector<detail::HeldOp>& ops, const Arena& trace);

  std::size_t size() const { return ops_.size(); }
  const detail::HeldOp& operator[](std::size_t i) const { return ops_[i]; }

  // The ops that touch the memory that the tensor lies in, or some near it, in their order.
  const std::vector<std::size_t>& near(const Tensor& tensor) const { return index_.ops_at(tensor); }

  // The only op that reads what op `i` writes to `value`, where nothing else ever looks at it. None for a value that
  // lies outside of the program, that is still held, or that another op writes to as well.
  std::optional<std::size_t> only_reader(std::size_t i, const Tensor& value) const;
  // The ops that read it, under the same conditions but for their number, which may be 0; none if they do not hold, or
  // if there are more than `most`, or one of another stream.
  std::optional<std::vector<std::size_t>> readers(std::size_t i, const Tensor& value,
                                                  std::size_t most = std::numeric_limits<std::size_t>::max()) const;

  // Whether op `j` may run in op `i`'s place, i < j, given that what it reads of op `i` and of `others` is replaced.
  bool can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others = {}) const;
  // Whether op `i` may wait until just before op `j`, i < j.
  bool can_run_late(std::size_t i, std::size_t j) const;

  // Whether op `k` finds in `value` what op `i` found there, i < k.
  bool stays(const Tensor& value, std::size_t i, std::size_t k) const;
  // Whether no op from `i` on and before `k` reads or writes it.
  bool is_untouched(const Tensor& value, std::size_t i, std::size_t k) const;

  // Gives the value that op `i` writes to `from` the memory of `to` instead, which op `k` fills from it, i < k. Returns
  // false where that cannot be: `from` is not all of a temporary, or something else looks at `to` in between.
  bool place(Tensor from, Tensor to, std::size_t i, std::size_t k);

  // Puts the one op that was queued, on op `i`'s stream, in the place of op `i`, and drops the ops at `gone`.
  void replace(std::size_t i, const std::vector<std::size_t>& gone = {});
  void drop(std::size_t i);

  // Removes the empty ops. The list is of no use afterwards.
  void compact();

 private:
  bool depends_on_any(std::size_t i, std::size_t begin, std::size_t end, const std::vector<std::size_t>& but) const;

  std::vector<detail::HeldOp>& ops_;
  const Arena& trace_;
  MemoryIndex index_;
  // Ops of one number are all on one stream, with nothing between them that keeps its place.
  std::vector<std::size_t> stretch_;
};

// Whether two views are of the same elements.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.dtype() == b.dtype() && a.count() == b.count();
}

}  // namespace giro::rules
