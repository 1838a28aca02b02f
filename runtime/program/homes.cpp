#include "runtime/program/homes.h"

#include <algorithm>
#include <limits>

#include "runtime/arena.h"

namespace giro::detail {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

// How the ops use an array that the trace named.
struct Homes::Array {
  std::size_t first = kNone, last = 0;           // ops
  std::size_t bytes = 0;                         // that any op touches, counted from the beginning
  std::size_t readers = 0, last_reader = kNone;  // the number of ops that read it, and the last
  std::size_t block = kNone;                     // its own, or that of an array whose memory it takes
};

Homes::Homes(const std::vector<HeldOp>& ops, const Values& values, const Arena& trace, bool run_aside)
    : of_op(ops.size()), values_(&values), homes_(values.count() + 1, Home{kNone, 0}) {
  std::vector<Array> arrays = arrays_of(trace);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    values.for_each_use(ops[i], [&](const Tensor& tensor, bool is_read) {
      const Home home = homes_[id_of(tensor)];
      if (home.block == kNone) return;
      Array& array = arrays[home.block];
      if (array.first == kNone) array.first = i;
      array.last = i;
      array.bytes = std::max(array.bytes, home.offset + offset_of(tensor) + tensor.bytes());
      if (!is_read || array.last_reader == i) return;
      ++array.readers;
      array.last_reader = i;
    });
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    take_memory(ops[i], i, arrays, run_aside);
    values.for_each_use(ops[i], [&](const Tensor& tensor, bool) {
      const Home home = homes_[id_of(tensor)];
      if (home.block == kNone) return;
      Array& array = arrays[home.block];
      if (array.block == kNone) {
        array.block = blocks.size();
        blocks.push_back({0, i, i});
      }
      PlannedBlock& block = blocks[array.block];
      block.bytes = std::max(block.bytes, Arena::block_size(array.bytes));
      block.last = i;
      if (std::ranges::count(of_op[i], array.block) == 0) of_op[i].push_back(array.block);
    });
  }
  for (Home& home : homes_) {
    if (home.block != kNone) home.block = arrays[home.block].block;
  }
}

std::vector<Homes::Array> Homes::arrays_of(const Arena& trace) {
  std::vector<Array> arrays;
  std::vector<std::size_t> indices(trace.count(), kNone);  // by block
  for (Id id = 1; id <= values_->count(); ++id) {
    const char* const place = (*values_)[id].place;
    const auto* const traced = trace.block_named(place);
    if (traced == nullptr) continue;
    std::size_t& index = indices[trace.index_of(*traced)];
    if (index == kNone) {
      index = arrays.size();
      arrays.emplace_back();
    }
    homes_[id] = {index, static_cast<std::size_t>(place - traced->name)};
  }
  return arrays;
}

// Lets a result take the memory of a temporary that is last used by the same op, if the op can write over what it reads
// (OpCall::can_write_over). With ops aside this is done only if no other op reads the temporary: such an op could run
// at the same time.
void Homes::take_memory(const HeldOp& op, std::size_t i, std::vector<Array>& arrays, bool run_aside) const {
  std::vector<Tensor> reads, writes;
  values_->for_each_use(op, [&](const Tensor& tensor, bool is_read) { (is_read ? reads : writes).push_back(tensor); });
  const auto is_all_of_one = [&](const Tensor& tensor) {
    const Home home = homes_[id_of(tensor)];
    return home.block != kNone && home.offset + offset_of(tensor) == 0 && arrays[home.block].bytes == tensor.bytes();
  };
  // The op may know a part of an array by another name.
  const auto is_used_otherwise = [&](const Tensor& read) {
    const auto is_other = [&](const Tensor& tensor) {
      return homes_[id_of(tensor)].block == homes_[id_of(read)].block && id_of(tensor) != id_of(read);
    };
    return std::ranges::any_of(reads, is_other) || std::ranges::any_of(writes, is_other);
  };
  std::vector<std::size_t> taken;
  for (const Tensor& write : writes) {
    if (!is_all_of_one(write)) continue;
    Array& to = arrays[homes_[id_of(write)].block];
    if (to.first != i || to.block != kNone) continue;  // an op may name what it writes several times
    for (const Tensor& read : reads) {
      if (!is_all_of_one(read) || read.bytes() != write.bytes()) continue;
      const Array& from = arrays[homes_[id_of(read)].block];
      if (from.block == kNone || from.last != i || (run_aside && from.readers > 1) ||
          std::ranges::count(taken, from.block) > 0 || is_used_otherwise(read) ||
          !op.call->can_write_over(write, read)) {
        continue;
      }
      to.block = from.block;
      taken.push_back(from.block);
      break;
    }
  }
}

Tensor Homes::placed(const Tensor& tensor, char* memory) const {
  const Id id = id_of(tensor);
  if (id == 0) return tensor;
  const Home home = homes_[id];
  if (home.block == kNone) return values_->placed(tensor);
  return {memory + blocks[home.block].offset + home.offset + offset_of(tensor), tensor.dtype(), tensor.shape(),
          tensor.device()};
}

}  // namespace giro::detail
