#pragma once

#include <functional>

#include <giro/runtime/stream.h>

struct CUstream_st;  // a cudaStream_t points to one

namespace giro {

// Work of one's own on a stream. It runs in the stream's order and is recorded like any op: within a recording (a step
// made by jit) the code that queues it runs once, and what was queued runs at every replay. So it may use what is still
// there at the replays: leaves of a state, features of a batch, values of the step's ops, host memory that outlives the
// recording. It must not own a temporary (a Buffer, a Var): the recording has done so already. Ops that such work
// stands between are not replaced by fused ones; after cuda_stream none are, to the end of the recording.

// The cudaStream_t to launch kernels on; its device becomes the thread's current one. Launches that were refused are
// the caller's to check. Errors: device_mismatch for a stream of the CPU, in any build; invalid_argument if the thread
// is recording another stream, since the work would run once, now, and at no replay.
CUstream_st* cuda_stream(const Stream& stream);

// Queues a host function on a stream of the CPU. Take Tensors into it by value, and their data() within it. What it
// throws reaches whoever runs the stream's work. Errors: device_mismatch for a stream of a CUDA device;
// invalid_argument as above, and for an empty function.
void submit(const Stream& stream, std::function<void()> function);

}  // namespace giro
