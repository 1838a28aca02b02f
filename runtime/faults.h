#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "runtime/in_out.h"

namespace giro {

// Where an op reports invalid elements, such as an id outside of a table (kernels/host_device/fault.h). Without words
// it reports none.
struct Fault {
  std::uint64_t* words = nullptr;  // two, pinned
  In call{};                       // i64 scalar on the device: number of earlier calls of the step; may be empty
};

namespace detail {

// The invalid elements that ops on a stream have reported. The device writes them to memory that the host checks when
// it waits for the stream, or reads results, anyway.
class Faults {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // in both words of a check

  // For an op that is about to be queued. `element` names the op and the kind of element, e.g. "embedding: id"; valid
  // are 0 to size - 1. Errors name the dtype and shape of `elements`.
  static Fault of(const Stream& stream, const std::string& element, const Tensor& elements, std::int64_t size);

  // Call once the stream's work is done. Error(invalid_argument) for the first invalid element of the first call that
  // has any; all are then forgotten.
  void expect_none();
  // Forgets all reports. Call once the stream's work is done, if it was not work of the user's program.
  void forget();
  // Call where the host reads the results of one call of a step without waiting for the stream: throws if that call or
  // an earlier one has reported an invalid element so far.
  static void expect_none_seen(const Stream& stream, const Tensor& call, std::int64_t number);

 private:
  static constexpr std::size_t kChecks = 64;  // in a block of memory

  struct Check {
    std::string element, elements;
    std::int64_t size;
    std::string step;
    const void* call;  // the step's counter
    std::source_location where;
    std::shared_ptr<const Buffer> block = nullptr;
    std::uint64_t* words = nullptr;  // in the block

    bool is_same(const Check& other) const;
    std::uint64_t read(int word) const;
    void forget() const;
    Error error() const;
  };

  mutable std::mutex mutex_;  // another thread may read the rows of a step's logs
  std::vector<Check> checks_;
};

}  // namespace detail
}  // namespace giro
