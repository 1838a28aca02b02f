#include "runtime/program/recording.h"

#include <algorithm>
#include <deque>
#include <map>

#include <giro/runtime/state.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/program/branches.h"
#include "runtime/program/copy.h"
#include "runtime/program/emit.h"
#include "runtime/program/memory_plan.h"
#include "runtime/program/op.h"
#include "runtime/throw_error.h"

namespace giro {

void ops::run(const Copy& op, const Stream& stream) { stream.impl().copy(op.to.raw(), op.from.raw(), op.to.bytes()); }

}  // namespace giro

namespace giro::detail {
namespace {

std::shared_ptr<Arena> recording_arena(StreamImpl& stream) {
  if (Arena::is_off()) return std::make_shared<Arena>(stream.device, Arena::Kind::recording);
  std::shared_ptr<Arena> shared = stream.recordings.lock();
  if (!shared) stream.recordings = shared = std::make_shared<Arena>(stream.device, Arena::Kind::recording);
  return shared;
}

// Orders a recording's stream and its second stream, which runs the ops aside (branches.h), with events.
class BranchStreams {
 public:
  // `side_stream` is null if no op is aside.
  BranchStreams(Recording& recording, StreamImpl* side_stream) : recording_(recording), side_stream_(side_stream) {}

  // Call before and after op `i` is queued on its stream, in the order of the ops.
  void begin(std::size_t i, const Branch& branch) {
    if (branch.on_side_stream) {
      if (!std::exchange(must_follow_, false)) return;
      const std::shared_ptr<EventImpl> fork = recording_.stream.create_event();
      fork->record(recording_.stream);
      side_stream_->wait(*fork);
      side_stream_->joined = recording_.id;
      recording_.has_events = true;
      return;
    }
    must_follow_ = true;
    std::shared_ptr<EventImpl> done;
    for (; !open_.empty() && open_.front().joined <= i; open_.pop_front()) done = std::move(open_.front().done);
    if (done) recording_.stream.wait(*done);
  }
  void end(const Branch& branch) {
    if (!branch.on_side_stream) return;
    std::shared_ptr<EventImpl> done = side_stream_->create_event();
    done->record(*side_stream_);
    open_.push_back({branch.joined, std::move(done)});
  }
  // The recording's stream waits for everything that is still aside.
  void join() {
    if (!open_.empty()) recording_.stream.wait(*open_.back().done);
  }

 private:
  struct Open {
    std::size_t joined;
    std::shared_ptr<EventImpl> done;
  };
  Recording& recording_;
  StreamImpl* side_stream_;
  std::deque<Open> open_;    // not waited for yet, in order
  bool must_follow_ = true;  // the recording's stream has work that `side_stream_` has not waited for
};

void move(HeldOp& op, const MemoryMoves& moves) {
  for (auto* tensors : {&op.node.reads, &op.node.writes}) {
    for (Tensor& tensor : *tensors) tensor = moves(tensor);
  }
  op.call->move(moves);
}

struct Fill {
  static constexpr const char* kName = "fill";
  Out to;
  unsigned char value;
};
void run(const Fill& op, const Stream& stream) { stream.impl().fill(op.to.raw(), op.value, op.to.bytes()); }

struct Uses {
  std::size_t first, last;                   // ops
  std::size_t bytes = 0;                     // that any op touches, counted from the beginning
  std::size_t readers = 0, last_reader = 0;  // number of ops that read it, and the last
};

// Lets a result take the memory of a temporary that is last used by the same op, if the op can write over what it reads
// (OpCall::can_write_over). Ops that must then keep their order touch the same memory, so their order is kept. With
// branches this is done only if no other op reads the temporary: such an op could run concurrently.
class Sharing {
 public:
  Sharing(std::vector<HeldOp>& ops, const Arena& trace, bool has_branches)
      : ops_(ops), trace_(trace), has_branches_(has_branches) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const auto* tensors : {&ops[i].node.reads, &ops[i].node.writes}) {
        for (const Tensor& tensor : *tensors) {
          const char* const block = temporary(tensor);
          if (block == nullptr) continue;
          Uses& uses = uses_.try_emplace(block, Uses{i, i}).first->second;
          const auto begin = static_cast<std::size_t>(static_cast<const char*>(tensor.raw()) - block);
          if (tensors == &ops[i].node.reads && (uses.readers == 0 || uses.last_reader != i)) {
            ++uses.readers;
            uses.last_reader = i;
          }
          uses.last = i;
          uses.bytes = std::max(uses.bytes, begin + tensor.bytes());
        }
      }
    }
  }

  void run() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      taken_.clear();
      for (const Tensor& write : ops_[i].node.writes) take_memory(i, write);
      if (is_moved_) move(ops_[i], moves_);
    }
  }

 private:
  // The beginning of the temporary that contains this tensor; null if there is none.
  const char* temporary(const Tensor& tensor) const {
    const auto* const block = trace_.block_at(tensor.raw());
    return block != nullptr && block->second.free && !block->second.pinned ? block->first : nullptr;
  }
  bool is_all_of_one(const Tensor& tensor) const {
    return tensor && temporary(tensor) == tensor.raw() && uses_.at(temporary(tensor)).bytes == tensor.bytes();
  }

  // Finds memory to reuse for what op `i` writes, if op `i` is the first to use it.
  void take_memory(std::size_t i, const Tensor& write) {
    if (!is_all_of_one(write) || uses_.at(temporary(write)).first != i) return;
    for (const Tensor& read : ops_[i].node.reads) {
      if (!is_all_of_one(read) || read.bytes() != write.bytes() || uses_.at(temporary(read)).last != i) continue;
      if (has_branches_ && uses_.at(temporary(read)).readers > 1) continue;
      if (!ops_[i].call->can_write_over(write, read)) continue;
      auto* const to = static_cast<char*>(moves_(read.raw()));
      if (std::find(taken_.begin(), taken_.end(), to) != taken_.end()) continue;
      moves_.add(temporary(write), Arena::block_size(write.bytes()), to);
      taken_.push_back(to);
      is_moved_ = true;
      return;
    }
  }

  std::vector<HeldOp>& ops_;
  const Arena& trace_;
  const bool has_branches_;
  std::map<const char*, Uses> uses_;
  MemoryMoves moves_;
  std::vector<char*> taken_;  // by the current op
  bool is_moved_ = false;     // whether any value was moved
};

void share_memory(std::vector<HeldOp>& ops, const Arena& trace, bool has_branches) {
  if (trace.shares()) Sharing(ops, trace, has_branches).run();
}

}  // namespace

Recording::Recording(StreamImpl& on, Rewrite rewrite) : StreamRecording(on), rewrite_(rewrite) {
  arenas.push_back({&stream, recording_arena(stream)});
  trace = std::make_shared<Arena>(stream.device, Arena::Kind::trace);
}

void Recording::hold_copy(const Tensor& to, const Tensor& from, const Stream& on) {
  giro::queue(ops::Copy{to, from}, on);
}

void Recording::hold_fill(const Tensor& to, unsigned char value, const Stream& on) { giro::queue(Fill{to, value}, on); }

void Recording::hold_event(const char* name, const Stream& on, std::function<void(const Stream&)> f) {
  hold(HeldOp::Kind::event, Program::Node(name, {}, {}), on, std::move(f), std::array<Tensor, 0>{});
}

void Recording::hold(HeldOp op) {
  if (held_.capacity() == 0) held_.reserve(32);  // avoids moving all ops repeatedly as it grows
  op.stream.impl().check_usable(op.node.op.c_str());
  has_collectives |= op.kind == HeldOp::Kind::collective;
  if (is_dry()) return;
  held_.push_back(std::move(op));
  if (is_shared_) flush();
}

HeldOp Recording::take_single_op() {
  if (held_.size() != 1) throw_invalid("a rule has queued {} replacement ops, expected one", held_.size());
  HeldOp op = std::move(held_.back());
  held_.pop_back();
  return op;
}

void Recording::share() {
  flush();
  is_shared_ = true;
}

Arena& Recording::arena_of(StreamImpl& queued_on) {
  // On the CPU all recorded work runs in one order.
  StreamImpl& in_order = queued_on.device.is_cpu() ? stream : queued_on;
  auto found = std::find_if(arenas.begin(), arenas.end(), [&](const auto& each) { return each.first == &in_order; });
  if (found == arenas.end()) found = arenas.insert(found, {&in_order, recording_arena(in_order)});
  return *found->second;
}

Buffer Recording::allocate(StreamImpl& on, std::size_t bytes) {
  // An op gives its workspace back at once; other temporaries are planned when the program is known.
  if (OpScope::is_open()) {
    largest_workspace = std::max(largest_workspace, bytes);
    return arena_of(on).allocate(bytes);
  }
  if (&stream != &on) {
    // Temporaries share memory in the order of one stream, and this stream runs concurrently.
    throw Error(ErrorCode::unsupported,
                "allocate: a stream that has joined a recording has no temporaries, expected the recording stream");
  }
  Buffer temporary = trace->allocate(bytes);
  if (is_shared_) trace->pin_held();
  return temporary;
}

void Recording::keep(const std::shared_ptr<const void>& memory, const void* address) {
  if (!memory || trace->block_at(address) != nullptr) return;
  if (std::find(kept.begin(), kept.end(), memory) == kept.end()) kept.push_back(memory);
}

// Plans memory for the temporaries; those still in use keep their addresses.
Buffer Recording::plan(Temporaries& temporaries, MemoryMoves& moves) {
  auto& blocks = temporaries.blocks;
  if (blocks.empty()) return {};
  const std::size_t planned = plan_memory(blocks);
  program.set_memory(planned, min_memory(blocks));
  Buffer memory = arena_of(stream).allocate(planned);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    moves.add(temporaries.addresses[i], blocks[i].bytes, static_cast<char*>(memory.data()) + blocks[i].offset);
  }
  return memory;
}

void Recording::flush() {
  if (failure_) std::rethrow_exception(failure_);
  std::vector<HeldOp> ops = std::exchange(held_, {});
  try {
    queue(ops);
  } catch (...) {
    failure_ = std::current_exception();
    held_ = std::move(ops);  // for the memory report
    throw;
  }
}

// On the CPU all work runs in one order.
bool Recording::has_branches() const { return !stream.device.is_cpu() && branches_are_on(); }

// The stream for ops aside; null if there are none.
std::shared_ptr<StreamImpl> Recording::open_side_stream(const std::vector<HeldOp>& ops, Temporaries& temporaries,
                                                        std::vector<Branch>& branches) {
  if (!has_branches()) return nullptr;
  // Ops on another stream have their own order; an op that keeps its place waits for all ops aside before it.
  if (std::ranges::any_of(ops, [&](const HeldOp& op) { return &op.stream.impl() != &stream && !op.is_barrier(); })) {
    return nullptr;
  }
  Temporaries kept_longer = temporaries;
  std::vector<Branch> planned = plan_branches(ops, kept_longer);
  if (std::ranges::none_of(planned, [](const Branch& branch) { return branch.on_side_stream; })) return nullptr;
  std::shared_ptr<StreamImpl> side_stream = stream.side_stream();
  if (side_stream) {
    temporaries = std::move(kept_longer);
    branches = std::move(planned);
  }
  return side_stream;
}

// Other streams may run late, so the memory they read or write is not shared.
void Recording::pin_memory_of_other_streams(const std::vector<HeldOp>& ops) {
  for (const HeldOp& op : ops) {
    if (&op.stream.impl() == &stream) continue;
    for (const auto* tensors : {&op.node.reads, &op.node.writes}) {
      for (const Tensor& tensor : *tensors) trace->pin(tensor.raw());
    }
  }
}

void Recording::queue(std::vector<HeldOp>& ops) {
  pin_memory_of_other_streams(ops);
  if (rewrite_ != nullptr) rewrite_(ops, *trace);
  share_memory(ops, *trace, has_branches());
  Temporaries temporaries(ops, *trace);
  std::vector<Branch> branches(ops.size());
  const std::shared_ptr<StreamImpl> side_stream = open_side_stream(ops, temporaries, branches);
  MemoryMoves moves;
  const Buffer memory = plan(temporaries, moves);
  trace->pin_held();
  calls.reserve(program.nodes().size() + ops.size());
  BranchStreams order(*this, side_stream.get());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    HeldOp& op = ops[i];
    move(op, moves);
    if (branches[i].on_side_stream) op.stream = Stream(side_stream);
    order.begin(i, branches[i]);
    emit(*op.call, op.node, op.stream);
    order.end(branches[i]);
    if (op.kind == HeldOp::Kind::event) continue;
    calls.resize(program.nodes().size());
    calls.push_back(op.kind == HeldOp::Kind::op ? std::move(op.call) : nullptr);
    program.add(std::move(op.node));
  }
  order.join();
}

}  // namespace giro::detail
