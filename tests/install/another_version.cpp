// All that is read of a CUDA module of another version.
extern "C" const char giro_cuda_version[];
const char giro_cuda_version[] = "0.0.9";
