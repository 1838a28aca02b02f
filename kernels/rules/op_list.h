#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/op.h"
#include "runtime/program/values.h"

namespace giro::rules {

// The ops of a program while rules replace some of them: which op reads what, and which ops may be reordered. Their
// tensors name values. A dropped op leaves an empty one behind, which has no type and touches nothing, until compact().
class OpList {
 public:
  OpList(std::vector<detail::HeldOp>& ops, detail::Values& values);

  std::size_t size() const { return ops_.size(); }
  const detail::HeldOp& operator[](std::size_t i) const { return ops_[i]; }
  // What op `i` reads and writes, each once.
  const std::vector<Tensor>& reads(std::size_t i) const { return uses_[i].reads; }
  const std::vector<Tensor>& writes(std::size_t i) const { return uses_[i].writes; }

  // Whether nothing but the ops reads it.
  bool is_temporary(const Tensor& value) const { return values_.of(value).is_temporary; }
  // The op that writes it; nullopt if none does.
  std::optional<std::size_t> writer(const Tensor& value) const;
  // The ops that read some of it, in their order.
  const std::vector<std::size_t>& users(const Tensor& value) const { return readers_[detail::id_of(value)]; }

  // The only op that reads what op `i` writes to `value`, if nothing else ever uses the value. nullopt if the value
  // is needed after the program, is only a part of what is read, or shares its memory with an earlier or later one, or
  // if op `i` is a barrier.
  std::optional<std::size_t> only_reader(std::size_t i, const Tensor& value) const;
  // The ops that read `value`, possibly none, under the same conditions; nullopt if these do not hold, if there are
  // more than `most` readers, or if one is on another stream.
  std::optional<std::vector<std::size_t>> readers(std::size_t i, const Tensor& value,
                                                  std::size_t most = std::numeric_limits<std::size_t>::max()) const;

  // Whether op `j` may run in op `i`'s place, i < j, if its reads of results of op `i` and of `others` are replaced.
  // What it writes over must not be needed in between, not even by `others`.
  bool can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others = {}) const;
  // Whether op `i` may be delayed until just before op `j`, i < j.
  bool can_run_late(std::size_t i, std::size_t j) const;
  // Whether op `k` can still read `value`, as op `i` can, i < k.
  bool is_unchanged(const Tensor& value, std::size_t i, std::size_t k) const;

  // Whether an op that writes `later` replaces some of `earlier`, or exactly that, as what is stored in a leaf replaces
  // what it held.
  bool replaces(const Tensor& later, const Tensor& earlier) const;
  bool replaces_exactly(const Tensor& later, const Tensor& earlier) const;
  // Whether an op that writes `value` replaces some of what op `i` reads.
  bool replaces_reads(const Tensor& value, std::size_t i) const;
  // Whether op `j` reads what op `i` writes as a part of another value.
  bool reads_as_part(std::size_t j, std::size_t i) const;
  // Where the memory of a value is.
  Tensor placed(const Tensor& value) const { return values_.placed(value); }

  // Both only for all of a temporary that is no part of another value:
  //
  // Lets op `i` write `value` where op `k` copies it to, i < k: to `copy`, which op `k` writes, or to a part of it.
  // Whoever reads that, reads `value` from then on. Returns false if that is impossible: other ops need the memory in
  // between. The caller takes the copy from op `k`.
  bool write_in_place_of(const Tensor& copy, const Tensor& value, std::size_t i, std::size_t k);
  // Puts `value`, which op `i` writes, where `later` is written over it, by op `k` and its only reader. False as above.
  bool write_under(const Tensor& later, const Tensor& value, std::size_t i, std::size_t k);
  // Makes `after` what an op with an InOut leaves of `before`.
  void tie(const Tensor& after, const Tensor& before);

  // Puts an op in the place of op `i`, on its stream, and drops the ops `gone`. Errors: those of queue().
  template <class Op>
  void replace(std::size_t i, std::string name, Op op, const std::vector<std::size_t>& gone = {}) {
    detail::check_op(name, op, ops_[i].stream);
    set(i, std::move(name), std::make_shared<detail::CallOf<Op>>(std::move(op)), gone);
  }
  template <class Op>
    requires requires { Op::kName; }
  void replace(std::size_t i, Op op, const std::vector<std::size_t>& gone = {}) {
    replace(i, Op::kName, std::move(op), gone);
  }
  void drop(std::size_t i);

  // Removes the empty ops. The list must not be used afterwards.
  void compact();

 private:
  struct Uses {
    std::vector<Tensor> reads, writes;
  };
  void add(std::size_t i);
  void remove(std::size_t i);
  void set(std::size_t i, std::string name, std::shared_ptr<detail::OpCall> call, const std::vector<std::size_t>& gone);
  bool is_all_of_one(const Tensor& value) const;
  // Whether an op in [begin, end) reads or writes what `value` is written over.
  bool is_needed_below(const detail::Value& value, std::size_t begin, std::size_t end) const;
  // Whether an op for which that holds writes over what `tensor` names.
  template <class F>
  bool is_overwritten_by(const Tensor& tensor, const F& holds) const;
  bool is_overwritten(const Tensor& tensor, std::size_t begin, std::size_t end) const;  // by an op in [begin, end)
  // Gives `value` the memory of what `other` names.
  void put(const Tensor& value, const Tensor& other);
  // Lets the readers of `copy` read `value`.
  void read_instead(const Tensor& copy, const Tensor& value);

  std::vector<detail::HeldOp>& ops_;
  detail::Values& values_;
  std::vector<Uses> uses_;
  // For each value, the ops that read it, alone or within another value, and the op that writes it.
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<std::size_t> writers_;
  // Ops with the same number are on one stream, with no op between them that keeps its place.
  std::vector<std::size_t> segment_;
};

// Whether two views show the same elements.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.place() == b.place() && a.dtype() == b.dtype() && a.count() == b.count();
}

}  // namespace giro::rules
