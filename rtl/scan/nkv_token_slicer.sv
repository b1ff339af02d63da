// Turns bursts of a plane into beats of 4 tokens with up to 128 bits each. A token takes
// head_dim / 8 bytes, so a beat takes `blocks` units of 8 bytes out of the 8 of a burst, often
// across two bursts. What follows a beat's channels is zero.
//
// A beat leaves 3 cycles after its burst (the latter of two) was taken. At 128 channels one burst
// is one beat. Granules (5.4) begin and end at burst boundaries, so the first token is taken from
// the tag of the burst that begins one.

module nkv_token_slicer
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [3:0] blocks_i,     // head_dim / 16

  input  logic       burst_valid_i,
  output logic       burst_ready_o,
  input  burst_t     burst_data_i,
  input  burst_tag_t burst_tag_i,

  input  logic       go_i,         // A beat may be begun in this cycle
  output logic       begun_o,      // One is
  output logic       begun_last_o, // The last of its page

  output logic                beat_valid_o,
  output logic [Channels-1:0] beat_bits_o[PlaneTokens],
  output planes_t             beat_plane_o,
  output quad_t               beat_quad_o,
  output logic                beat_last_o
);

  localparam int unsigned Units = 8;

  // The burst of which a part is left, from unit position_q on.
  logic [63:0] held_q[Units];
  logic        holds_q, held_last_q;
  logic [2:0]  position_q;
  planes_t     plane_q;
  quad_t       quad_q;

  wire [2:0] position = holds_q ? position_q : 3'd0;
  wire [3:0] end_position = {1'b0, position} + blocks_i;
  wire       takes = !holds_q || end_position > 4'd8;
  wire       begins = go_i && (burst_valid_i || !takes);
  wire planes_t plane = holds_q ? plane_q : burst_tag_i.plane;
  wire quad_t quad = holds_q ? quad_q + 1'b1 : burst_tag_i.quad;
  wire       ends_burst = end_position == 4'd8;
  wire       last = ends_burst && (holds_q ? held_last_q : burst_tag_i.last);
  assign burst_ready_o = go_i && takes;
  assign begun_o = begins;
  assign begun_last_o = last;

  // Valid of registers _1.._3.
  logic [3:1] valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      holds_q <= 1'b0;
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[2:1], begins};
      if (begins) holds_q <= !ends_burst;
    end
  end

  // 1, 2: rotation to unit 0, by 4 and by 0..3. 3: a token to each lane.
  logic [63:0] coarse_1[Units], fine_2[Units];
  logic [1:0] turn_1;
  logic [PlaneTokens-1:0][Channels-1:0] bits_3;
  planes_t plane_1, plane_2, plane_3;
  quad_t quad_1, quad_2, quad_3;
  logic last_1, last_2, last_3;

  always_ff @(posedge clk_i) begin
    if (begins) begin
      position_q <= end_position[2:0];
      plane_q <= plane;
      quad_q <= quad;
      if (takes) begin
        for (int u = 0; u < int'(Units); u++) held_q[u] <= burst_data_i[64*u+:64];
        held_last_q <= burst_tag_i.last;
      end
      for (int u = 0; u < int'(Units); u++) begin
        logic from_held_near, from_held_far;
        from_held_near = holds_q && 3'(u) >= position;
        from_held_far = holds_q && 3'(u ^ 4) >= position;
        coarse_1[u] <= position[2] ?
            (from_held_far ? held_q[u^4] : burst_data_i[64*(u^4)+:64]) :
            (from_held_near ? held_q[u] : burst_data_i[64*u+:64]);
      end
      turn_1 <= position[1:0];
      plane_1 <= plane;
      quad_1 <= quad;
      last_1 <= last;
    end
    if (valid_q[1]) begin
      for (int u = 0; u < int'(Units); u++) begin
        unique case (turn_1)
          2'd0: fine_2[u] <= coarse_1[u];
          2'd1: fine_2[u] <= coarse_1[(u+1)%Units];
          2'd2: fine_2[u] <= coarse_1[(u+2)%Units];
          default: fine_2[u] <= coarse_1[(u+3)%Units];
        endcase
      end
      plane_2 <= plane_1;
      quad_2 <= quad_1;
      last_2 <= last_1;
    end
    if (valid_q[2]) begin
      for (int t = 0; t < int'(PlaneTokens); t++) begin
        for (int k = 0; k < int'(Channels / 16); k++) begin
          logic [15:0] chunk;
          chunk = '0;
          for (int n = k + 1; n <= int'(Channels / 16); n++) begin
            if (blocks_i == 4'(n)) chunk = fine_2[(t*n+k)/4][16*((t*n+k)%4)+:16];
          end
          bits_3[t][16*k+:16] <= chunk;
        end
      end
      plane_3 <= plane_2;
      quad_3 <= quad_2;
      last_3 <= last_2;
    end
  end

  assign beat_valid_o = valid_q[3];
  for (genvar t = 0; t < PlaneTokens; t++) begin : gen_bits
    assign beat_bits_o[t] = bits_3[t];
  end
  assign beat_plane_o = plane_3;
  assign beat_quad_o = quad_3;
  assign beat_last_o = last_3;

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, burst_tag_i.kind};
  // verilator lint_on UNUSEDSIGNAL

endmodule
