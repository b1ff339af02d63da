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

# A line of a list is a file, a comment or -F and another list.
proc files_of {list} {
  set stream [open $list]
  set lines [split [string trim [read $stream]] \n]
  close $stream
  set files {}
  foreach line $lines {
    if {[regexp {^-F +(.+)$} $line -> other]} {
      lappend files {*}[files_of [file join [file dirname $list] $other]]
    } elseif {$line ne "" && ![string match //* $line]} {
      lappend files [file normalize [file join [file dirname $list] $line]]
    }
  }
  return $files
}
set files [files_of $here/afu_top.f]
foreach file $files {
  set_global_assignment -name SYSTEMVERILOG_FILE $file
}
set_global_assignment -name SEARCH_PATH [file normalize $here/../../lib]
set_global_assignment -name VERILOG_MACRO SYNTHESIS
set_global_assignment -name SDC_FILE $here/nearkv.sdc

export_assignments
project_close
puts "[llength $files] files of NearKV in $example for $device"
