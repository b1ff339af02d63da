# Headers that many programs include, compiled once for all of them. Those that see the library's insides are
# compiled with its options, so that each set of headers exists twice: `plain`, and as nearkv_objects has it.

# nearkv_links(<result> <library> <target>...): whether one of these targets, or what it links, is the library.
function(nearkv_links result library)
  set(${result} FALSE PARENT_SCOPE)
  foreach(target IN LISTS ARGN)
    set(found FALSE)
    if(target STREQUAL library)
      set(found TRUE)
    elseif(TARGET "${target}")
      get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
      nearkv_links(found ${library} ${linked})
    endif()
    if(found)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# nearkv_precompile(<name> HEADERS <header>... LIBRARIES <target>... [OPTIONS <of the compiler>...])
# Headers for programs that are compiled with these options.
function(nearkv_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;LIBRARIES;OPTIONS")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp "")
  foreach(kind IN ITEMS plain objects)
    add_library(${name}_${kind} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    target_link_libraries(${name}_${kind} PRIVATE nearkv_options ${ARG_LIBRARIES})
    target_compile_options(${name}_${kind} PRIVATE ${ARG_OPTIONS} -fPIE)
    target_precompile_headers(${name}_${kind} PRIVATE ${ARG_HEADERS})
  endforeach()
  target_link_libraries(${name}_objects PRIVATE nearkv_objects)
endfunction()

# nearkv_use_precompiled(<program> <name>): for a program whose libraries are linked already.
function(nearkv_use_precompiled program name)
  get_target_property(libraries ${program} LINK_LIBRARIES)
  nearkv_links(sees_insides nearkv_objects ${libraries})
  set(kind plain)
  if(sees_insides)
    set(kind objects)
  endif()
  target_precompile_headers(${program} REUSE_FROM ${name}_${kind})
endfunction()

# nearkv_batch(<target>...): their sources are compiled a dozen at a time, because most of what one costs is in
# headers that its neighbours include too. What stands in anonymous namespaces has a name of its own then.
function(nearkv_batch)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
endfunction()
