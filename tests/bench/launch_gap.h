#pragma once

#include <memory>
#include <optional>

namespace giro::bench {

// A chain of kernels that do nothing, as one graph of the GPU; with or without programmatic dependent launch, by which
// a kernel begins while the one before it ends.
class LaunchGap {
 public:
  // Nothing where the device cannot, or there is none.
  static std::optional<LaunchGap> make(int kernels, bool programmatic);
  // That the device takes for the chain.
  double seconds() const;

 private:
  struct Chain;
  explicit LaunchGap(std::shared_ptr<const Chain> chain);
  std::shared_ptr<const Chain> chain_;
};

}  // namespace giro::bench
