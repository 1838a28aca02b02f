# Finds the CUDA toolkit and cuDNN, and decides whether the CUDA backend is built. Sets
#   GIRO_WITH_CUDA        whether it is
#   giro_cuda_link        the libraries it links
#   giro_thrust_include   where Thrust's headers lie: the toolkit's, else the system's
set(GIRO_WITH_CUDA OFF)
set(giro_cuda_link)
set(giro_thrust_include)

if(NOT GIRO_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 13 QUIET)
    # cuDNN lies in the toolkit, in the system, or in Python's package of it.
    file(GLOB giro_python_cudnn /usr/lib/python3*/site-packages/nvidia/cudnn /usr/local/lib/python3*/*-packages/nvidia/cudnn)
    execute_process(COMMAND python3 -c "import nvidia.cudnn as m; print(list(m.__path__)[0])"
      OUTPUT_VARIABLE giro_imported_cudnn OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(GIRO_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
      PATHS ${giro_imported_cudnn} ${giro_python_cudnn} PATH_SUFFIXES include)
    find_library(GIRO_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR}
      PATHS ${giro_imported_cudnn} ${giro_python_cudnn} PATH_SUFFIXES lib lib64)
  endif()
  if(CUDAToolkit_FOUND AND GIRO_CUDNN_INCLUDE AND GIRO_CUDNN_LIBRARY)
    set(GIRO_WITH_CUDA ON)
    set(giro_cuda_link CUDA::cudart CUDA::cublasLt ${GIRO_CUDNN_LIBRARY})
    set(giro_thrust_include ${CUDAToolkit_INCLUDE_DIRS}/cccl)
    add_library(giro_cuda_libraries INTERFACE)
    target_include_directories(giro_cuda_libraries SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${GIRO_CUDNN_INCLUDE})
    message(STATUS "giro: CUDA backend on (toolkit ${CUDAToolkit_VERSION}, ${GIRO_CUDNN_LIBRARY})")
  elseif(GIRO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "giro: GIRO_CUDA=ON needs the CUDA toolkit 13 and cuDNN 9; nvcc is '${CMAKE_CUDA_COMPILER}', "
      "cuDNN is '${GIRO_CUDNN_LIBRARY}'")
  elseif(CMAKE_CUDA_COMPILER)
    message(STATUS "giro: CUDA backend off: needs toolkit 13 and cuDNN 9; found toolkit '${CUDAToolkit_VERSION}', "
      "cuDNN '${GIRO_CUDNN_LIBRARY}'")
  else()
    message(STATUS "giro: CUDA backend off: no CUDA toolkit found")
  endif()
endif()
