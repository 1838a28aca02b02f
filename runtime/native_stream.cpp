#include <giro/runtime/native_stream.h>

#include <fmt/format.h>

#include <utility>

#include <giro/runtime/error.h>

#include "runtime/cpu/stream.h"
#include "runtime/internal/backend.h"
#include "runtime/internal/queueing.h"

namespace giro {
namespace {

void check_recorded(const char* call, const Stream& stream) {
  const detail::StreamImpl* const recorded = detail::queueing.recorded;
  if (recorded != nullptr && recorded != &stream.impl()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this thread records on another stream, and what is queued on this one would run once, "
                            "now, and at no replay",
                            call));
  }
}

}  // namespace

CUstream_st* cuda_stream(const Stream& stream) {
  if (!stream.device().is_cuda()) {
    throw Error(ErrorCode::device_mismatch,
                "cuda_stream: the stream is on cpu, expected one of a CUDA device; on the CPU use submit");
  }
  check_recorded("cuda_stream", stream);
  return cuda::handle(stream);
}

void submit(const Stream& stream, std::function<void()> function) {
  if (!stream.device().is_cpu()) {
    throw Error(ErrorCode::device_mismatch,
                fmt::format("submit: the stream is on {}, expected one of the CPU; on a GPU launch kernels on "
                            "cuda_stream(stream)",
                            to_string(stream.device())));
  }
  if (!function) throw Error(ErrorCode::invalid_argument, "submit: the function is empty");
  check_recorded("submit", stream);
  cpu::submit(stream, std::move(function));
}

}  // namespace giro
