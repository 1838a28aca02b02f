# giro_import(PACKAGE TARGET LIBRARY [INCLUDE_DIR]): for a find module: makes the imported target TARGET, once and only
# if the package was found.
macro(giro_import package target library)
  if(${package}_FOUND AND NOT TARGET ${target})
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${library} INTERFACE_INCLUDE_DIRECTORIES "${ARGN}")
  endif()
endmacro()
