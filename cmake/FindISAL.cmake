# Finds Intel's ISA-L: the target ISAL::isal and ISAL_FOUND. ISA-L ships no CMake configuration.
include(FindPackageHandleStandardArgs)
include(${CMAKE_CURRENT_LIST_DIR}/GiroImport.cmake)
find_path(ISAL_INCLUDE_DIR isa-l/crc.h)
find_library(ISAL_LIBRARY isal)
find_package_handle_standard_args(ISAL REQUIRED_VARS ISAL_LIBRARY ISAL_INCLUDE_DIR)
mark_as_advanced(ISAL_INCLUDE_DIR ISAL_LIBRARY)
giro_import(ISAL ISAL::isal ${ISAL_LIBRARY} ${ISAL_INCLUDE_DIR})
