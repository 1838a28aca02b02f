#pragma once

// Calls a function of the device's backend: GIRO_OF_BACKEND(device, unsupported_reason(precision, device)).
#if GIRO_WITH_CUDA
#define GIRO_OF_BACKEND(device, call) ((device).is_cuda() ? cuda::call : cpu::call)
#else
#define GIRO_OF_BACKEND(device, call) cpu::call
#endif
// The same for the stream's device: GIRO_ON_DEVICE(stream, run(op, stream)).
#define GIRO_ON_DEVICE(stream, call) GIRO_OF_BACKEND((stream).device(), call)
