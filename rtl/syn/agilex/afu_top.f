// The sources of afu_top, in the form that nkv_top.f has. Packages of the example design come before them: its own, or stubs/stubs.f.
-F ../../nkv_top.f
nkv_agilex_csr.sv
nkv_agilex_tags.sv
nkv_agilex_turns.sv
nkv_agilex_memory.sv
nkv_agilex_rules.sv
afu_top.sv
