#pragma once

// Marks functions that are compiled for the host and, under nvcc, for the device as well.
#ifdef __CUDACC__
#define GIRO_HOST_DEVICE __host__ __device__
#else
#define GIRO_HOST_DEVICE
#endif
