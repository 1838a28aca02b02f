#pragma once

// The memory that the ranks of an NCCL communicator share: a file in memory, named by the unique id. It begins with a
// few counters, followed by room for the data of one collective per rank, and of one message from each rank to each
// other rank. Every rank holds a lock on the file as long as its process lives.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace cuda_on_cpu {

// A rank's collective call. All ranks must make the same one.
struct NcclCall {
  std::int32_t kind = 0, type = 0, op = 0, root = 0;
  std::uint64_t count = 0;
  bool operator==(const NcclCall&) const = default;
};

class NcclSegment {
 public:
  static constexpr int kMaxRanks = 32;

  struct Rank {
    std::atomic<std::uint32_t> present, gave_up;
    std::int32_t gpu;
    std::atomic<std::uint64_t> posted,
        done;       // collectives: how many have their data here, how many are finished
    NcclCall call;  // the last one posted
  };
  struct Pair {  // messages from one rank to another
    std::atomic<std::uint64_t> posted, taken;
    std::uint64_t count;
    std::int32_t type;
  };
  struct Counters {
    std::atomic<std::int32_t> ranks, joined;
    Rank rank[kMaxRanks];
    Pair pair[kMaxRanks][kMaxRanks];  // [from][to]
  };

  // Returns the name of a new segment. Its file is removed when all ranks have joined, or with this process.
  static std::string create();
  // Returns the name for all ranks that meet at an address, NCCL_COMM_ID. The first one creates the segment.
  static std::string create_at(const std::string& address);

  // Throws CudaError(cudaErrorUnknown) if there is no such segment.
  explicit NcclSegment(const std::string& name);
  ~NcclSegment();
  NcclSegment(const NcclSegment&) = delete;
  NcclSegment& operator=(const NcclSegment&) = delete;

  Counters* operator->() const { return counters_; }

  void hold_lock(int rank);
  bool has_ended(int rank) const;  // the process that held this rank's lock
  void remove_name();              // processes that have the file open keep it

  // The file offset of the data of a rank's collective, and of a message.
  static off_t place_of(int rank) { return (off_t{1} + rank) * kRoom; }
  static off_t place_of(int from, int to) { return (off_t{1} + kMaxRanks + from * kMaxRanks + to) * kRoom; }
  void write(off_t place, const void* data, std::size_t bytes);
  void read(off_t place, void* data, std::size_t bytes) const;

 private:
  static constexpr off_t kRoom = off_t{1} << 36;  // addresses within the file; unwritten parts take no memory

  std::string path_;
  int file_ = -1;
  Counters* counters_ = nullptr;
};

}  // namespace cuda_on_cpu
