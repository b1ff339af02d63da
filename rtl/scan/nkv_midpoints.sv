// Makes midpoints (ARITHMETIC.md, 5.1) out of plane sums and stores them; or sharpens those that
// are stored by one more plane (5.2). 4 tokens of all rows per cycle; midpoints that are made come every
// other cycle at the most, as the histograms take them.
//
// A midpoint is written 7 cycles after its sums have left the queue.

module nkv_midpoints
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic    clk_i,
  input  logic    rst_ni,

  input  logic    refining_i,
  input  planes_t planes_i,          // L0, or the plane that refines
  input  shift_t  shift_i[Rows],
  input  logic    room_i,            // For midpoints that leave the chip.

  // Beats whose sums are whole, and what belongs to their pages.
  input  logic     beat_valid_i,
  output logic     beat_ready_o,
  input  beat_t    beat_i,
  input  page_t    page_i[Slots],
  input  tokens_t  tokens_i[Slots],  // Visible, or alive

  // Sums and offsets of the beat; there in the next cycle.
  output logic     read_o,
  input  partial_t sum_i[Rows][PlaneTokens],
  input  offset_t  offset_i[Rows],

  // The memory.
  output logic       fetch_o,
  output page_t      fetch_page_o,
  output quad_t      fetch_quad_o,
  input  midpoint_t  stored_i[Rows][ScanTokens],
  output logic       write_o,
  output page_t      write_page_o,
  output quad_t      write_quad_o,
  output midpoint_t  write_data_o[Rows][PlaneTokens],
  output logic       write_visible_o[PlaneTokens],
  output logic       page_done_o     // With the last write of a page
);

  localparam int unsigned Stages = 6;
  typedef struct packed {
    logic  last;
    page_t page;
    quad_t quad;
  } stage_t;

  // -32768 stands for no token.
  function automatic midpoint_t clamped(logic signed [21:0] value, logic over, logic negative);
    if (over) return negative ? -MidpointLimit : MidpointLimit;
    if (value[21:15] != {7{value[21]}}) return value[21] ? -MidpointLimit : MidpointLimit;
    return value[15:0] == 16'sh8000 ? 16'sh8001 : value[15:0];
  endfunction

  // ---- Beats, with a cycle of rest behind each whose midpoints are counted ----------------
  logic rests_q;
  assign read_o = beat_valid_i && beat_ready_o;
  assign beat_ready_o = (refining_i || !rests_q) && room_i;

  // A page's tokens stand until its last midpoint is written, so they are looked up in two steps.
  logic [Stages:1] valid_q;
  stage_t stage[1:Stages];
  slot_t slot_1;
  tokens_t tokens_2;
  logic [PlaneTokens-1:0] counts[3:Stages];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rests_q <= 1'b0;
      valid_q <= '0;
    end else begin
      rests_q <= read_o;
      valid_q <= {valid_q[Stages-1:1], read_o};
    end
  end

  always_ff @(posedge clk_i) begin
    if (read_o) begin
      stage[1] <= '{last: beat_i.last, page: page_i[beat_i.slot], quad: beat_i.quad};
      slot_1 <= beat_i.slot;
    end
    for (int i = 2; i <= int'(Stages); i++) if (valid_q[i-1]) stage[i] <= stage[i-1];
    if (valid_q[1]) tokens_2 <= tokens_i[slot_1];
    if (valid_q[2]) counts[3] <= tokens_2[{stage[2].quad, 2'b0}+:PlaneTokens];
    for (int i = 4; i <= int'(Stages); i++) if (valid_q[i-1]) counts[i] <= counts[i-1];
  end

  // ---- offset + sum * 2^(8 - L), shifted right by X --------------------------------------
  // A value that leaves 21 bits before the last three places of the shift is far beyond the midpoints'
  // limit, so its sign is all that is kept of it.
  offset_t value_2[Rows][PlaneTokens], coarse_3[Rows][PlaneTokens];
  logic signed [20:0] fine_4[Rows][PlaneTokens];
  logic over_4[Rows][PlaneTokens];
  wire [1:0] left_shift = -planes_i[1:0];  // 8 - L is 4 at the least.

  always_ff @(posedge clk_i) begin
    if (valid_q[1]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          value_2[r][t] <= offset_i[r] + ((offset_t'(sum_i[r][t]) <<< 4) <<< left_shift);
        end
      end
    end
    if (valid_q[2]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          coarse_3[r][t] <= value_2[r][t] >>> {shift_i[r][3:2], 2'b0};
        end
      end
    end
    if (valid_q[3]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          over_4[r][t] <= coarse_3[r][t][29:20] != {10{coarse_3[r][t][29]}};
          fine_4[r][t] <= signed'({coarse_3[r][t][29], coarse_3[r][t][19:0]}) >>> shift_i[r][1:0];
        end
      end
    end
  end

  // ---- What is stored, where it is wanted -------------------------------------------------
  assign fetch_o = valid_q[1] && refining_i;
  assign fetch_page_o = stage[1].page;
  assign fetch_quad_o = stage[1].quad;

  midpoint_t stored_4[Rows][PlaneTokens], stored_5[Rows][PlaneTokens];
  logic signed [21:0] sum_5[Rows][PlaneTokens];
  logic over_5[Rows][PlaneTokens], negative_5[Rows][PlaneTokens], stays_5[Rows][PlaneTokens];
  midpoint_t result_6[Rows][PlaneTokens];

  always_ff @(posedge clk_i) begin
    if (valid_q[3] && refining_i) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          midpoint_t parts[WordQuads];
          for (int q = 0; q < int'(WordQuads); q++) begin
            parts[q] = stored_i[r][int'(PlaneTokens)*q+t];
          end
          stored_4[r][t] <= parts[stage[3].quad[1:0]];
        end
      end
    end
    if (valid_q[4]) begin
      stored_5 <= stored_4;
      over_5 <= over_4;
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          sum_5[r][t] <= 22'(fine_4[r][t]) + (22'(stored_4[r][t]) & {22{refining_i}});
          negative_5[r][t] <= fine_4[r][t][20];
          stays_5[r][t] <= refining_i && (!counts[4][t] || stored_4[r][t] == MidpointLimit);
        end
      end
    end
    if (valid_q[5]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          if (stays_5[r][t]) result_6[r][t] <= stored_5[r][t];
          else if (!counts[5][t]) result_6[r][t] <= 16'sh8000;
          else result_6[r][t] <= clamped(sum_5[r][t], over_5[r][t], negative_5[r][t]);
        end
      end
    end
  end

  assign write_o = valid_q[6];
  assign write_page_o = stage[6].page;
  assign write_quad_o = stage[6].quad;
  assign write_data_o = result_6;
  assign page_done_o = valid_q[6] && stage[6].last;
  for (genvar t = 0; t < PlaneTokens; t++) begin : gen_visible
    assign write_visible_o[t] = counts[6][t];
  end

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, beat_i, planes_i};
  // verilator lint_on UNUSEDSIGNAL

endmodule
