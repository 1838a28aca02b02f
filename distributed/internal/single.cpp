#include "distributed/internal/single.h"

namespace giro::detail {
namespace {

class Single final : public CommunicatorImpl {
 public:
  explicit Single(Device device) : CommunicatorImpl(0, 1, device) {}

  void all_reduce(void*, std::int64_t, DType, Reduction, const Stream&) override {}
  void broadcast(void*, std::int64_t, DType, int, const Stream&) override {}
  void all_gather(void* out, const void* in, std::int64_t count, DType dtype, const Stream& stream) override {
    if (out != in) stream.copy(out, in, static_cast<std::size_t>(count) * size_of(dtype));
  }
  void reduce_scatter(void* out, const void* in, std::int64_t count, DType dtype, Reduction,
                      const Stream& stream) override {
    all_gather(out, in, count, dtype, stream);
  }
  void barrier(const Stream&) override {}
  std::shared_ptr<CommunicatorImpl> split(int, int) override { return single_communicator(device); }
};

}  // namespace

std::shared_ptr<CommunicatorImpl> single_communicator(Device device) { return std::make_shared<Single>(device); }

}  // namespace giro::detail
