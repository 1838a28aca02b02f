#pragma once

#include <functional>

#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

namespace detail {

// What a run does for its callbacks with itself (LoopState).
class RunMemory {
 public:
  virtual ~RunMemory() = default;
  virtual Elapsed completed() const = 0;
  virtual void at_step_end(std::function<void()> f) = 0;
  virtual void after_step(std::function<void()> f) = 0;
  virtual void persist(Archive& archive) = 0;
};

}  // namespace detail
}  // namespace giro
