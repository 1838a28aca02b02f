# Finds OpenMP for C++. Debian and Ubuntu install LLVM's OpenMP of one version at a time, and clang looks for that of its
# own version alone. Any version serves: where clang's own is missing, the newest one installed is taken.
find_package(OpenMP QUIET COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  file(GLOB giro_omp_headers /usr/lib/llvm-*/lib/clang/*/include/omp.h)
  list(SORT giro_omp_headers COMPARE NATURAL ORDER DESCENDING)
  foreach(header IN LISTS giro_omp_headers)
    string(REGEX REPLACE "/clang/[^/]*/include/omp.h$" "/libomp.so" library ${header})
    if(EXISTS ${library})
      get_filename_component(folder ${header} DIRECTORY)
      set(OpenMP_CXX_FLAGS "-fopenmp=libomp -idirafter ${folder}")  # after clang's own headers, which lie there, too
      set(OpenMP_CXX_LIB_NAMES libomp)
      set(OpenMP_libomp_LIBRARY ${library})
      break()
    endif()
  endforeach()
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
