# Verilated modules as libraries, for whoever simulates RTL. Sets NEARKV_VERILATOR_MISSING to the
# reason where there is no Verilator, and to nothing where there is; NEARKV_FLAT_MISSING likewise,
# where it cannot say a module's ports.
set(NEARKV_VERILATOR_MISSING "")
if("rtl" IN_LIST NEARKV_SETS)
  find_package(verilator QUIET HINTS $ENV{VERILATOR_ROOT})
  find_package(Python3 3.11 QUIET COMPONENTS Interpreter)
  if(NOT verilator_FOUND OR NOT Python3_FOUND)
    set(NEARKV_VERILATOR_MISSING "Verilator or Python 3.11 not found (./nearkv setup rtl)")
  endif()
else()
  set(NEARKV_VERILATOR_MISSING "the set rtl is not among NEARKV_SETS")
endif()
set(NEARKV_FLAT_MISSING "${NEARKV_VERILATOR_MISSING}")
if(verilator_VERSION VERSION_GREATER_EQUAL 5.046)
  set(NEARKV_FLAT_MISSING "Verilator ${verilator_VERSION} no longer writes XML (5.006 to 5.044 do)")
endif()

# For tests/rtl/strength/coverage.py, in a build of its own: every line of the whole engine counts.
option(NEARKV_RTL_COVERAGE "Count the lines that rtl: runs, into files in the folder NEARKV_RTL_COVERAGE" OFF)
set(coverage_arguments)
if(NEARKV_RTL_COVERAGE)
  set(coverage_arguments --coverage-line)
endif()

# What modules include, and where they find it.
set(NEARKV_RTL_ASSERTIONS ${CMAKE_CURRENT_LIST_DIR}/lib/nkv_assert.svh)
set(NEARKV_RTL_INCLUDES -I${CMAKE_CURRENT_LIST_DIR}/lib)

# Verilator's own sources, compiled once for all modules.
if(NOT NEARKV_VERILATOR_MISSING)
  set(runtime verilated verilated_dpi verilated_threads)
  if(NEARKV_RTL_COVERAGE)
    list(APPEND runtime verilated_cov)
  endif()
  list(TRANSFORM runtime REPLACE "(.+)" "${VERILATOR_ROOT}/include/\\1.cpp")
  add_library(nearkv_verilator STATIC EXCLUDE_FROM_ALL ${runtime})
  target_include_directories(nearkv_verilator SYSTEM PUBLIC ${VERILATOR_ROOT}/include
    ${VERILATOR_ROOT}/include/vltstd)
  target_compile_definitions(nearkv_verilator PUBLIC VM_COVERAGE=$<BOOL:${NEARKV_RTL_COVERAGE}>
    VM_SC=0 VM_TRACE=0 VM_TRACE_FST=0 VM_TRACE_VCD=0)
  # Their header takes most of the time that a small module is compiled in.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/nearkv_verilated_headers.cpp "")
  foreach(level IN ITEMS -O1 -O2)
    add_library(nearkv_verilated_headers${level} OBJECT EXCLUDE_FROM_ALL
      ${CMAKE_CURRENT_BINARY_DIR}/nearkv_verilated_headers.cpp)
    target_compile_options(nearkv_verilated_headers${level} PRIVATE ${level})
    target_link_libraries(nearkv_verilated_headers${level} PRIVATE nearkv_verilator)
    target_precompile_headers(nearkv_verilated_headers${level} PRIVATE <verilated.h>)
  endforeach()
endif()

# nearkv_verilated_library(<target> TOP <module> SOURCES <file>... [FLAT <bool>] [CLASS <name>] [UNITS <count>]
#                          [OPTIMISE <option>] [PARAMETERS <name>=<value>...] [ARGUMENTS <of Verilator>...])
# A static library with class V<module>, or CLASS; packages come first among the sources. FLAT: fields of
# structs are ports of their own, as verilated_flat.py says. What the RTL asserts is checked. Verilator runs when
# the library is built. What it writes is compiled as UNITS units (default: one), because hundreds of small ones
# spend most of their time in the same headers.
function(nearkv_verilated_library target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TOP;FLAT;CLASS;UNITS;OPTIMISE" "SOURCES;PARAMETERS;ARGUMENTS")
  foreach(default IN ITEMS CLASS=V${ARG_TOP} UNITS=1 OPTIMISE=-O2)
    string(REPLACE "=" ";" default ${default})
    list(GET default 0 name)
    list(GET default 1 value)
    if(NOT ARG_${name})
      set(ARG_${name} ${value})
    endif()
  endforeach()
  list(TRANSFORM ARG_PARAMETERS PREPEND "-G")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/verilated)
  set(units)
  math(EXPR last "${ARG_UNITS} - 1")
  foreach(unit RANGE ${last})
    list(APPEND units ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/${ARG_CLASS}_unit_${unit}.cpp)
  endforeach()
  list(TRANSFORM ARG_SOURCES REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  set(verilator ${CMAKE_COMMAND} -E env VERILATOR_ROOT=${VERILATOR_ROOT} ${VERILATOR_BIN})
  set(top --top-module ${ARG_TOP} ${ARG_PARAMETERS})
  set(scripts ${PROJECT_SOURCE_DIR}/rtl/verilated_units.cmake)
  set(flatten)
  set(flat)
  if(ARG_FLAT)
    list(APPEND scripts ${PROJECT_SOURCE_DIR}/rtl/verilated_flat.py)
    set(flat ${folder}/${ARG_TOP}_flat.sv)
    set(flatten
      COMMAND ${verilator} --xml-only -Wno-fatal --Mdir ${folder} --xml-output ${folder}/ports.xml ${top}
        ${NEARKV_RTL_INCLUDES} ${ARG_ARGUMENTS} ${ARG_SOURCES}
      COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/rtl/verilated_flat.py
        ${folder}/ports.xml ${flat})
    set(top --top-module ${ARG_TOP}_flat)
  endif()
  add_custom_command(OUTPUT ${units} ${folder}/${ARG_CLASS}.h
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}
    ${flatten}
    COMMAND ${verilator} --cc --Mdir ${folder} --prefix ${ARG_CLASS} -Wall -O3 --assert --x-assign fast
      --x-initial fast --output-split 4000 --output-split-cfuncs 400 ${top}
      ${NEARKV_RTL_INCLUDES} ${ARG_ARGUMENTS} ${coverage_arguments} ${ARG_SOURCES} ${flat}
    COMMAND ${CMAKE_COMMAND} -D "FOLDER=${folder}" -D "UNITS=${units}"
      -P ${PROJECT_SOURCE_DIR}/rtl/verilated_units.cmake
    DEPENDS ${ARG_SOURCES} ${NEARKV_RTL_ASSERTIONS} ${scripts}
    VERBATIM COMMENT "Verilating ${ARG_TOP} for ${target}")
  add_library(${target} STATIC ${units})
  target_compile_options(${target} PRIVATE ${ARG_OPTIMISE})
  target_precompile_headers(${target} REUSE_FROM nearkv_verilated_headers${ARG_OPTIMISE})
  target_include_directories(${target} SYSTEM PUBLIC ${folder})
  target_link_libraries(${target} PUBLIC nearkv_verilator)
endfunction()

# nearkv_file_list(<variable> <list>): the files that a list like nkv_top.f names, in its order.
function(nearkv_file_list variable list)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  cmake_path(GET list PARENT_PATH folder)
  file(STRINGS ${list} lines REGEX "^[^/]")
  set(files)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^-F +" "" path "${line}")
    cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY ${folder} NORMALIZE)
    set(named ${path})
    if(line MATCHES "^-F ")
      nearkv_file_list(named ${path})
    endif()
    list(APPEND files ${named})
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# NEARKV_RTL_SOURCES: everything below nkv_top, packages first.
nearkv_file_list(NEARKV_RTL_SOURCES ${CMAKE_CURRENT_LIST_DIR}/nkv_top.f)

# What lies in an engine; and what a top has around engines, with the nkv_engine that calls that one's model.
set(NEARKV_RTL_ENGINE_SOURCES ${NEARKV_RTL_SOURCES})
list(FILTER NEARKV_RTL_ENGINE_SOURCES EXCLUDE
  REGEX "/rtl/(nkv_top|nkv_shell|(queue|inline|monitor)/[a-z0-9_]*|abi/gen/nkv_csr)\\.sv$")
set(NEARKV_RTL_AROUND_ENGINE ${NEARKV_RTL_SOURCES})
list(FILTER NEARKV_RTL_AROUND_ENGINE INCLUDE
  REGEX "/rtl/(nkv_pkg|nkv_shell|nkv_top|(queue|inline|monitor|lib|abi)/.*|memory/nkv_axi_mux)\\.sv$")
list(APPEND NEARKV_RTL_AROUND_ENGINE ${CMAKE_CURRENT_LIST_DIR}/../emulator/verilated/nkv_engine.sv)
