#pragma once

#include <memory>
#include <string>

#include <giro/runtime/error.h>

namespace giro::detail {

class StreamImpl;

// How far the work of a program has come that is queued on a stream, for the error that ends it: a device tells of a
// failure at the next wait, and not of what has failed.
class CallProgress {
 public:
  virtual ~CallProgress() = default;
  // "the step of train.cpp:31 had completed 41 of 57 calls", or empty if nothing is on its way.
  virtual std::string describe() const = 0;
};

// Within a catch of an Error(device): throws it with what was on its way on the stream, and how to find the op.
[[noreturn]] void rethrow_with_progress(const StreamImpl& stream);

// Calls f(), which waits for the stream's work or launches it.
template <class F>
decltype(auto) telling_progress(const StreamImpl& stream, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device) throw;
    rethrow_with_progress(stream);
  }
}

}  // namespace giro::detail
