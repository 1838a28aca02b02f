#pragma once

#include <functional>

#include <giro/runtime/stream.h>

struct CUstream_st;  // a cudaStream_t points to one

namespace giro {

// Custom work on a stream. It runs in stream order and is recorded like any op: in a recording (a step made by jit) the
// code that queues it runs once, and the queued work runs at every replay. So it may only use memory that still exists
// at the replays: leaves of a state, features of a batch, values of the step's ops, host memory that outlives the
// recording. It must not own a temporary (a Buffer, a Var), because the recording owns them already. Ops separated by
// such work are not fused; after cuda_stream no ops are fused until the end of the recording.

// The cudaStream_t for launching kernels; its device becomes the thread's current device. The caller must check for
// launch errors. Errors: device_mismatch for a CPU stream, in any build; invalid_argument if the thread is recording
// another stream, since the work would run once, now, and at no replay.
CUstream_st* cuda_stream(const Stream& stream);

// Queues a host function on a CPU stream. Capture Tensors by value, and call their data() inside the function. An
// exception it throws reaches the caller that runs the stream's work. Errors: device_mismatch for a stream of a CUDA
// device; invalid_argument as above, and for an empty function.
void submit(const Stream& stream, std::function<void()> function);

}  // namespace giro
