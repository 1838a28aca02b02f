#include "runtime/program/recording.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string_view>

#include <giro/runtime/state.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/call_site.h"
#include "runtime/program/branches.h"
#include "runtime/program/copy.h"
#include "runtime/program/homes.h"
#include "runtime/program/op.h"
#include "runtime/program/values.h"
#include "runtime/program/verify.h"

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

// An operation on an event.
struct EventOp {
  std::function<void(const Stream&)> f;
};
void run(const EventOp& op, const Stream& stream) { op.f(stream); }

struct Fill {
  static constexpr const char* kName = "fill";
  Out to;
  unsigned char value;
};
void run(const Fill& op, const Stream& stream) { stream.impl().fill(op.to.raw(), op.value, op.to.bytes()); }

}  // namespace

void emit(const OpCall& call, const Program::Node& node, const Stream& stream) {
  const auto site = CallSite::of_node(node.where);
  try {
    const OpScope scope(node.op.c_str());
    call.emit(stream);
  } catch (...) {
    rethrow_from(node.op);
  }
}

Recording::Recording(StreamImpl& on, const Rewrite& rewrite) : StreamRecording(on), rewrite_(rewrite) {
  arenas.push_back({&stream, recording_arena(stream)});
  trace = std::make_shared<Arena>(stream.device, Arena::Kind::trace);
}

void Recording::hold_copy(const Tensor& to, const Tensor& from, const Stream& on) {
  giro::queue(ops::Copy{to, from}, on);
}

void Recording::hold_fill(const Tensor& to, unsigned char value, const Stream& on) { giro::queue(Fill{to, value}, on); }

void Recording::hold_event(const char* name, const Stream& on, std::function<void(const Stream&)> f) {
  hold(
      {Program::Node(name, {}, {}), on, std::make_shared<CallOf<EventOp>>(EventOp{std::move(f)}), HeldOp::Kind::event});
}

void Recording::hold(HeldOp op) {
  if (held_.capacity() == 0) held_.reserve(32);  // avoids moving all ops repeatedly as it grows
  op.stream.impl().check_usable(op.node.op.c_str());
  has_collectives |= op.kind == HeldOp::Kind::collective;
  if (is_dry()) return;
  held_.push_back(std::move(op));
  if (is_shared_) flush();
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
  if (is_shared_) trace->settle(temporary.place());
  return temporary;
}

void Recording::keep(const std::shared_ptr<const void>& memory, const void* address) {
  if (!memory || trace->holds(address)) return;
  std::vector<std::shared_ptr<const void>>& kept = owned.kept;
  if (std::find(kept.begin(), kept.end(), memory) == kept.end()) kept.push_back(memory);
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
bool Recording::has_branches() const {
  const char* const setting = std::getenv("GIRO_BRANCHES");
  return !stream.device.is_cpu() && (setting == nullptr || std::string_view(setting) != "0");
}

// The stream for ops aside; null if there are none.
std::shared_ptr<StreamImpl> Recording::open_side_stream(const std::vector<HeldOp>& ops, const Values& values,
                                                        Homes& homes, std::vector<Branch>& branches) {
  if (!has_branches()) return nullptr;
  // Ops on another stream have their own order; an op that keeps its place waits for all ops aside before it.
  if (std::ranges::any_of(ops, [&](const HeldOp& op) { return &op.stream.impl() != &stream && !op.is_barrier(); })) {
    return nullptr;
  }
  std::vector<PlannedBlock> kept_longer = homes.blocks;
  std::vector<Branch> planned = plan_branches(ops, values, homes, kept_longer);
  if (std::ranges::none_of(planned, [](const Branch& branch) { return branch.on_side_stream; })) return nullptr;
  std::shared_ptr<StreamImpl> side_stream = stream.side_stream();
  if (side_stream) {
    homes.blocks = std::move(kept_longer);
    branches = std::move(planned);
  }
  return side_stream;
}

// Other streams may run late, so the memory they read or write is not shared.
void Recording::settle_memory_of_other_streams(const std::vector<HeldOp>& ops) {
  for (const HeldOp& op : ops) {
    if (&op.stream.impl() == &stream) continue;
    op.call->for_each([&](Tensor& tensor, Use) { trace->settle(tensor.place()); });
  }
}

// Rewrites the ops, and gives their values memory.
Buffer Recording::lay_out(std::vector<HeldOp>& ops, std::vector<Branch>& branches,
                          std::shared_ptr<StreamImpl>& side_stream) {
  trace->settle_held();
  Values values = number(ops, *trace);
  try {
    if (verifies_programs()) verify(ops, values, "the trace");
    if (rewrite_.rewrite != nullptr) rewrite_.rewrite(ops, values);
    if (!trace->shares()) values.settle(ops, *trace);
    Homes homes(ops, values, *trace, has_branches());
    branches.resize(ops.size());
    side_stream = open_side_stream(ops, values, homes, branches);
    Buffer memory;
    if (!homes.blocks.empty()) {
      const std::size_t planned = plan_memory(homes.blocks);
      owned.program.set_memory(planned, min_memory(homes.blocks));
      memory = arena_of(stream).allocate(planned);
    }
    for (HeldOp& op : ops) {
      op.call->for_each([&](Tensor& tensor, Use) { tensor = homes.placed(tensor, static_cast<char*>(memory.data())); });
      Program::Node node = op.call->node(std::move(op.node.op));
      node.is_op = op.kind == HeldOp::Kind::op;
      node.where = op.node.where;
      op.node = std::move(node);
    }
    return memory;
  } catch (...) {
    // For the memory report.
    std::erase_if(ops, [](const HeldOp& op) { return op.call == nullptr; });
    for (HeldOp& op : ops) op.call->for_each([&](Tensor& tensor, Use) { tensor = values.placed(tensor); });
    throw;
  }
}

void Recording::queue(std::vector<HeldOp>& ops) {
  settle_memory_of_other_streams(ops);
  std::vector<Branch> branches;
  std::shared_ptr<StreamImpl> side_stream;
  const Buffer memory = lay_out(ops, branches, side_stream);
  if (rewrite_.prepare != nullptr) rewrite_.prepare(ops);
  owned.calls.reserve(owned.program.nodes().size() + ops.size());
  BranchStreams order(*this, side_stream.get());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    HeldOp& op = ops[i];
    if (branches[i].on_side_stream) op.stream = Stream(side_stream);
    order.begin(i, branches[i]);
    emit(*op.call, op.node, op.stream);
    order.end(branches[i]);
    if (op.kind == HeldOp::Kind::event) continue;
    owned.calls.push_back(op.kind == HeldOp::Kind::op ? op.call : nullptr);
    owned.program.add(std::move(op.node));
  }
  order.begin(ops.size(), {});  // waits for everything that is still aside
}

}  // namespace giro::detail
