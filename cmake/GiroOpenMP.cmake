# Finds OpenMP for C++. Debian and Ubuntu install one version of LLVM's OpenMP at a time, and clang looks only for its
# own version. Any version works: if clang's own is missing, the newest installed one is used.
find_package(OpenMP QUIET COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  file(GLOB giro_omp_headers /usr/lib/llvm-*/lib/clang/*/include/omp.h)
  list(SORT giro_omp_headers COMPARE NATURAL ORDER DESCENDING)
  foreach(header IN LISTS giro_omp_headers)
    string(REGEX REPLACE "/clang/[^/]*/include/omp.h$" "/libomp.so" library ${header})
    if(EXISTS ${library})
      get_filename_component(folder ${header} DIRECTORY)
      set(OpenMP_CXX_FLAGS "-fopenmp=libomp -idirafter ${folder}")  # last: it holds clang headers, too
      set(OpenMP_CXX_LIB_NAMES libomp)
      set(OpenMP_libomp_LIBRARY ${library})
      break()
    endif()
  endforeach()
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
