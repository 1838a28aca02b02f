#pragma once

// What the ranks of an NCCL communicator share: a file in memory, named by the unique id, with a few counters
// in front and room for the data of one message from each rank, and from each rank to each other. Every rank
// holds a lock on it for as long as its process lives.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace cuda_on_cpu {

// What a rank was asked to do. All have to be asked for the same.
struct NcclCall {
  std::int32_t kind = 0, type = 0, op = 0, root = 0;
  std::uint64_t count = 0;
  bool operator==(const NcclCall&) const = default;
};

class NcclSegment {
 public:
  static constexpr int kMostRanks = 32;

  struct Rank {
    std::atomic<std::uint32_t> present, gave_up;
    std::int32_t gpu;
    std::atomic<std::uint64_t> posted,
        done;       // collectives: of how many its data lies here, how many it is through
    NcclCall call;  // of the last one posted
  };
  struct Pair {  // messages from one rank to another
    std::atomic<std::uint64_t> posted, taken;
    std::uint64_t count;
    std::int32_t type;
  };
  struct Counters {
    std::atomic<std::int32_t> ranks, joined;
    Rank rank[kMostRanks];
    Pair pair[kMostRanks][kMostRanks];  // [from][to]
  };

  // A new one's name; the file goes when all ranks have joined, or with this process.
  static std::string create();
  // The name of those that meet at an address, NCCL_COMM_ID: whoever comes first makes it.
  static std::string create_at(const std::string& address);

  // Throws CudaError(cudaErrorUnknown) where there is no such segment.
  explicit NcclSegment(const std::string& name);
  ~NcclSegment();
  NcclSegment(const NcclSegment&) = delete;
  NcclSegment& operator=(const NcclSegment&) = delete;

  Counters* operator->() const { return counters_; }

  void hold_lock(int rank);
  bool has_ended(int rank) const;  // the process that held that rank's lock
  void remove_name();              // whoever has it open keeps it

  // The data of a rank's collective, and of a message.
  static off_t place_of(int rank) { return (off_t{1} + rank) * kRoom; }
  static off_t place_of(int from, int to) { return (off_t{1} + kMostRanks + from * kMostRanks + to) * kRoom; }
  void write(off_t place, const void* data, std::size_t bytes);
  void read(off_t place, void* data, std::size_t bytes) const;

 private:
  static constexpr off_t kRoom = off_t{1} << 36;  // of addresses within the file: what is not written takes no memory

  std::string path_;
  int file_ = -1;
  Counters* counters_ = nullptr;
};

}  // namespace cuda_on_cpu
