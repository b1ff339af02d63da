// Counters in a sketch, for memories of any size: four rows of counters, a unit's place in each by
// a hash of its own; its estimate is the least of its four. One access per cycle, of any unit.
//
// Conservative update: an access raises only those of its counters that hold the least. So an
// estimate is never less than the count (until it sticks at 2**CountBits - 1), and more only where
// other units share all places of the unit (README.md has by how much).
//
// A unit whose estimate has reached threshold_i is hot at its next access, once an epoch: a mark
// beside each counter says that a unit with this place was reported, and a unit with four marks is
// not reported again. Marks of other units hide one as seldom as others share its four places.
//
// The access that made a unit hot comes out 6 cycles after it came in, with the estimate. There is
// no always-on mode: a restart would take counts from other units. Accesses while busy_o are not
// counted (nkv_chmu_sweep).

module nkv_chmu_sketch
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned UnitBits = 22,
  parameter int unsigned RowWords = 32_768,  // A power of two
  parameter int unsigned CountBits = 14,
  parameter int unsigned TagBits = 5         // With mark and count: 20 bits, the width of an M20K.
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic   clear_i,
  input  logic   epoch_i,
  output logic   busy_o,
  input  count_t threshold_i,  // At least 1. Changes only while nothing is under way.

  input  logic                valid_i,
  input  logic [UnitBits-1:0] unit_i,

  output logic                hot_valid_o,
  output logic [UnitBits-1:0] hot_unit_o,
  output count_t              hot_count_o
);

  localparam int unsigned Rows = 4;
  localparam int unsigned PlaceBits = $clog2(RowWords);

  typedef logic [TagBits-1:0] tag_t;
  typedef logic [PlaceBits-1:0] place_t;
  typedef logic [UnitBits-1:0] unit_t;
  typedef logic [CountBits-1:0] small_t;
  typedef struct packed {
    tag_t   tag;
    logic   mark;
    small_t count;
  } word_t;

  tag_t tag;
  logic sweep;
  place_t sweep_at;
  nkv_chmu_sweep #(
    .Words(RowWords),
    .TagBits(TagBits),
    .DrainCycles(8)
  ) u_sweep (
    .clk_i,
    .rst_ni,
    .clear_i,
    .epoch_i,
    .tag_o(tag),
    .busy_o,
    .write_o(sweep),
    .address_o(sweep_at)
  );

  // 0: hash. 1: address. 2, 3: memory output, twice registered. 4: written. 5, 6: what the words in
  // 3 may have missed, and the least of four counts.
  logic [6:1] valid_q;
  unit_t unit_1, unit_2, unit_3, unit_4, unit_5, unit_6;
  tag_t tag_1, tag_2, tag_3, tag_4, tag_5;
  place_t place_0[Rows], place_1[Rows], place_2[Rows], place_3[Rows], place_4[Rows], place_5[Rows];
  word_t word_2[Rows];
  small_t count_3[Rows], count_4[Rows], count_5[Rows], count_6[Rows];
  logic mark_3[Rows], mark_4[Rows], mark_5[Rows], mark_6[Rows];
  logic [2:0] hits_3[Rows];  // The place in 3 is that in 4, 5, 6
  logic [2:0] fresh_3;       // and so is the epoch.

  for (genvar r = 0; r < Rows; r++) begin : g_hash
    for (genvar b = 0; b < PlaceBits; b++) begin : g_bit
      localparam logic [63:0] Mask = hash_mask(r, b);
      assign place_0[r][b] = ^(unit_i & Mask[UnitBits-1:0]);
    end
  end

  small_t kept_3[Rows];
  logic marked_3[Rows];
  logic raise_3[Rows];  // Holds the least.
  logic reached_3, known_3;
  small_t below_q;
  always_comb begin
    reached_3 = 1'b1;
    known_3 = 1'b1;
    for (int r = 0; r < Rows; r++) begin
      kept_3[r] = count_3[r];
      marked_3[r] = mark_3[r];
      if (hits_3[r][0]) begin
        kept_3[r] = fresh_3[0] ? count_4[r] : '0;
        marked_3[r] = fresh_3[0] && mark_4[r];
      end else if (hits_3[r][1]) begin
        kept_3[r] = fresh_3[1] ? count_5[r] : '0;
        marked_3[r] = fresh_3[1] && mark_5[r];
      end else if (hits_3[r][2]) begin
        kept_3[r] = fresh_3[2] ? count_6[r] : '0;
        marked_3[r] = fresh_3[2] && mark_6[r];
      end
    end
    for (int r = 0; r < Rows; r++) begin
      raise_3[r] = 1'b1;
      for (int other = 0; other < Rows; other++) raise_3[r] &= kept_3[r] <= kept_3[other];
      reached_3 &= kept_3[r] >= below_q;
      known_3 &= marked_3[r];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[5:1], valid_i && !busy_o};
  end

  for (genvar r = 0; r < Rows; r++) begin : g_row
    (* ram_style = "block" *) word_t words[RowWords];
    wire write = sweep || valid_q[4];
    wire place_t write_at = sweep ? sweep_at : place_4[r];
    wire word_t write_word = sweep ? '0 : '{tag: tag_4, mark: mark_4[r], count: count_4[r]};
    always_ff @(posedge clk_i) begin
      if (valid_q[1]) word_2[r] <= words[place_1[r]];
      if (write) words[write_at] <= write_word;
    end
  end

  logic hot_4, hot_5, hot_6;
  small_t least_5[2], least_6;
  always_ff @(posedge clk_i) begin
    below_q <= small_t'(threshold_i - 1'b1);
    if (valid_i) begin
      unit_1 <= unit_i;
      tag_1 <= tag;
      place_1 <= place_0;
    end
    if (valid_q[1]) begin
      unit_2 <= unit_1;
      tag_2 <= tag_1;
      place_2 <= place_1;
    end
    if (valid_q[2]) begin
      unit_3 <= unit_2;
      tag_3 <= tag_2;
      place_3 <= place_2;
      fresh_3 <= {tag_5 == tag_2, tag_4 == tag_2, tag_3 == tag_2};
      for (int r = 0; r < Rows; r++) begin
        count_3[r] <= word_2[r].tag == tag_2 ? word_2[r].count : '0;
        mark_3[r] <= word_2[r].tag == tag_2 && word_2[r].mark;
        hits_3[r] <= {valid_q[5] && place_5[r] == place_2[r],
                      valid_q[4] && place_4[r] == place_2[r],
                      valid_q[3] && place_3[r] == place_2[r]};
      end
    end
    if (valid_q[3]) begin
      unit_4 <= unit_3;
      tag_4 <= tag_3;
      place_4 <= place_3;
      hot_4 <= reached_3 && !known_3;
      for (int r = 0; r < Rows; r++) begin
        count_4[r] <= kept_3[r] + small_t'(raise_3[r] && kept_3[r] != '1);
        mark_4[r] <= marked_3[r] || reached_3;
      end
    end
    if (valid_q[4]) begin
      unit_5 <= unit_4;
      tag_5 <= tag_4;
      place_5 <= place_4;
      count_5 <= count_4;
      mark_5 <= mark_4;
      hot_5 <= hot_4;
      for (int i = 0; i < 2; i++) begin
        least_5[i] <= count_4[2*i] < count_4[2*i+1] ? count_4[2*i] : count_4[2*i+1];
      end
    end
    if (valid_q[5]) begin
      unit_6 <= unit_5;
      count_6 <= count_5;
      mark_6 <= mark_5;
      hot_6 <= hot_5;
      least_6 <= least_5[0] < least_5[1] ? least_5[0] : least_5[1];
    end
  end

  assign hot_valid_o = valid_q[6] && hot_6;
  assign hot_unit_o = unit_6;
  assign hot_count_o = count_t'(least_6);

endmodule
