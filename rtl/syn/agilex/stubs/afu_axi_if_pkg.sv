// Stands in for the package of the same name in the vendor's example design: the names and widths
// that afu_top uses, so that it can be checked without the design. Not to be synthesised.

package afu_axi_if_pkg;

  // A stub offers more than afu_top needs.
  // verilator lint_off UNUSEDPARAM

  typedef logic t_axi4_wr_addr_ready;
  typedef logic t_axi4_wr_data_ready;
  typedef logic t_axi4_wr_resp_ready;
  typedef logic t_axi4_rd_addr_ready;
  typedef logic t_axi4_rd_resp_ready;

  typedef logic [2:0] t_axi4_prot_encoding;
  typedef logic [3:0] t_axi4_qos_encoding;
  typedef logic [3:0] t_axi4_arcache_encoding;
  typedef logic [3:0] t_axi4_awcache_encoding;
  typedef logic [1:0] t_axi4_lock_encoding;

  typedef enum logic [2:0] {
    esize_128  = 3'd4,
    esize_256  = 3'd5,
    esize_512  = 3'd6,
    esize_1024 = 3'd7
  } t_axi4_burst_size_encoding;

  typedef enum logic [1:0] {
    eburst_FIXED = 2'd0,
    eburst_INCR  = 2'd1,
    eburst_WRAP  = 2'd2,
    eburst_RSVD  = 2'd3
  } t_axi4_burst_encoding;

  typedef enum logic [1:0] {
    eresp_OKAY   = 2'd0,
    eresp_EXOKAY = 2'd1,
    eresp_SLVERR = 2'd2,
    eresp_DECERR = 2'd3
  } t_axi4_resp_encoding;

  // verilator lint_on UNUSEDPARAM

endpackage
