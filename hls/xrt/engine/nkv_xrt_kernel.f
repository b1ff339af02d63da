// The sources of nkv_xrt_kernel, in the form that rtl/nkv_top.f has.
-F ../../../rtl/nkv_top.f
nkv_xrt_control.sv
nkv_xrt_memory.sv
nkv_xrt_adapter.sv
nkv_xrt_kernel.sv
