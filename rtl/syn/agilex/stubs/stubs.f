// Stand-ins for packages of the example design, where it is not at hand.
afu_axi_if_pkg.sv
cxlip_top_pkg.sv
mc_axi_if_pkg.sv
