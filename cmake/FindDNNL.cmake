# Finds oneDNN: the target DNNL::dnnl, DNNL_FOUND and DNNL_VERSION. The package's own configuration is not used:
# Debian's requires the OpenCL headers, which giro does not need.
include(FindPackageHandleStandardArgs)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
unset(DNNL_VERSION)
if(DNNL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h line REGEX "#define DNNL_VERSION_${part}[ \t]")
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND DNNL_VERSION ${number})
  endforeach()
  list(JOIN DNNL_VERSION . DNNL_VERSION)
endif()
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
