#pragma once

#include <cstdint>
#include <memory>

#include <giro/distributed/communicator.h>

namespace giro::detail {

// The implementation of a Communicator. Arguments have been checked; counts are in elements and at least 1.
class CommunicatorImpl {
 public:
  CommunicatorImpl(int rank, int size, Device device) : rank(rank), size(size), device(device) {}
  virtual ~CommunicatorImpl() = default;
  CommunicatorImpl(const CommunicatorImpl&) = delete;
  CommunicatorImpl& operator=(const CommunicatorImpl&) = delete;

  virtual void all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction, const Stream& stream) = 0;
  virtual void broadcast(void* data, std::int64_t count, DType dtype, int root, const Stream& stream) = 0;
  // `count` is the size of one rank's part: of `in` here, of `out` in reduce_scatter.
  virtual void all_gather(void* out, const void* in, std::int64_t count, DType dtype, const Stream& stream) = 0;
  virtual void reduce_scatter(void* out, const void* in, std::int64_t count, DType dtype, Reduction reduction,
                              const Stream& stream) = 0;
  virtual void barrier(const Stream& stream) = 0;
  virtual std::shared_ptr<CommunicatorImpl> split(int color, int key) = 0;

  const int rank, size;
  const Device device;
};

}  // namespace giro::detail
