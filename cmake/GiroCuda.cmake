# Finds the CUDA toolkit, cuDNN and its frontend, and decides whether the CUDA backend is built. Sets
#   GIRO_WITH_CUDA        whether it is
#   giro_cuda_link        the libraries it links
set(GIRO_WITH_CUDA OFF)
set(giro_cuda_link)

# giro_version_of(VARIABLE HEADER MAJOR MINOR): the version in a header's macros, "" if there is no such header.
function(giro_version_of variable header)
  set(version "")
  if(EXISTS "${header}")
    foreach(macro IN LISTS ARGN)
      file(STRINGS "${header}" line REGEX "#define ${macro} +[0-9]+")
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND version ${number})
    endforeach()
    list(JOIN version "." version)
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

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
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the one that giro itself links
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know nvcc's option
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit 13 QUIET)
    find_package(cuDNN QUIET MODULE)
    find_package(cuBLASLt QUIET MODULE)
    # Header-only (cmake/install_cudnn_frontend.sh).
    set(giro_frontend_places ${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend)
    foreach(folder IN LISTS giro_imported_nvidia giro_python_nvidia)
      list(APPEND giro_frontend_places ${folder}/..)
    endforeach()
    find_path(GIRO_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${giro_frontend_places} PATH_SUFFIXES include)
    # NVRTC and cuBLASLt are not linked: a program that needs them loads them at run time.
    find_path(GIRO_NVRTC_INCLUDE nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${giro_library_places}
      PATH_SUFFIXES include)
    find_library(GIRO_NVRTC_LIBRARY NAMES libnvrtc.so.13 nvrtc HINTS ${CUDAToolkit_LIBRARY_DIR}
      PATHS ${giro_library_places} PATH_SUFFIXES lib lib64)
  endif()
  giro_version_of(giro_cudnn_version "${GIRO_CUDNN_INCLUDE}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR)
  giro_version_of(giro_frontend_version "${GIRO_CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h"
    CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION)
  set(giro_missing)
  if(NOT CUDAToolkit_FOUND)
    set(CUDAToolkit_VERSION "")
  endif()
  # cuDNN can build plans for a described device since 9.8.
  foreach(needed "the CUDA toolkit|13|${CUDAToolkit_VERSION}" "nvrtc.h||${GIRO_NVRTC_INCLUDE}"
                 "cuBLASLt||${GIRO_CUBLASLT_LIBRARY}" "cublasLt.h||${GIRO_CUBLASLT_INCLUDE}" "cuDNN||${GIRO_CUDNN_LIBRARY}"
                 "cudnn.h|9.8|${giro_cudnn_version}" "cuDNN's frontend|1.32|${giro_frontend_version}")
    string(REGEX MATCH "^(.*)[|](.*)[|](.*)$" matched "${needed}")
    if(NOT CMAKE_MATCH_3)
      string(STRIP "${CMAKE_MATCH_1} ${CMAKE_MATCH_2}" name)
      list(APPEND giro_missing "${name} (not found)")
    elseif(CMAKE_MATCH_2 AND CMAKE_MATCH_3 VERSION_LESS CMAKE_MATCH_2)
      list(APPEND giro_missing "${CMAKE_MATCH_1} ${CMAKE_MATCH_2} (found ${CMAKE_MATCH_3})")
    endif()
  endforeach()
  list(JOIN giro_missing ", " giro_missing)
  if(CMAKE_CUDA_COMPILER AND NOT giro_missing)
    set(GIRO_WITH_CUDA ON)
    set(giro_cuda_link CUDA::cudart giro::cudnn)
    add_library(giro_cuda_libraries INTERFACE)
    target_include_directories(giro_cuda_libraries SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${GIRO_CUDNN_INCLUDE}
      ${GIRO_CUDNN_FRONTEND_INCLUDE} ${GIRO_CUBLASLT_INCLUDE} ${GIRO_NVRTC_INCLUDE})
    set(places ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
    foreach(place IN LISTS giro_library_places)
      list(APPEND places ${place}/lib)
    endforeach()
    list(REMOVE_DUPLICATES places)
    list(JOIN places ":" places)
    set_source_files_properties(runtime/cuda/library.cpp PROPERTIES COMPILE_DEFINITIONS GIRO_CUDA_PLACES="${places}")
    # It includes cuDNN's frontend, which takes half a minute to compile with -O3. CUDNN_FRONTEND_SKIP_JSON_LIB would
    # halve that, but its graphs then refuse to be serialized, so no plan would be on disk for the next run.
    set_source_files_properties(kernels/cuda/graph_plan.cpp PROPERTIES
      COMPILE_OPTIONS "$<$<CONFIG:Release>:$<IF:$<BOOL:${GIRO_TEST_SHARES}>,-O0,-O1>>")
    # Device discovery skips GPUs older than the oldest architecture in the build.
    string(REGEX MATCHALL "[0-9]+" giro_architectures "${CMAKE_CUDA_ARCHITECTURES}")
    if(giro_architectures)
      list(SORT giro_architectures COMPARE NATURAL)
      list(GET giro_architectures 0 giro_oldest_architecture)
      set_source_files_properties(runtime/cuda/device.cpp PROPERTIES
        COMPILE_DEFINITIONS GIRO_CUDA_OLDEST_ARCHITECTURE=${giro_oldest_architecture})
    endif()
    message(STATUS "giro: CUDA backend on (toolkit ${CUDAToolkit_VERSION}, ${GIRO_CUDNN_LIBRARY})")
  elseif(GIRO_CUDA STREQUAL "ON" AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "giro: GIRO_CUDA=ON needs nvcc, which was not found")
  elseif(GIRO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "giro: GIRO_CUDA=ON needs ${giro_missing}")
  elseif(CMAKE_CUDA_COMPILER)
    message(STATUS "giro: CUDA backend off: needs ${giro_missing}")
  else()
    message(STATUS "giro: CUDA backend off: no CUDA toolkit found")
  endif()
endif()
