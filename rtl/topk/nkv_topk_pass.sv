// What a pass of TOPK, or of ATTEND TAIL's search, asks of each page and reads of it: a scan of planes,
// every row, or the rows of visits.

module nkv_topk_pass
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  topk_command_t         command_i,
  input  logic                  tail_i,
  input  logic [15:0]           value_dim_i,
  input  nkv_scan_pkg::planes_t planes_i,   // That a scan reads.
  input  logic                  scan_i,
  input  logic                  full_i,     // Neither: rows of visits.
  output pass_setup_t           pass_o
);

  logic [PageArrayCount-1:0] exponents_only, full_arrays, tail_arrays;
  always_comb begin
    exponents_only = '0;
    exponents_only[PageArrayKExponents] = 1'b1;
    full_arrays = exponents_only;
    full_arrays[PageArrayKRows] = 1'b1;
    full_arrays[PageArrayKeyScales] = 1'b1;
    tail_arrays = exponents_only;
    tail_arrays[PageArrayVExponents] = 1'b1;
  end

  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{
          whole_header: !scan_i,
          any_codec: 1'b0,
          keys: scan_i || full_i,
          values: tail_i && scan_i,
          raw_keys: !tail_i && command_i.mode == SelectIndexer,
          alike: 1'b0,
          any_values: 1'b0,
          head_dim: command_i.head_dim,
          value_dim: value_dim_i
      },
      plan: '{
          whole: full_i ? full_arrays : tail_i ? tail_arrays : exponents_only,
          compressed: 1'b0,
          padding: 1'b0,
          rows: !scan_i && !full_i,
          value_rows: tail_i,
          of_values: 1'b0,
          scan: scan_i,
          planes: planes_i
      },
      erase: 1'b0
  };

  wire unused = ^command_i;

endmodule
