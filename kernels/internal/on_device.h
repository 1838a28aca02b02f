#pragma once

// Calls a function of the backend for the stream's device: GIRO_ON_DEVICE(stream, run(op, stream)).
#if GIRO_WITH_CUDA
#define GIRO_ON_DEVICE(stream, call) ((stream).device().is_cuda() ? cuda::call : cpu::call)
#else
#define GIRO_ON_DEVICE(stream, call) cpu::call
#endif
