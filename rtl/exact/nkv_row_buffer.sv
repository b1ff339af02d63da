// Puts the bytes of stored rows side by side, wherever in a burst they begin. Takes a row's
// description and its bursts, one per cycle, and keeps up to Slots rows, oldest first.
//
// Granules are 8 bytes; rows are whole numbers of them and start at one. Granule k of a row lies in
// bank k % 8 at place k / 8, so a burst is rotated by the row's start and written at once. The last
// burst stays: a row that begins in it (row_shared_i) does not get it again.
//
// read_i takes one place from every bank, and another one for a second purpose; data are there in
// the next cycle. Of a row only what was stored may be read; the rest is noise.

module nkv_row_buffer
  import nkv_pkg::*;
#(
  parameter int unsigned TagBits = 8,
  parameter int unsigned MaxBytes = 256,  // Longest row.
  parameter int unsigned Slots = 8,
  localparam int unsigned Banks = 8,
  localparam int unsigned Places = MaxBytes / 64,
  localparam int unsigned PlaceBits = $clog2(Places),
  localparam int unsigned SlotBits = $clog2(Slots),
  localparam int unsigned GranuleBits = $clog2(MaxBytes / 8 + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,        // Forgets everything.

  input  logic [GranuleBits-1:0] granules_i,     // Of every row; held.
  input  logic                   row_valid_i,
  output logic                   row_ready_o,    // With the row's last burst.
  input  logic [2:0]             row_start_i,    // Granule of its first burst where it starts.
  input  logic                   row_shared_i,
  input  logic [TagBits-1:0]     row_tag_i,

  input  logic                   burst_valid_i,
  output logic                   burst_ready_o,
  input  burst_t                 burst_i,

  output logic                   row_valid_o,
  input  logic                   row_pop_i,      // After its last read; with it is allowed.
  output logic [TagBits-1:0]     row_tag_o,
  output logic                   idle_o,         // Holds no row, nor a part of one.

  input  logic                   read_i,
  input  logic [PlaceBits-1:0]   read_first_i,
  input  logic [PlaceBits-1:0]   read_second_i,
  output logic [63:0]            first_o[Banks],
  output logic [63:0]            second_o[Banks]
);

  typedef logic [PlaceBits:0] burst_index_t;

  logic [SlotBits:0] taken_q, filled_q, read_q;  // Rows whose bursts are all taken, written, read.
  burst_index_t index_q;                         // Of the row's next burst.
  logic full, is_last, reuses, take;

  assign full = SlotBits'(taken_q - read_q) == '0 && taken_q != read_q;
  assign is_last = 8'({index_q, 3'd0}) + 8'd8 - 8'(row_start_i) >= 8'(granules_i);
  assign reuses = row_shared_i && index_q == '0;
  assign take = row_valid_i && !full && (reuses || burst_valid_i);
  assign row_ready_o = take && is_last;
  assign burst_ready_o = row_valid_i && !full && !reuses;

  // The burst at hand, and which part of which row it is.
  logic held_valid_q, held_last_q;
  burst_index_t held_index_q;
  logic [2:0] held_start_q;
  logic [SlotBits-1:0] held_slot_q;
  logic [63:0] held_q[Banks];
  (* ram_style = "distributed" *) logic [TagBits-1:0] tags[Slots];

  always_ff @(posedge clk_i) begin
    if (take) begin
      if (!reuses) for (int unsigned i = 0; i < Banks; i++) held_q[i] <= burst_i[64*i+:64];
      held_index_q <= index_q;
      held_start_q <= row_start_i;
      held_slot_q <= taken_q[SlotBits-1:0];
      if (is_last) tags[taken_q[SlotBits-1:0]] <= row_tag_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      index_q <= '0;
      held_valid_q <= 1'b0;
      held_last_q <= 1'b0;
      taken_q <= '0;
      filled_q <= '0;
      read_q <= '0;
    end else if (clear_i) begin
      index_q <= '0;
      held_valid_q <= 1'b0;
      held_last_q <= 1'b0;
      taken_q <= '0;
      filled_q <= '0;
      read_q <= '0;
    end else begin
      held_valid_q <= take;
      held_last_q <= take && is_last;
      if (take) index_q <= is_last ? '0 : index_q + 1'b1;
      if (take && is_last) taken_q <= taken_q + 1'b1;
      if (held_last_q) filled_q <= filled_q + 1'b1;
      if (row_pop_i) read_q <= read_q + 1'b1;
    end
  end

  // Bank b takes the burst's granule b + start. Those that wrap belong to the place before; before
  // the first place there is the last number a place can have, which lies beyond every row.
  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    (* ram_style = "distributed" *) logic [63:0] cells[Slots*Places];
    logic wraps, writes;
    burst_index_t place;

    assign wraps = 4'(b) + 4'(held_start_q) >= 4'd8;
    assign place = held_index_q - burst_index_t'(wraps);
    assign writes = held_valid_q && 8'({place, 3'(b)}) < 8'(granules_i);

    always_ff @(posedge clk_i) begin
      if (writes) cells[{held_slot_q, place[PlaceBits-1:0]}] <= held_q[3'(b) + held_start_q];
      if (read_i) begin
        first_o[b] <= cells[{read_q[SlotBits-1:0], read_first_i}];
        second_o[b] <= cells[{read_q[SlotBits-1:0], read_second_i}];
      end
    end
  end

  assign row_valid_o = filled_q != read_q;
  assign row_tag_o = tags[read_q[SlotBits-1:0]];
  assign idle_o = taken_q == read_q && index_q == '0;

endmodule
