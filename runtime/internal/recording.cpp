#include "runtime/internal/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/arena.h"
#include "runtime/internal/backend.h"
#include "runtime/internal/emit.h"
#include "runtime/internal/memory_plan.h"

namespace giro::detail {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::shared_ptr<Arena> recording_arena(StreamImpl& stream) {
  if (Arena::is_off()) return std::make_shared<Arena>(stream.device, Arena::Of::recording);
  std::shared_ptr<Arena> shared = stream.recordings.lock();
  if (!shared) stream.recordings = shared = std::make_shared<Arena>(stream.device, Arena::Of::recording);
  return shared;
}

}  // namespace

Recording::Recording(StreamImpl& on, const Rewriter* rewriter) : stream(on), id(next_id()), rewriter_(rewriter) {
  if (current_ != nullptr) {
    throw Error(ErrorCode::invalid_argument, "a recording cannot start inside another of the same thread");
  }
  stream.check_usable("a recording");
  arena = recording_arena(stream);
  trace = std::make_shared<Arena>(stream.device, Arena::Of::trace);
  stream.recorded_as.store(id, std::memory_order_relaxed);
  current_ = this;
}

Recording::~Recording() {
  current_ = nullptr;
  stream.recorded_as.store(0, std::memory_order_relaxed);
}

bool Recording::holds() noexcept { return current_ != nullptr && !OpScope::is_open(); }

void Recording::hold(HeldOp op) {
  if (held_.capacity() == 0) held_.reserve(32);  // growing it would move them all, again and again
  op.stream.impl().check_usable(op.node.op.c_str());
  held_.push_back(std::move(op));
  if (is_shared_) flush();
}

void Recording::share() {
  flush();
  is_shared_ = true;
}

Buffer Recording::allocate(std::size_t bytes) {
  Buffer temporary = trace->allocate(bytes);
  if (is_shared_) trace->pin_held();
  return temporary;
}

// Memory for what is computed and used up within the ops that are held; what is still in use stays where it is.
Buffer Recording::plan(const std::vector<HeldOp>& ops, MemoryMoves& moves) {
  if (!trace->shares()) return {};
  std::map<const char*, std::size_t> indices;
  std::vector<PlannedBlock> blocks;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const auto* tensors : {&ops[i].node.reads, &ops[i].node.writes}) {
      for (const Tensor& tensor : *tensors) {
        const auto* const block = trace->block_at(tensor.raw());
        if (block == nullptr || !block->second.free || block->second.pinned) continue;
        const auto [at, is_new] = indices.try_emplace(block->first, blocks.size());
        if (is_new) blocks.push_back({0, i, i});
        PlannedBlock& planned = blocks[at->second];
        const auto end =
            static_cast<std::size_t>(static_cast<const char*>(tensor.raw()) - block->first) + tensor.bytes();
        planned.bytes = std::max(planned.bytes, Arena::block_size(end));
        planned.last = i;
      }
    }
  }
  if (blocks.empty()) return {};
  const std::size_t planned = plan_memory(blocks);
  program.set_memory(planned, least_memory(blocks));
  Buffer memory = arena->allocate(planned);
  for (const auto& [address, index] : indices) {
    moves.add(address, blocks[index].bytes, static_cast<char*>(memory.data()) + blocks[index].offset);
  }
  return memory;
}

void Recording::flush() {
  if (failure_) std::rethrow_exception(failure_);
  std::vector<HeldOp> ops = take_held();
  try {
    queue(ops);
  } catch (...) {
    failure_ = std::current_exception();
    held_ = std::move(ops);  // for whoever reports what it needs
    throw;
  }
}

void Recording::queue(std::vector<HeldOp>& ops) {
  if (rewriter_ != nullptr) rewriter_->rewrite(ops, *trace);
  MemoryMoves moves;
  const Buffer memory = plan(ops, moves);
  trace->pin_held();
  calls.reserve(program.nodes().size() + ops.size());
  for (HeldOp& op : ops) {
    for (auto* tensors : {&op.node.reads, &op.node.writes}) {
      for (Tensor& tensor : *tensors) tensor = moves(tensor);
    }
    op.call->move(moves);
    emit(*op.call, op.node, op.stream);
    calls.resize(program.nodes().size());
    calls.push_back(std::move(op.call));
    program.add(std::move(op.node));
  }
}

void StreamImpl::refuse(const char* call) const {
  const Recording* recording = Recording::current();
  if (recording == nullptr || takes_part_in(*recording)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: this stream of {} is being recorded, by another thread, "
                                                         "or by this one, which has set its recording aside",
                                                         call, to_string(device)));
  }
  const bool same = device == recording->stream.device;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: work was queued on another stream, of {}, while this thread records on {} of {}; a "
                          "recorded step may touch one device context only",
                          call, to_string(device), same ? "one" : "a stream", to_string(recording->stream.device)));
}

}  // namespace giro::detail
