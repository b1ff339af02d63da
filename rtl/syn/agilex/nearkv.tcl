# Puts NearKV into a generated example design of the CXL Type 3 IP:
#
#   quartus_sh -t nearkv.tcl EXAMPLE_FOLDER [DEVICE]
#
# EXAMPLE_FOLDER holds the example's project (one .qpf). Its afu_top and ex_default_csr are left out
# of the project, and nothing else of it is changed; README.md says what is wired by hand.

package require ::quartus::project

if {$argc < 1 || $argc > 2} {
  puts stderr "usage: quartus_sh -t nearkv.tcl EXAMPLE_FOLDER \[DEVICE\]"
  exit 2
}
set here [file dirname [file normalize [info script]]]
set rtl [file dirname [file dirname $here]]
set example [file normalize [lindex $argv 0]]
set device [expr {$argc > 1 ? [lindex $argv 1] : "AGIB027R29A1E2VR2"}]

set projects [glob -nocomplain -directory $example *.qpf]
if {[llength $projects] != 1} {
  puts stderr "$example: [llength $projects] projects, not one"
  exit 1
}
cd $example
project_open [file rootname [file tail [lindex $projects 0]]]

set_global_assignment -name FAMILY "Agilex 7"
set_global_assignment -name DEVICE $device
set_global_assignment -name VERILOG_INPUT_VERSION SYSTEMVERILOG_2012
set_global_assignment -name OPTIMIZATION_MODE "SUPERIOR PERFORMANCE"

# What ours stands in for.
foreach name {SYSTEMVERILOG_FILE VERILOG_FILE SOURCE_TCL_SCRIPT_FILE} {
  foreach_in_collection assignment [get_all_global_assignments -name $name] {
    set file [lindex $assignment 2]
    if {[string match "*afu_top.sv" $file] || [string match "*ex_default_csr*" $file]} {
      set_global_assignment -name $name -remove $file
    }
  }
}

# Packages first; the stubs stand for what the example itself has, generic modules for those of other technologies.
proc sources {folder} {
  set files [glob -nocomplain -directory $folder nkv_*.sv]
  foreach below [lsort [glob -nocomplain -directory $folder -types d *]] {
    if {[file tail $below] ni {formal syn xcup}} {
      set files [concat $files [sources $below]]
    }
  }
  return [lsort $files]
}
set files [sources $rtl]
set first [list $rtl/abi/gen/nkv_abi_pkg.sv $rtl/nkv_pkg.sv]
set packages [lsearch -all -inline $files *_pkg.sv]
set modules [lsearch -all -inline -not $files *_pkg.sv]
set seen {}
foreach file [concat $first $packages $modules [lsort [glob -directory $here *.sv]]] {
  if {$file ni $seen} {
    lappend seen $file
    set_global_assignment -name SYSTEMVERILOG_FILE $file
  }
}
set_global_assignment -name SDC_FILE $here/nearkv.sdc

export_assignments
project_close
puts "[llength $seen] files of NearKV in $example for $device"
