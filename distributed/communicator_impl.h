#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/runtime/not_copied.h>

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
class CommunicatorImpl : NotCopied {
 public:
  CommunicatorImpl(int rank, int size, Device device) : rank(rank), size(size), device(device) {}
  virtual ~CommunicatorImpl() = default;

  virtual void run(const Collective& call, const Stream& stream) = 0;
  virtual std::shared_ptr<CommunicatorImpl> split(int color, int key) = 0;

  const int rank, size;
  const Device device;
};

// The `own` values of all ranks, in rank order. Called by all ranks of a communicator for host memory; blocks.
template <class T>
std::vector<T> exchange(const Communicator& host, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(host.size()));
  T mine = own;
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  host.all_gather(Tensor(all.data(), DType::u8, {bytes * host.size()}, Device::cpu()),
                  Tensor(&mine, DType::u8, {bytes}, Device::cpu()), Stream(Device::cpu()));
  return all;
}

}  // namespace giro::detail
