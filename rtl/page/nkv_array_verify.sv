// Compares the checksums of arrays that stream by with what their page headers say. Takes a burst per
// cycle and never holds the stream up; expectations come before the first burst of their array.
// Reports each array that is wrong or poisoned; the engine keeps the first page.

`include "nkv_assert.svh"

module nkv_array_verify
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
#(
  parameter int unsigned Depth = 64       // Arrays that may be on their way.
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  input  logic          expect_valid_i,
  output logic          expect_ready_o,
  input  logic          expect_nothing_i,
  input  logic [31:0]   expect_crc_i,
  input  list_index_t   expect_index_i,

  input  logic          beat_valid_i,     // Bursts of whole arrays, as they are taken by their users.
  input  read_beat_t    beat_i,

  output logic          failed_o,         // For one cycle per array,
  output page_failure_t failure_o,
  output logic          idle_o            // Nothing is expected any more.
);

  typedef struct packed {
    logic        nothing;
    logic [31:0] crc;
    list_index_t index;
  } expected_t;

  logic      expected_valid, settle;
  expected_t expected;
  logic [$clog2(Depth):0] expected_used;
  nkv_fifo #(
    .T(expected_t),
    .Depth(Depth)
  ) u_expected (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (expect_valid_i),
    .in_ready_o (expect_ready_o),
    .in_data_i  ('{nothing: expect_nothing_i, crc: expect_crc_i, index: expect_index_i}),
    .out_valid_o(expected_valid),
    .out_ready_i(settle),
    .out_data_o (expected),
    .used_o     (expected_used)
  );
  assign idle_o = expected_used == '0;

  // ---- Sums, and whether a burst of the array was poisoned ----
  logic        sum_valid;
  logic [31:0] sum;
  nkv_crc32c u_crc (
    .clk_i,
    .rst_ni,
    .valid_i(beat_valid_i),
    .first_i(beat_i.first),
    .last_i (beat_i.last),
    .data_i (beat_i.data),
    .bytes_i(beat_i.last ? beat_i.tag.last_bytes : 7'(BurstBytes)),
    .valid_o(sum_valid),
    .crc_o  (sum)
  );

  logic poison_q;
  wire  poison = beat_i.poison || (poison_q && !beat_i.first);

  typedef struct packed {
    logic [31:0] crc;
    logic        poison;
  } ended_t;
  logic   poison_valid, poisoned;
  logic   ended_valid;
  ended_t ended;
  logic   poison_ready, ended_ready;
  logic [4:0] unused_poison_used;
  logic [$clog2(Depth):0] unused_ended_used;

  // Between an array's last burst and its sum.
  nkv_fifo #(
    .T(logic),
    .Depth(16)
  ) u_poison (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i && beat_i.last),
    .in_ready_o (poison_ready),
    .in_data_i  (poison),
    .out_valid_o(poison_valid),
    .out_ready_i(sum_valid),
    .out_data_o (poisoned),
    .used_o     (unused_poison_used)
  );

  // Sums wait here while arrays of no bytes, which came before, are settled.
  nkv_fifo #(
    .T(ended_t),
    .Depth(Depth)
  ) u_ended (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (sum_valid && poison_valid),
    .in_ready_o (ended_ready),
    .in_data_i  ('{crc: sum, poison: poisoned}),
    .out_valid_o(ended_valid),
    .out_ready_i(settle && !expected.nothing),
    .out_data_o (ended),
    .used_o     (unused_ended_used)
  );

  assign settle = expected_valid && (expected.nothing || ended_valid);
  wire wrong = expected.crc != (expected.nothing ? '0 : ended.crc);
  wire poison_ended = !expected.nothing && ended.poison;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      poison_q <= 1'b0;
      failed_o <= 1'b0;
      failure_o <= '0;
    end else begin
      if (beat_valid_i) poison_q <= poison;
      failed_o <= settle && (wrong || poison_ended) && !clear_i;
      if (settle) begin
        failure_o <= '{
            status: poison_ended ? StatusPoison : StatusCorrupt,
            index: expected.index
        };
      end
    end
  end

  wire unused_beat = ^{beat_i.fault, beat_i.tag};

  `NKV_ASSERT_ROOM(PoisonHasRoom_A, beat_valid_i && beat_i.last, poison_ready)
  `NKV_ASSERT_ROOM(EndedHasRoom_A, sum_valid && poison_valid, ended_ready)

endmodule
