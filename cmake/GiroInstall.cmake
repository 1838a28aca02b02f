# Installs the libraries, the public headers, and what finds them: the package configuration for find_package(giro), and
# giro.pc for pkg-config. All of it may be moved together. The components are the Debian packages of GiroPackage.cmake.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# What is public is said in cmake/public_headers.txt alone.
list(TRANSFORM giro_public_headers PREPEND ${giro_include_dir}/giro/)

target_sources(giro PUBLIC FILE_SET HEADERS BASE_DIRS ${giro_include_dir}
  FILES ${giro_public_headers})

set(giro_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/giro)
install(TARGETS giro EXPORT giro_static_targets ARCHIVE COMPONENT dev FILE_SET HEADERS COMPONENT dev)
install(EXPORT giro_static_targets NAMESPACE giro:: FILE giroStaticTargets.cmake DESTINATION ${giro_config_dir}
  COMPONENT dev)
if(BUILD_SHARED_LIBS)
  install(TARGETS giro_shared EXPORT giro_shared_targets
    LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)
  install(EXPORT giro_shared_targets NAMESPACE giro:: FILE giroSharedTargets.cmake DESTINATION ${giro_config_dir}
    COMPONENT dev)
  if(GIRO_WITH_CUDA)
    install(TARGETS giro_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
  endif()
endif()
configure_package_config_file(cmake/giroConfig.cmake.in ${PROJECT_BINARY_DIR}/giroConfig.cmake
  INSTALL_DESTINATION ${giro_config_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/giroConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/giroConfig.cmake ${PROJECT_BINARY_DIR}/giroConfigVersion.cmake cmake/FindDNNL.cmake
  cmake/FindISAL.cmake cmake/FindcuDNN.cmake cmake/FindNCCL.cmake cmake/GiroImport.cmake
  cmake/GiroNvidia.cmake DESTINATION ${giro_config_dir} COMPONENT dev)

# pkg-config --static lists what the static library needs: a name where the compiler finds it, else a path.
file(RELATIVE_PATH giro_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(giro_pc_private -lfmt)
set(libraries ${DNNL_LIBRARY} ${ISAL_LIBRARY} ${PNG_LIBRARIES} ${ZLIB_LIBRARIES} ${MPI_CXX_LIBRARIES})
if(GIRO_WITH_CUDA)
  list(APPEND libraries ${CUDA_cudart_LIBRARY} ${GIRO_CUDNN_LIBRARY})
endif()
if(GIRO_WITH_NCCL)
  list(APPEND libraries ${GIRO_NCCL_LIBRARY})
endif()
list(REMOVE_DUPLICATES libraries)
foreach(library IN LISTS libraries)
  get_filename_component(folder ${library} DIRECTORY)
  if(folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    string(REGEX REPLACE "^.*/lib([^/]*)[.](so|a)$" "-l\\1" library ${library})
  endif()
  list(APPEND giro_pc_private ${library})
endforeach()
list(APPEND giro_pc_private ${OpenMP_CXX_FLAGS} -pthread ${CMAKE_DL_LIBS})
list(TRANSFORM giro_pc_private REPLACE "^([a-z]+)$" "-l\\1")
list(JOIN giro_pc_private " " giro_pc_private)
configure_file(cmake/giro.pc.in ${PROJECT_BINARY_DIR}/giro.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/giro.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
