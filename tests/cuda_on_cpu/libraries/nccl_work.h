#pragma once

// A communicator as seen by one of its ranks, and the work that the ranks do together.

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/libraries/nccl_segment.h"

namespace cuda_on_cpu {

// How long a rank waits for others. The real NCCL waits forever.
std::chrono::seconds nccl_timeout();

struct NcclComm {
  NcclComm(const std::string& name, int own_rank, int all_ranks, bool blocks)
      : segment(name), rank(own_rank), ranks(all_ranks), blocking(blocks) {}

  NcclSegment segment;
  const int rank, ranks;
  const bool blocking;
  std::atomic<bool> aborted{false}, destroyed{false};

  void set_error(ncclResult_t code, const std::string& text);
  ncclResult_t error() const;
  std::string text() const;

  // Why that rank no longer takes part, or nothing if it still does.
  std::optional<std::string> why_lost(int other) const;

  // Held by each captured collective, and so by the graphs that contain it.
  std::shared_ptr<const void> graph_reference() const { return graphs_; }
  // Whether any graph has captured the communicator.
  bool is_in_graphs() const { return graphs_.use_count() > 1; }

 private:
  const std::shared_ptr<const void> graphs_ = std::make_shared<char>();
  mutable std::mutex mutex_;  // for readers that must not wait for a thread in the middle of a collective
  ncclResult_t error_ = ncclSuccess;
  std::string text_;
};

enum class NcclKind : std::int32_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter };

// One rank's part, run within an operation of the device.
class NcclWork {
 public:
  NcclWork(std::shared_ptr<NcclComm> comm, std::string call) : comm_(std::move(comm)), call_(std::move(call)) {}
  virtual ~NcclWork() = default;
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  // Runs as far as it can without waiting for other ranks. Returns whether it is done. Throws CudaError.
  bool advance();

 protected:
  // Does what can be done. Returns the rank that it waits for, or -1 when it is done.
  virtual int step() = 0;
  // Marks the buffers as uninitialised: after an abort their contents are unknown.
  virtual void mark_undefined() = 0;

  const std::shared_ptr<NcclComm> comm_;
  const std::string call_;

 private:
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;
};

class NcclCollective : public NcclWork {
 public:
  struct Arguments {
    NcclKind kind;
    const void* send;
    void* receive;
    std::size_t count;
    ncclDataType_t type;
    ncclRedOp_t op = ncclSum;
    int root = 0;
  };
  NcclCollective(std::shared_ptr<NcclComm> comm, std::string call, const Arguments& arguments)
      : NcclWork(std::move(comm), std::move(call)), arguments_(arguments) {}

  // What this rank reads and writes.
  static std::size_t send_bytes(const Arguments& arguments, const NcclComm& comm);
  static std::size_t receive_bytes(const Arguments& arguments, const NcclComm& comm);

 private:
  int step() override;
  void mark_undefined() override;
  void compare_calls() const;
  std::vector<char> result() const;

  Arguments arguments_;
  std::uint64_t number_ = 0;  // among the communicator's collectives; 0: not posted yet
};

// The messages of one group, all in progress together because they may cross.
class NcclExchange : public NcclWork {
 public:
  struct Message {
    bool is_send;
    void* buffer;
    std::size_t count;
    ncclDataType_t type;
    int peer;
    bool posted = false, done = false;
  };
  NcclExchange(std::shared_ptr<NcclComm> comm, std::string call, std::vector<Message> messages)
      : NcclWork(std::move(comm), std::move(call)), messages_(std::move(messages)) {}

 private:
  int step() override;
  void mark_undefined() override;
  bool try_send(Message& message, std::uint64_t& number);
  bool try_receive(Message& message);

  std::vector<Message> messages_;
  std::vector<std::uint64_t> numbers_;  // of each message, among those between its two ranks
};

}  // namespace cuda_on_cpu
