#include "distributed/internal/single.h"

namespace giro::detail {
namespace {

class Single final : public CommunicatorImpl {
 public:
  explicit Single(Device device) : CommunicatorImpl(0, 1, device) {}

  void run(const Collective& call, const Stream& stream) override {
    if (call.out != call.in) stream.copy(call.out, call.in, call.bytes());
  }
  std::shared_ptr<CommunicatorImpl> split(int, int) override { return single_communicator(device); }
};

}  // namespace

std::shared_ptr<CommunicatorImpl> single_communicator(Device device) { return std::make_shared<Single>(device); }

}  // namespace giro::detail
