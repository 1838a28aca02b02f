#include "runtime/program/branch_streams.h"

#include <utility>

namespace giro::detail {

void BranchStreams::begin(std::size_t i, const Branch& branch) {
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

void BranchStreams::end(const Branch& branch) {
  if (!branch.on_side_stream) return;
  std::shared_ptr<EventImpl> done = side_stream_->create_event();
  done->record(*side_stream_);
  open_.push_back({branch.joined, std::move(done)});
}

void BranchStreams::join() {
  if (!open_.empty()) recording_.stream.wait(*open_.back().done);
}

}  // namespace giro::detail
