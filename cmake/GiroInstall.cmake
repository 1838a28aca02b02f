# Installs the library, its public headers, and the package configuration for find_package(giro).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

file(GLOB_RECURSE giro_public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  runtime/*.h kernels/*.h distributed/*.h loop/*.h callbacks/*.h)
foreach(header IN LISTS giro_umbrella_headers)
  list(REMOVE_ITEM giro_public_headers callbacks/${header})  # installed as giro/giro.h
endforeach()
list(APPEND giro_public_headers ${giro_umbrella_headers})
# Private headers are recognized by their folder.
list(FILTER giro_public_headers EXCLUDE REGEX "/(internal|program|rules|cpu|cuda|no_cuda|mpi|no_mpi|nccl|no_nccl|functors|pointwise|tools)/")
list(TRANSFORM giro_public_headers PREPEND ${giro_include_dir}/giro/)

target_sources(giro PUBLIC FILE_SET HEADERS BASE_DIRS ${giro_include_dir}
  FILES ${giro_public_headers})

set(giro_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/giro)
install(TARGETS giro EXPORT giro_targets ARCHIVE FILE_SET HEADERS)
install(EXPORT giro_targets NAMESPACE giro:: FILE giroTargets.cmake DESTINATION ${giro_config_dir})
configure_package_config_file(cmake/giroConfig.cmake.in ${PROJECT_BINARY_DIR}/giroConfig.cmake
  INSTALL_DESTINATION ${giro_config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/giroConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/giroConfig.cmake ${PROJECT_BINARY_DIR}/giroConfigVersion.cmake cmake/FindDNNL.cmake
  cmake/FindISAL.cmake
  DESTINATION ${giro_config_dir})

# For the tests of the headers.
string(REPLACE "${giro_include_dir}/giro/" "" giro_public_headers "${giro_public_headers}")
list(JOIN giro_public_headers "\n" giro_public_headers)
file(WRITE ${PROJECT_BINARY_DIR}/public_headers.txt "${giro_public_headers}\n")
