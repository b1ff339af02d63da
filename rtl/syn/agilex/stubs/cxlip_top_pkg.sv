// Stands in for the package of the same name in the vendor's example design: how many slices of
// memory it has. Not to be synthesised.

package cxlip_top_pkg;

  localparam int unsigned MC_CHANNEL = 2;

endpackage
