#pragma once

// A call of the backend's function that the stream's device asks for: GIRO_ON_DEVICE(stream, run(op, stream)).
#if GIRO_WITH_CUDA
#define GIRO_ON_DEVICE(stream, call) ((stream).device().is_cuda() ? cuda::call : cpu::call)
#else
#define GIRO_ON_DEVICE(stream, call) cpu::call
#endif
