// Asks for the source rows of an APPEND: page after page, its value rows if it stores any, then its
// key rows, each row with a read of its own. One row per cycle while memory takes requests.

`include "nkv_assert.svh"

module nkv_source_fetch
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,
  input  append_command_t command_i,        // Checked; held from start_i on.
  input  logic            stop_i,           // Asks for no further row.
  output logic            idle_o,           // Every row that was asked for has come.

  output logic            request_valid_o,
  input  logic            request_ready_i,
  output read_request_t   request_o,
  input  logic            row_taken_i       // The last burst of a row has been taken.
);

  localparam int unsigned PageCountBits = PageIndexBits + 1;
  localparam int unsigned DueBits = $clog2(Outstanding) + 2;

  logic        active_q, keys_q;
  token_t      row_q;
  logic [PageCountBits-1:0] pages_left_q;
  logic [63:0] key_address_q, value_address_q;
  logic [DueBits-1:0] due_q;

  wire has_values = command_i.v_form != RowFormNone;
  wire sent = request_valid_o && request_ready_i;
  wire tensor_ends = sent && row_q == '1;
  wire [31:0] key_bytes = source_row_bytes(
      command_i.dtype, command_i.head_dim, command_i.flags[AppendFlagKeyScales]);
  wire [31:0] value_bytes = source_row_bytes(command_i.dtype, command_i.value_dim, 1'b0);
  wire [63:0] address = keys_q ? key_address_q : value_address_q;

  assign request_valid_o = active_q && !stop_i && due_q != '1;
  assign request_o = '{
      tag: '{sink: SinkRows, last_bytes: 7'(BurstBytes), default: '0},
      bursts: bursts_of((keys_q ? key_bytes : value_bytes) + 32'(address[5:0])),
      address: address
  };
  assign idle_o = due_q == '0 && (!active_q || stop_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {active_q, keys_q, row_q, pages_left_q, key_address_q, value_address_q, due_q} <= '0;
    end else if (clear_i) begin
      active_q <= 1'b0;
      due_q <= '0;
    end else begin
      due_q <= due_q + DueBits'(sent) - DueBits'(row_taken_i);
      if (start_i) begin
        active_q <= 1'b1;
        keys_q <= !has_values;
        row_q <= '0;
        pages_left_q <= PageCountBits'(command_i.tokens >> TokenBits);
        key_address_q <= command_i.keys;
        value_address_q <= command_i.values;
      end else if (stop_i) begin
        active_q <= 1'b0;
      end else if (sent) begin
        row_q <= row_q + 1'b1;
        if (keys_q) key_address_q <= key_address_q + 64'(command_i.key_stride);
        else value_address_q <= value_address_q + 64'(command_i.value_stride);
        if (tensor_ends && has_values) keys_q <= !keys_q;
        if (tensor_ends && keys_q) begin
          pages_left_q <= pages_left_q - 1'b1;
          if (pages_left_q == PageCountBits'(1)) active_q <= 1'b0;
        end
      end
    end
  end

  wire unused = ^command_i;

  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o, clear_i || start_i || stop_i)

endmodule
