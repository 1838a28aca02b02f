#pragma once

#include <memory>
#include <optional>

namespace giro::bench {

// A chain of empty kernels as one GPU graph. With programmatic dependent launch, a kernel starts while the previous one
// is finishing.
class LaunchGap {
 public:
  // Returns nothing if there is no device or if the device does not support it.
  static std::optional<LaunchGap> make(int kernels, bool programmatic);
  // The device's time for the whole chain.
  double seconds() const;

 private:
  struct Chain;
  explicit LaunchGap(std::shared_ptr<const Chain> chain);
  std::shared_ptr<const Chain> chain_;
};

}  // namespace giro::bench
