// Writes what ATTEND returns: O [rows][value_dim] as binary32 or bf16, then LSE and bound [rows] as
// binary32, each part from a burst boundary on (ARITHMETIC.md 4.1). The bound of an exact result is 0.
// Keeps what it needs of the command, so that the next one may begin; the sums are set aside for it.

`include "nkv_assert.svh"

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
  input  logic                   clear_i,           // CONTROL.RESET

  input  logic                   start_i,           // While not busy_o. The sums are there from now on.
  input  logic [63:0]            address_i,         // Of the result in the window.
  input  group_t                 rows_i,
  input  dim_t                   value_dim_i,
  input  logic                   bf16_i,
  input  logic                   base2_i,
  input  exponent_t              value_exponent_i,  // Ev
  input  reference_t             reference_i[Rows], // M
  output logic                   busy_o,            // Until everything has been handed on.

  input  sum_t                   z_i[Rows],         // Held while busy_o, as the sums are.
  output logic                   read_valid_o,      // Of acc.
  input  logic                   read_ready_i,
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
    StSums,      // The log-sum-exps, once there are all of them.
    StBounds,
    StDrain
  } state_e;

  state_e     state_q;
  row_index_t row_q;
  logic       sums_done_q;
  group_t     rows_q;
  dim_t       value_dim_q;
  logic       bf16_q, base2_q;
  exponent_t  value_exponent_q;
  reference_t reference_q[Rows];
  wire last_row = group_t'(row_q) + 1'b1 == rows_q;
  // A log-sum-exp that was begun before a reset comes to its end.
  assign busy_o = state_q != StIdle || !sums_done_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      rows_q <= rows_i;
      value_dim_q <= value_dim_i;
      bf16_q <= bf16_i;
      base2_q <= base2_i;
      value_exponent_q <= value_exponent_i;
      reference_q <= reference_i;
    end
  end

  // ---- Sums are read a few at a time, so that no quotient ever waits for memory ----
  localparam int unsigned Queue = 64;  // Words that may be on their way to memory.
  localparam int unsigned CountBits = $clog2(Queue) + 1;
  logic [ChannelBits-1:0] channel_q;
  logic                   reading_q;
  logic [CountBits-1:0]   in_flight_q, queued_used;
  wire last_channel = dim_t'(channel_q) + 1'b1 == value_dim_q;
  wire read = read_valid_o && read_ready_i;

  assign read_valid_o = reading_q && in_flight_q + queued_used < CountBits'(Queue);
  assign read_row_o = row_q;
  assign read_channel_o = channel_q;

  // A sum follows its read by a fixed time: its row and whether it is the last go along.
  typedef struct packed {
    row_index_t row;
    logic       last;
  } asked_t;
  asked_t asked;
  logic unused_asked_valid, asked_ready;
  logic [3:0] unused_asked_used;
  nkv_fifo #(
    .T(asked_t),
    .Depth(8)
  ) u_asked (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (read),
    .in_ready_o (asked_ready),
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
    .value_exponent_i(value_exponent_q),
    .bf16_i  (bf16_q),
    .valid_i (acc_valid_i),
    .tag_i   (asked.last),
    .acc_i,
    .z_i     (z_i[asked.row]),
    .valid_o (quotient_valid),
    .tag_o   (quotient_last),
    .output_o(quotient)
  );

  // ---- Log-sum-exps, meanwhile ----
  logic        sum_start_q, sum_done;
  row_index_t  sum_row_q;
  logic [31:0] sum;
  logic [31:0] sum_q[Rows];
  nkv_log_sum_exp u_lse (
    .clk_i,
    .rst_ni,
    .start_i    (sum_start_q),
    .base2_i    (base2_q),
    .reference_i(reference_q[sum_row_q]),
    .z_i        (z_i[sum_row_q]),
    .done_o     (sum_done),
    .result_o   (sum)
  );
  wire last_sum = group_t'(sum_row_q) + 1'b1 == rows_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sum_start_q <= 1'b0;
      sums_done_q <= 1'b1;
      sum_row_q <= '0;
    end else if (clear_i) begin
      sum_start_q <= 1'b0;
      if (sum_done) sums_done_q <= 1'b1;
      sum_row_q <= row_index_t'(rows_q - 1'b1);
    end else if (start_i) begin
      sum_start_q <= 1'b1;
      sums_done_q <= 1'b0;
      sum_row_q <= '0;
    end else begin
      sum_start_q <= sum_done && !last_sum;
      if (sum_done) begin
        sums_done_q <= last_sum;
        sum_row_q <= sum_row_q + 1'b1;
      end
    end
  end
  always_ff @(posedge clk_i) if (sum_done) sum_q[sum_row_q] <= sum;

  // ---- Words: an output, two in bf16 (rows are even), a sum or a bound ----
  typedef struct packed {
    logic        last;  // Of its part.
    logic [31:0] word;
  } word_t;
  word_t       word, queued;
  logic        word_valid, queued_valid, queued_ready, words_ready, packer_idle;
  logic        half_q;  // The first bf16 of a word has come.
  logic [15:0] low_q;

  always_comb begin
    unique case (state_q)
      StOutputs: begin
        word_valid = quotient_valid && (!bf16_q || half_q);
        word = '{last: quotient_last, word: bf16_q ? {quotient[15:0], low_q} : quotient};
      end
      StSums: begin
        word_valid = sums_done_q;
        word = '{last: last_row, word: sum_q[row_q]};
      end
      default: begin
        word_valid = state_q == StBounds;
        word = '{last: last_row, word: '0};
      end
    endcase
  end
  wire word_taken = word_valid && words_ready;

  nkv_fifo #(
    .T(word_t),
    .Depth(Queue)
  ) u_words (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (word_valid),
    .in_ready_o (words_ready),
    .in_data_i  (word),
    .out_valid_o(queued_valid),
    .out_ready_i(queued_ready),
    .out_data_o (queued),
    .used_o     (queued_used)
  );

  nkv_word_packer u_packer (
    .clk_i,
    .rst_ni,
    .start_i,
    .address_i,
    .idle_o       (packer_idle),
    .word_valid_i (queued_valid),
    .word_ready_o (queued_ready),
    .word_i       (queued.word),
    .word_last_i  (queued.last),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  always_ff @(posedge clk_i) begin
    if (quotient_valid) low_q <= quotient[15:0];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      row_q <= '0;
      channel_q <= '0;
      reading_q <= 1'b0;
      in_flight_q <= '0;
      half_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      reading_q <= 1'b0;
      in_flight_q <= '0;
      half_q <= 1'b0;
    end else begin
      in_flight_q <= in_flight_q + CountBits'(read) - CountBits'(quotient_valid);
      if (quotient_valid && bf16_q) half_q <= !half_q;
      if (read) begin
        channel_q <= last_channel ? '0 : channel_q + 1'b1;
        if (last_channel) row_q <= last_row ? '0 : row_q + 1'b1;
        if (last_channel && last_row) reading_q <= 1'b0;
      end
      unique case (state_q)
        StIdle: begin
          // Quotients that were on their way at a reset have come meanwhile.
          in_flight_q <= '0;
          half_q <= 1'b0;
          row_q <= '0;
          channel_q <= '0;
          if (start_i) begin
            state_q <= StOutputs;
            reading_q <= 1'b1;
          end
        end
        StOutputs: if (word_taken && quotient_last) state_q <= StSums;
        StSums, StBounds: begin
          if (word_taken) begin
            row_q <= last_row ? '0 : row_q + 1'b1;
            if (last_row) state_q <= state_q == StSums ? StBounds : StDrain;
          end
        end
        StDrain: if (!queued_valid && packer_idle) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  `NKV_ASSERT_STAYS(ReadStays_A, read_valid_o, read_ready_i, {read_row_o, read_channel_o}, clear_i)
  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, clear_i)
  `NKV_ASSERT_ROOM(AskedHasRoom_A, read, asked_ready)

endmodule
