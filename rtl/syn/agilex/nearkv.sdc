# NearKV's part of the constraints. The example design's own files make its clocks: the IP's user
# clock for the AFU (afu_clk), which must run at 400 MHz, and the clock of its CSR port (125 MHz).

# The hierarchy above afu_top differs between releases of the example.
set afu "*|afu_top:*"

# Both clocks are the example's. This fails loudly where the AFU's is slower than meant.
foreach_in_collection clock [get_clocks -of_objects [get_pins -compatibility_mode "$afu|reset_q\[0\]|clk"]] {
  if {[get_clock_info -period $clock] > 2.5} {
    post_message -type critical_warning "NearKV: [get_clock_info -name $clock] is slower than 400 MHz"
  }
}

# Toggles between the two clocks pass two registers; what they announce stands still meanwhile, so
# that it only has to arrive before them: within a period of the faster clock.
set_max_delay -from [get_registers "$afu|nkv_agilex_csr:u_csr|asked_q"] \
              -to   [get_registers "$afu|nkv_agilex_csr:u_csr|asked_sync_q\[0\]"] 2.5
set_max_delay -from [get_registers "$afu|nkv_agilex_csr:u_csr|done_toggle_q"] \
              -to   [get_registers "$afu|nkv_agilex_csr:u_csr|done_sync_q\[0\]"] 2.5
set_max_delay -from [get_registers "$afu|nkv_agilex_csr:u_csr|answer_q\[*\]"] \
              -to   [get_registers "$afu|nkv_agilex_csr:u_csr|avmm_readdata_o\[*\]"] 2.5
set_false_path -hold -from [get_registers "$afu|nkv_agilex_csr:u_csr|asked_q"]
set_false_path -hold -from [get_registers "$afu|nkv_agilex_csr:u_csr|done_toggle_q"]
set_false_path -hold -from [get_registers "$afu|nkv_agilex_csr:u_csr|answer_q\[*\]"]

# The held access of the CSR port, seen by the engine two of its periods after the toggle at the least.
set csr_port [get_registers -nowarn "*|csr_avmm_*"]
if {[get_collection_size $csr_port] > 0} {
  set_max_delay -from $csr_port -to [get_registers "$afu|nkv_top:u_nearkv|*"] 5.0
  set_false_path -hold -from $csr_port -to [get_registers "$afu|nkv_top:u_nearkv|*"]
}

# Reset comes when it likes.
set_false_path -to [get_registers "$afu|reset_q\[*\]"]
