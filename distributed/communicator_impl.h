#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <giro/distributed/communicator.h>

namespace giro::detail {

// A call of all ranks. Its arguments have been checked.
struct Collective {
  enum class Kind { all_reduce, broadcast, all_gather, reduce_scatter, barrier };

  const char* name() const noexcept {
    constexpr const char* kNames[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"};
    return kNames[static_cast<int>(kind)];
  }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count) * size_of(dtype); }

  Kind kind;
  std::int64_t count = 0;  // elements, at least 1: of the tensor or, if it gathers or scatters, of one rank's part
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
  int root = 0;
  void* out = nullptr;
  const void* in = nullptr;  // the same as `out` for all_reduce and broadcast
};

// The implementation of a Communicator.
class CommunicatorImpl {
 public:
  CommunicatorImpl(int rank, int size, Device device) : rank(rank), size(size), device(device) {}
  virtual ~CommunicatorImpl() = default;
  CommunicatorImpl(const CommunicatorImpl&) = delete;
  CommunicatorImpl& operator=(const CommunicatorImpl&) = delete;

  virtual void run(const Collective& call, const Stream& stream) = 0;
  virtual std::shared_ptr<CommunicatorImpl> split(int color, int key) = 0;

  const int rank, size;
  const Device device;
};

}  // namespace giro::detail
