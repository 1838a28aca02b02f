#include <giro/runtime/program/native_stream.h>

#include <utility>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro {
CUstream_st* cuda_stream(const Stream& stream) {
  if (!stream.device().is_cuda()) {
    throw Error(ErrorCode::device_mismatch,
                "cuda_stream: the stream is on cpu, expected one on a CUDA device; on the CPU, use submit");
  }
  stream.impl().check_usable("cuda_stream");
  if (detail::Recording::is_dry()) {
    throw Error(ErrorCode::unsupported,
                "cuda_stream: called by a model while its state is being created, when no value has memory yet; "
                "expected the kernel in nn::call");
  }
  if (detail::Recording::holds()) {
    detail::record_opaque_op("cuda_stream");
    detail::Recording::current()->share();
  }
  return cuda::handle(stream);
}

void submit(const Stream& stream, std::function<void()> function) {
  if (!stream.device().is_cpu()) {
    throw_error(ErrorCode::device_mismatch,
                "submit: the stream is on {}, expected one on the CPU; on a GPU, launch kernels on cuda_stream(stream)",
                to_string(stream.device()));
  }
  if (!function) throw_invalid("submit: the function is empty");
  stream.impl().check_usable("submit");
  detail::record_opaque_op("submit");
  cpu::submit_function(stream, std::move(function));
}

}  // namespace giro
