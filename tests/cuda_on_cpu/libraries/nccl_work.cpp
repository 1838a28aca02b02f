#include "tests/cuda_on_cpu/libraries/nccl_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/libraries/nccl_reduce.h"
#include "tests/cuda_on_cpu/libraries/work.h"

namespace cuda_on_cpu {
namespace {

NcclCall call_of(const NcclCollective::Arguments& arguments) {
  return {static_cast<std::int32_t>(arguments.kind), arguments.type, arguments.op, arguments.root, arguments.count};
}

std::string describe(const NcclCall& call) {
  static constexpr std::array kKinds{"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                     "ncclReduceScatter"};
  static constexpr std::array kOps{"sum", "prod", "max", "min", "avg"};
  return fmt::format("{} of {} {}, {}, root {}", kKinds[static_cast<std::size_t>(call.kind)], call.count,
                     nccl_type_name(static_cast<ncclDataType_t>(call.type)), kOps[static_cast<std::size_t>(call.op)],
                     call.root);
}

}  // namespace

std::chrono::seconds nccl_timeout() {
  const char* const seconds = std::getenv("GIRO_CUDA_ON_CPU_NCCL_TIMEOUT");
  return std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 60);
}

void NcclComm::set_error(ncclResult_t code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (error_ != ncclSuccess) return;
  error_ = code;
  text_ = text;
}

ncclResult_t NcclComm::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::string NcclComm::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

std::optional<std::string> NcclComm::why_lost(int other) const {
  if (other == rank) return std::nullopt;
  if (segment->rank[other].gave_up) return fmt::format("rank {} has aborted or failed", other);
  if (segment.has_ended(other))
    return fmt::format("rank {} has left the communicator, or its process has ended", other);
  return std::nullopt;
}

bool NcclWork::advance() {
  if (comm_->aborted) {
    mark_undefined();
    return true;
  }
  if (comm_->destroyed) fail(cudaErrorLaunchFailure, fmt::format("{}: the communicator was destroyed", call_));
  int waits_for = -1;
  try {
    waits_for = step();
  } catch (const CudaError& error) {
    comm_->set_error(ncclInternalError, error.why);
    comm_->segment->rank[comm_->rank].gave_up = 1;
    throw;
  }
  if (waits_for < 0) return true;

  const auto now = std::chrono::steady_clock::now();
  if (!waiting_since_) waiting_since_ = now;
  const auto lost = comm_->why_lost(waits_for);
  if (lost) comm_->set_error(ncclRemoteError, fmt::format("{}: {}", call_, *lost));
  if (now - *waiting_since_ > nccl_timeout()) {
    fail(cudaErrorLaunchTimeout, fmt::format("{}: rank {} has waited for rank {} for {} s{}", call_, comm_->rank,
                                             waits_for, nccl_timeout().count(), lost ? ": " + *lost : ""));
  }
  return false;
}

std::size_t NcclCollective::send_bytes(const Arguments& arguments, const NcclComm& comm) {
  const std::size_t bytes = arguments.count * nccl_type_bytes(arguments.type);
  if (arguments.kind == NcclKind::broadcast && comm.rank != arguments.root) return 0;
  return arguments.kind == NcclKind::reduce_scatter ? bytes * static_cast<std::size_t>(comm.ranks) : bytes;
}

std::size_t NcclCollective::receive_bytes(const Arguments& arguments, const NcclComm& comm) {
  const std::size_t bytes = arguments.count * nccl_type_bytes(arguments.type);
  if (arguments.kind == NcclKind::reduce && comm.rank != arguments.root) return 0;
  return arguments.kind == NcclKind::all_gather ? bytes * static_cast<std::size_t>(comm.ranks) : bytes;
}

int NcclCollective::step() {
  NcclSegment& segment = comm_->segment;
  NcclSegment::Rank& own = segment->rank[comm_->rank];
  const auto behind = [&](auto counter, std::uint64_t number) {
    for (int rank = 0; rank < comm_->ranks; ++rank) {
      if ((segment->rank[rank].*counter).load() < number) return rank;
    }
    return -1;
  };

  if (number_ == 0) {
    // The previous collective's data may still be read there.
    const std::uint64_t number = own.done + 1;
    if (const int slow = behind(&NcclSegment::Rank::done, number - 1); slow >= 0) return slow;
    const std::size_t bytes = send_bytes(arguments_, *comm_);
    will_read(arguments_.send, bytes, call_.c_str());
    segment.write(NcclSegment::place_of(comm_->rank), arguments_.send, bytes);
    own.call = call_of(arguments_);
    own.posted = number_ = number;
  }
  if (const int slow = behind(&NcclSegment::Rank::posted, number_); slow >= 0) return slow;
  compare_calls();
  const std::vector<char> received = result();
  own.done = number_;
  will_write(arguments_.receive, received.size(), call_.c_str());
  if (!received.empty()) std::memcpy(arguments_.receive, received.data(), received.size());
  return -1;
}

void NcclCollective::mark_undefined() {
  giro::simt::memory().forget(arguments_.receive, receive_bytes(arguments_, *comm_));
}

void NcclCollective::compare_calls() const {
  const NcclCall own = call_of(arguments_);
  for (int rank = 0; rank < comm_->ranks; ++rank) {
    const NcclCall& other = comm_->segment->rank[rank].call;
    if (other == own) continue;
    fail(cudaErrorLaunchFailure, fmt::format("the ranks call different collectives: {} on rank {}, {} on rank {}",
                                             describe(own), comm_->rank, describe(other), rank));
  }
}

std::vector<char> NcclCollective::result() const {
  const NcclSegment& segment = comm_->segment;
  std::vector<char> received(receive_bytes(arguments_, *comm_));
  if (received.empty()) return received;
  const std::size_t bytes = arguments_.count * nccl_type_bytes(arguments_.type);
  switch (arguments_.kind) {
    case NcclKind::broadcast:
      segment.read(NcclSegment::place_of(arguments_.root), received.data(), bytes);
      return received;
    case NcclKind::all_gather:
      for (int rank = 0; rank < comm_->ranks; ++rank) {
        segment.read(NcclSegment::place_of(rank), received.data() + static_cast<std::size_t>(rank) * bytes, bytes);
      }
      return received;
    default: {
      const off_t skipped =
          arguments_.kind == NcclKind::reduce_scatter ? off_t{comm_->rank} * static_cast<off_t>(bytes) : 0;
      std::vector<std::vector<char>> data;
      std::vector<const void*> ranks;
      for (int rank = 0; rank < comm_->ranks; ++rank) {
        segment.read(NcclSegment::place_of(rank) + skipped, data.emplace_back(bytes).data(), bytes);
      }
      for (const auto& part : data) ranks.push_back(part.data());
      nccl_reduce(received.data(), ranks, arguments_.count, arguments_.type, arguments_.op);
      return received;
    }
  }
}

int NcclExchange::step() {
  numbers_.resize(messages_.size());
  for (bool progress = true; progress;) {
    progress = false;
    // Messages between the same two ranks go in order, one at a time in each direction.
    std::set<std::pair<bool, int>> under_way;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      Message& message = messages_[i];
      if (message.done || !under_way.insert({message.is_send, message.peer}).second) continue;
      progress = (message.is_send ? try_send(message, numbers_[i]) : try_receive(message)) || progress;
    }
  }
  const auto open =
      std::find_if(messages_.begin(), messages_.end(), [](const Message& message) { return !message.done; });
  return open == messages_.end() ? -1 : open->peer;
}

bool NcclExchange::try_send(Message& message, std::uint64_t& number) {
  NcclSegment& segment = comm_->segment;
  NcclSegment::Pair& pair = segment->pair[comm_->rank][message.peer];
  if (message.posted) {
    message.done = pair.taken >= number;
    return message.done;
  }
  const std::size_t bytes = message.count * nccl_type_bytes(message.type);
  will_read(message.buffer, bytes, call_.c_str());
  segment.write(NcclSegment::place_of(comm_->rank, message.peer), message.buffer, bytes);
  pair.count = message.count;
  pair.type = message.type;
  number = pair.posted + 1;
  pair.posted = number;
  message.posted = true;
  return true;
}

bool NcclExchange::try_receive(Message& message) {
  NcclSegment& segment = comm_->segment;
  NcclSegment::Pair& pair = segment->pair[message.peer][comm_->rank];
  if (pair.posted == pair.taken) return false;
  const std::size_t bytes = message.count * nccl_type_bytes(message.type);
  const std::uint64_t sent = pair.count;
  const auto type = static_cast<ncclDataType_t>(pair.type);
  std::vector<char> data(bytes);
  const bool same = sent == message.count && type == message.type;
  if (same) segment.read(NcclSegment::place_of(message.peer, comm_->rank), data.data(), bytes);
  pair.taken = pair.posted.load();
  if (!same) {
    fail(cudaErrorLaunchFailure, fmt::format("rank {} receives {} {}, rank {} sends {} {}", comm_->rank, message.count,
                                             nccl_type_name(message.type), message.peer, sent, nccl_type_name(type)));
  }
  will_write(message.buffer, bytes, call_.c_str());
  if (bytes > 0) std::memcpy(message.buffer, data.data(), bytes);
  message.done = true;
  return true;
}

void NcclExchange::mark_undefined() {
  for (const Message& message : messages_) {
    if (!message.is_send) giro::simt::memory().forget(message.buffer, message.count * nccl_type_bytes(message.type));
  }
}

}  // namespace cuda_on_cpu
