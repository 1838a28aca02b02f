# libgiro.so, and libgiro_cuda.so, the module with the CUDA backend, which libgiro.so loads if it lies beside it. Both
# are linked from the static library's objects; only the backend's stand-ins are compiled for libgiro.so.
set(giro_abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
configure_file(cmake/exports.map.in ${PROJECT_BINARY_DIR}/exports.map @ONLY)

set(backend "giro[.]dir/([.]/)?((runtime|kernels)/(no_)?cuda/|Unity/unity_(cuda|nccl)_|distributed/(no_)?nccl/)")
file(GLOB stand_ins CONFIGURE_DEPENDS runtime/no_cuda/*.cpp distributed/no_nccl/*.cpp)
if(GIRO_WITH_CUDA)
  file(GLOB stand_ins_of_kernels CONFIGURE_DEPENDS kernels/no_cuda/*.cpp)
  list(APPEND stand_ins ${stand_ins_of_kernels})
endif()

add_library(giro_shared SHARED ${stand_ins} $<FILTER:$<TARGET_OBJECTS:giro>,EXCLUDE,${backend}>)
set_target_properties(giro_shared PROPERTIES OUTPUT_NAME giro EXPORT_NAME giro VERSION ${PROJECT_VERSION}
  SOVERSION ${giro_abi} UNITY_BUILD OFF)
target_compile_features(giro_shared PUBLIC cxx_std_20)
target_include_directories(giro_shared PUBLIC $<BUILD_INTERFACE:${giro_include_dir}> $<INSTALL_INTERFACE:include>
                                       PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(giro_shared PRIVATE $<BUILD_INTERFACE:giro_options> ${giro_link} ${CMAKE_DL_LIBS})
set(giro_shared_libraries giro_shared)
if(GIRO_WITH_CUDA)
  target_compile_definitions(giro_shared PRIVATE GIRO_WITH_CUDA=1 GIRO_VERSION="${PROJECT_VERSION}" GIRO_CUDA_MODULE="libgiro_cuda.so")
  file(CONFIGURE OUTPUT cuda_version.cpp CONTENT
    "extern \"C\" const char giro_cuda_version[];\nconst char giro_cuda_version[] = \"@PROJECT_VERSION@\";\n" @ONLY)
  add_library(giro_cuda MODULE ${PROJECT_BINARY_DIR}/cuda_version.cpp
    $<FILTER:$<TARGET_OBJECTS:giro>,INCLUDE,${backend}>)
  target_link_libraries(giro_cuda PRIVATE giro_shared fmt::fmt nlohmann_json::nlohmann_json ${giro_cuda_link}
    $<$<BOOL:${GIRO_WITH_NCCL}>:giro::nccl> Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(giro_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  list(APPEND giro_shared_libraries giro_cuda)
endif()
foreach(library IN LISTS giro_shared_libraries)
  # Each calls its own functions: the module the backend's, libgiro.so their stand-ins of the same names.
  target_link_options(${library} PRIVATE LINKER:-Bsymbolic-functions
    LINKER:--version-script=${PROJECT_BINARY_DIR}/exports.map)
  set_property(TARGET ${library} APPEND PROPERTY LINK_DEPENDS ${PROJECT_BINARY_DIR}/exports.map)
  if(NOT GIRO_SANITIZE)
    target_link_options(${library} PRIVATE LINKER:-z,defs,-z,now)
  endif()
endforeach()
