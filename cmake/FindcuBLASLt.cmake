# Finds cuBLASLt: the target giro::cublaslt and cuBLASLt_FOUND.
include(${CMAKE_CURRENT_LIST_DIR}/GiroNvidia.cmake)
giro_find_nvidia(cuBLASLt giro::cublaslt cublasLt.h cublasLt libcublasLt.so.13)
