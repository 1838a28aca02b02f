# giro_find_nvidia(PACKAGE TARGET HEADER NAME...): for a find module: finds one of NVIDIA's libraries, which come with the
# CUDA toolkit, the system, or Python packages. Sets GIRO_<PACKAGE>_LIBRARY and GIRO_<PACKAGE>_INCLUDE, which only builds
# of giro need, PACKAGE_FOUND, and the imported target TARGET. giro_library_places are the Python packages' folders.
include(FindPackageHandleStandardArgs)
include(${CMAKE_CURRENT_LIST_DIR}/GiroImport.cmake)
file(GLOB giro_python_nvidia /usr/lib/python3*/site-packages/nvidia /usr/local/lib/python3*/*-packages/nvidia)
execute_process(COMMAND python3 -c "import nvidia; print(*nvidia.__path__, sep=';', end='')"
  OUTPUT_VARIABLE giro_imported_nvidia ERROR_QUIET)
set(giro_library_places)
foreach(folder IN LISTS giro_imported_nvidia giro_python_nvidia)
  list(APPEND giro_library_places ${folder}/cudnn ${folder}/cu13 ${folder}/nccl)
endforeach()

macro(giro_find_nvidia package target header)
  string(TOUPPER ${package} giro_upper)
  find_path(GIRO_${giro_upper}_INCLUDE ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${giro_library_places}
    PATH_SUFFIXES include)
  find_library(GIRO_${giro_upper}_LIBRARY NAMES ${ARGN} HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS ${giro_library_places}
    PATH_SUFFIXES lib lib64)
  mark_as_advanced(GIRO_${giro_upper}_INCLUDE GIRO_${giro_upper}_LIBRARY)
  find_package_handle_standard_args(${package} REQUIRED_VARS GIRO_${giro_upper}_LIBRARY)
  giro_import(${package} ${target} ${GIRO_${giro_upper}_LIBRARY})
endmacro()
