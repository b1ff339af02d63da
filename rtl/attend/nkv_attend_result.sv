// Writes what ATTEND returns: O [rows][value_dim] as binary32 or bf16, then LSE and bound [rows] as
// binary32, each part from a burst boundary on (ARITHMETIC.md 4.1). The bound of an exact result is 0.

module nkv_attend_result
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned ChannelBits = $clog2(Channels)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,

  input  logic                   start_i,           // Sums stand; all that follows is held.
  input  logic [63:0]            address_i,         // Of the result in the window.
  input  group_t                 rows_i,
  input  dim_t                   value_dim_i,
  input  logic                   bf16_i,
  input  logic                   base2_i,
  input  exponent_t              value_exponent_i,  // Ev
  input  reference_t             reference_i[Rows], // M
  input  sum_t                   z_i[Rows],
  output logic                   done_o,            // For one cycle: everything has been handed on.

  output logic                   read_valid_o,      // Of acc.
  output row_index_t             read_row_o,
  output logic [ChannelBits-1:0] read_channel_o,
  input  logic                   acc_valid_i,
  input  sum_t                   acc_i,

  output logic                   write_valid_o,
  input  logic                   write_ready_i,
  output write_request_t         write_o
);

  typedef enum logic [2:0] {
    StIdle,
    StOutputs,   // Reads sums, divides, packs.
    StSums,      // One LSE at a time.
    StLse,
    StBound
  } state_e;

  state_e state_q;

  // ---- Sums are read a few at a time, so that no quotient ever waits for memory ----
  localparam int unsigned Room = 4;    // Bursts that may wait to be written.
  localparam int unsigned InFlight = 48;
  row_index_t row_q;
  logic [ChannelBits-1:0] channel_q;
  logic       reading_q;
  logic [5:0] in_flight_q;
  logic [$clog2(2*Room):0] packed_used;
  wire last_channel = dim_t'(channel_q) + 1'b1 == value_dim_i;
  wire last_row = group_t'(row_q) + 1'b1 == rows_i;
  wire read = reading_q && in_flight_q < 6'(InFlight) &&
      packed_used <= ($clog2(2*Room) + 1)'(Room);

  assign read_valid_o = read;
  assign read_row_o = row_q;
  assign read_channel_o = channel_q;

  // A sum follows its read by a fixed time: its row and whether it is the last go along.
  typedef struct packed {
    row_index_t row;
    logic       last;
  } asked_t;
  asked_t asked;
  logic unused_asked_valid, unused_asked_ready;
  logic [3:0] unused_asked_used;
  nkv_fifo #(
    .T(asked_t),
    .Depth(8)
  ) u_asked (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (read),
    .in_ready_o (unused_asked_ready),
    .in_data_i  ('{row: row_q, last: last_row && last_channel}),
    .out_valid_o(unused_asked_valid),
    .out_ready_i(acc_valid_i),
    .out_data_o (asked),
    .used_o     (unused_asked_used)
  );

  logic        quotient_valid, quotient_last;
  logic [31:0] quotient;
  nkv_result #(
    .TagBits(1)
  ) u_quotients (
    .clk_i,
    .rst_ni,
    .value_exponent_i,
    .bf16_i,
    .valid_i (acc_valid_i),
    .tag_i   (asked.last),
    .acc_i,
    .z_i     (z_i[asked.row]),
    .valid_o (quotient_valid),
    .tag_o   (quotient_last),
    .output_o(quotient)
  );

  // ---- Words into bursts ----
  localparam int unsigned Words = BurstBytes / 4;
  logic [31:0] word_q[Words];
  logic [15:0] low_q;          // The first bf16 of a word.
  logic        half_q;
  logic [$clog2(Words):0] filled_q;

  wire        element_valid = state_q == StOutputs ? quotient_valid : sum_done;
  wire        element_last = state_q == StOutputs ? quotient_last : last_row;
  wire [31:0] element = state_q == StOutputs ? quotient : lse;
  wire        is_half = bf16_i && state_q == StOutputs;
  wire        word_done = element_valid && (!is_half || half_q || element_last);
  wire [31:0] word = !is_half ? element : half_q ? {element[15:0], low_q} : {16'b0, element[15:0]};
  wire        burst_done = word_done && (element_last || filled_q == ($clog2(Words) + 1)'(Words - 1));
  wire        odd_end = is_half && element_last && !half_q;

  typedef struct packed {
    logic [6:0] bytes;
    burst_t     data;
  } burst_out_t;
  burst_out_t packed_in, packed_out;
  logic packed_valid, packed_pop, unused_packed_ready;

  always_comb begin
    packed_in = '0;
    for (int unsigned i = 0; i < Words; i++) begin
      if (($clog2(Words) + 1)'(i) < filled_q) packed_in.data[32*i+:32] = word_q[i];
      else if (($clog2(Words) + 1)'(i) == filled_q) packed_in.data[32*i+:32] = word;
    end
    packed_in.bytes = {filled_q, 2'b0} + (odd_end ? 7'd2 : 7'd4);
  end

  nkv_fifo #(
    .T(burst_out_t),
    .Depth(2 * Room)
  ) u_packed (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (burst_done),
    .in_ready_o (unused_packed_ready),
    .in_data_i  (packed_in),
    .out_valid_o(packed_valid),
    .out_ready_i(packed_pop),
    .out_data_o (packed_out),
    .used_o     (packed_used)
  );

  // ---- Log-sum-exps ----
  logic        sum_start, sum_done;
  logic [31:0] lse;
  nkv_log_sum_exp u_lse (
    .clk_i,
    .rst_ni,
    .start_i    (sum_start),
    .base2_i,
    .reference_i(reference_i[row_q]),
    .z_i        (z_i[row_q]),
    .done_o     (sum_done),
    .result_o   (lse)
  );
  assign sum_start = state_q == StSums;

  // ---- Writes ----
  logic [63:0] address_q;
  wire  bound_write = state_q == StBound && !packed_valid;
  wire [6:0] bound_bytes = {1'b0, 6'(rows_i) << 2};
  wire [6:0] bytes = bound_write ? bound_bytes : packed_out.bytes;

  assign write_valid_o = packed_valid || bound_write;
  assign packed_pop = write_ready_i;
  assign write_o = '{
      address: address_q,
      strobes: ~({BurstBytes{1'b1}} << bytes),
      data: bound_write ? '0 : packed_out.data
  };
  wire wrote = write_valid_o && write_ready_i;

  always_ff @(posedge clk_i) begin
    if (element_valid && is_half && !half_q) low_q <= element[15:0];
    if (word_done) word_q[filled_q[$clog2(Words)-1:0]] <= word;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      row_q <= '0;
      channel_q <= '0;
      reading_q <= 1'b0;
      in_flight_q <= '0;
      half_q <= 1'b0;
      filled_q <= '0;
      address_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      reading_q <= 1'b0;
      in_flight_q <= '0;
      half_q <= 1'b0;
      filled_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (state_q == StOutputs) in_flight_q <= in_flight_q + 6'(read) - 6'(quotient_valid);
      if (element_valid) half_q <= is_half && !half_q && !element_last;
      if (word_done) filled_q <= burst_done ? '0 : filled_q + 1'b1;
      if (wrote) address_q <= address_q + 64'(BurstBytes);
      if (read) begin
        channel_q <= last_channel ? '0 : channel_q + 1'b1;
        if (last_channel) row_q <= row_q + 1'b1;
        if (last_channel && last_row) reading_q <= 1'b0;
      end
      unique case (state_q)
        StIdle: begin
          row_q <= '0;
          channel_q <= '0;
          address_q <= address_i;
          if (start_i) begin
            state_q <= StOutputs;
            reading_q <= 1'b1;
          end
        end
        StOutputs: begin
          if (quotient_valid && quotient_last) begin
            state_q <= StSums;
            row_q <= '0;
          end
        end
        StSums: state_q <= StLse;
        StLse: begin
          if (sum_done) begin
            state_q <= last_row ? StBound : StSums;
            row_q <= row_q + 1'b1;
          end
        end
        StBound: begin
          if (bound_write && write_ready_i) begin
            state_q <= StIdle;
            done_o <= 1'b1;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

endmodule
