# Verilated modules as libraries, for whoever simulates RTL. Sets NEARKV_VERILATOR_MISSING to the
# reason where there is no Verilator, and to nothing where there is.
set(NEARKV_VERILATOR_MISSING "")
if(NEARKV_RTL STREQUAL "OFF")
  set(NEARKV_VERILATOR_MISSING "NEARKV_RTL is OFF")
else()
  find_package(verilator QUIET HINTS $ENV{VERILATOR_ROOT})
  if(NOT verilator_FOUND)
    set(NEARKV_VERILATOR_MISSING "Verilator not found (install verilator)")
    if(NEARKV_RTL STREQUAL "ON")
      message(FATAL_ERROR "NEARKV_RTL is ON: ${NEARKV_VERILATOR_MISSING}")
    endif()
  endif()
endif()

# For tests/rtl/strength/coverage.py, in a build of its own: every line of the whole engine counts.
option(NEARKV_RTL_COVERAGE "Count the lines that rtl: runs, into files in the folder NEARKV_RTL_COVERAGE" OFF)
set(coverage_arguments)
if(NEARKV_RTL_COVERAGE)
  set(coverage_arguments --coverage-line)
endif()

# Verilator's own sources, compiled once for all modules.
if(NOT NEARKV_VERILATOR_MISSING)
  set(runtime verilated verilated_dpi verilated_threads)
  if(NEARKV_RTL_COVERAGE)
    list(APPEND runtime verilated_cov)
  endif()
  list(TRANSFORM runtime REPLACE "(.+)" "${VERILATOR_ROOT}/include/\\1.cpp")
  add_library(nearkv_verilator STATIC EXCLUDE_FROM_ALL ${runtime})
  target_include_directories(nearkv_verilator SYSTEM PRIVATE ${VERILATOR_ROOT}/include
    ${VERILATOR_ROOT}/include/vltstd)
  target_compile_definitions(nearkv_verilator PRIVATE VM_COVERAGE=$<BOOL:${NEARKV_RTL_COVERAGE}>
    VM_SC=0 VM_TRACE=0 VM_TRACE_FST=0 VM_TRACE_VCD=0)
endif()

# nearkv_verilated_library(<target> TOP <module> SOURCES <file>... [CLASS <name>]
#                          [PARAMETERS <name>=<value>...] [ARGUMENTS <of Verilator>...])
# A static library with class V<module>, or CLASS; packages come first among the sources.
function(nearkv_verilated_library target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TOP;CLASS" "SOURCES;PARAMETERS;ARGUMENTS")
  list(TRANSFORM ARG_PARAMETERS PREPEND "-G")
  if(NOT ARG_CLASS)
    set(ARG_CLASS V${ARG_TOP})
  endif()
  add_library(${target} STATIC)
  verilate(${target} PREFIX ${ARG_CLASS} SOURCES ${ARG_SOURCES}
    VERILATOR_ARGS -Wall -O3 --x-assign fast --x-initial fast --output-split 4000
                   --output-split-cfuncs 400 --top-module ${ARG_TOP} ${ARG_PARAMETERS} ${ARG_ARGUMENTS}
                   ${coverage_arguments}
    OPT_SLOW -O1 OPT_FAST -O2)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/include/verilated[a-z_]*[.]cpp$")
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
  target_link_libraries(${target} PUBLIC nearkv_verilator)
  # Each of a module's sources includes its state and Verilator's headers, which take most of its time.
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  list(LENGTH sources source_count)
  if(source_count GREATER 2)
    list(FILTER sources INCLUDE REGEX "/${ARG_CLASS}[.]cpp$")
    string(REPLACE ".cpp" "___024root.h" state ${sources})
    target_precompile_headers(${target} PRIVATE ${state})
  endif()
  get_target_property(includes ${target} INCLUDE_DIRECTORIES)
  target_include_directories(${target} SYSTEM INTERFACE ${includes})
endfunction()

# NEARKV_RTL_SOURCES: everything below nkv_top, packages first.
file(GLOB_RECURSE NEARKV_RTL_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/nkv_*.sv)
list(FILTER NEARKV_RTL_SOURCES EXCLUDE
  REGEX "/rtl/((formal|syn|lib/tech/[a-z]+)/|abi/gen/nkv_firmware_pkg)")
set(packages ${NEARKV_RTL_SOURCES})
list(FILTER packages INCLUDE REGEX "_pkg\\.sv$")
list(FILTER NEARKV_RTL_SOURCES EXCLUDE REGEX "_pkg\\.sv$")
list(REMOVE_ITEM packages ${CMAKE_CURRENT_LIST_DIR}/abi/gen/nkv_abi_pkg.sv
  ${CMAKE_CURRENT_LIST_DIR}/nkv_pkg.sv)
list(PREPEND NEARKV_RTL_SOURCES ${CMAKE_CURRENT_LIST_DIR}/abi/gen/nkv_abi_pkg.sv
  ${CMAKE_CURRENT_LIST_DIR}/nkv_pkg.sv ${packages})

# The same by halves: what lies in an engine, and what around engines (nkv_shell).
set(NEARKV_RTL_ENGINE_SOURCES ${NEARKV_RTL_SOURCES})
list(FILTER NEARKV_RTL_ENGINE_SOURCES EXCLUDE
  REGEX "/rtl/(nkv_top|nkv_shell|(queue|inline|monitor)/[a-z0-9_]*|abi/gen/nkv_csr)\\.sv$")
set(NEARKV_RTL_SHELL_SOURCES ${NEARKV_RTL_SOURCES})
list(FILTER NEARKV_RTL_SHELL_SOURCES INCLUDE
  REGEX "/rtl/(nkv_pkg|nkv_shell|(queue|inline|monitor|lib|abi)/.*|memory/nkv_axi_mux)\\.sv$")
