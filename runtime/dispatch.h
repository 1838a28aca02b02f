#pragma once

// Calls a function of the device's backend: GIRO_DISPATCH_ON(device, unsupported_reason(precision, device)).
#if GIRO_WITH_CUDA
#define GIRO_DISPATCH_ON(device, call) ((device).is_cuda() ? cuda::call : cpu::call)
#else
#define GIRO_DISPATCH_ON(device, call) cpu::call
#endif
// The same for the stream's device: GIRO_DISPATCH(stream, run(op, stream)).
#define GIRO_DISPATCH(stream, call) GIRO_DISPATCH_ON((stream).device(), call)
