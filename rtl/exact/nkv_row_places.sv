// Where chosen rows of an array lie: for each wanted row, in order, the bursts that hold a byte of it
// and no row before it, and where in its first burst it begins. One row per cycle; rows that are not
// wanted take none.
//
// A row of whole granules of 8 bytes begins at a granule. Its first burst is `shared` with the wanted
// row before it if that row's last burst is this one: then it is not read again.

`include "nkv_assert.svh"

module nkv_row_places
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,

  input  logic                 valid_i,
  output logic                 ready_o,        // With the last row; at once if none is wanted.
  input  token_mask_t          rows_i,
  input  logic [5:0]           granules_i,     // Of each row, 2 to 32.

  output logic                 row_valid_o,
  input  logic                 row_ready_i,
  output logic [TokenBits-1:0] row_o,
  output logic                 row_last_o,     // Of this array.
  output logic [2:0]           row_start_o,    // Granule of its first burst.
  output logic                 row_shared_o,
  output logic [7:0]           row_burst_o,    // First burst that is to be read, in the array,
  output logic [2:0]           row_bursts_o    // and how many; 0 if it lies in the shared one.
);

  typedef logic [TokenBits-1:0] token_t;
  typedef logic [10:0] granule_t;  // In the array.

  function automatic token_t lowest(token_mask_t mask);
    automatic token_t index = '0;
    for (int i = int'(PageTokens) - 1; i >= 0; i--) if (mask[i]) index = token_t'(i);
    return index;
  endfunction

  token_mask_t done_q;        // Rows before the next one.
  logic        any_q;         // A row was given.
  logic [7:0]  last_burst_q;  // Of that row.

  wire token_mask_t left = rows_i & ~done_q;
  wire token_t row = lowest(left);
  wire granule_t first = granule_t'(row) * granule_t'(granules_i);
  wire granule_t last = first + granule_t'(granules_i) - 11'd1;
  wire [7:0] first_burst = first[10:3];
  wire [7:0] last_burst = last[10:3];
  wire shared = any_q && first_burst == last_burst_q;
  wire step = row_valid_o && row_ready_i;

  assign row_valid_o = valid_i && left != '0;
  assign row_o = row;
  assign row_last_o = (left & (left - 1'b1)) == '0;
  assign row_start_o = first[2:0];
  assign row_shared_o = shared;
  assign row_burst_o = shared ? first_burst + 8'd1 : first_burst;
  assign row_bursts_o = 3'(last_burst - row_burst_o + 8'd1);
  assign ready_o = valid_i && (left == '0 || (step && row_last_o));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      done_q <= '0;
      any_q <= 1'b0;
      last_burst_q <= '0;
    end else if (clear_i || ready_o) begin
      done_q <= '0;
      any_q <= 1'b0;
    end else if (step) begin
      // Up to and with this row.
      done_q <= ~({PageTokens{1'b1}} << row) | (token_mask_t'(1) << row);
      any_q <= 1'b1;
      last_burst_q <= last_burst;
    end
  end

  wire unused_last = ^last[2:0];

  `NKV_ASSERT_STAYS(RowStays_A, row_valid_o, row_ready_i, {row_o, row_last_o, row_start_o, row_shared_o,
      row_burst_o, row_bursts_o}, clear_i)

endmodule
