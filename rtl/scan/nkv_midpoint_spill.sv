// Midpoints of pages that do not stay on chip, on their way to scratch memory: a burst holds 4 tokens of
// all rows, a page 16 bursts, in the order of its tokens.

module nkv_midpoint_spill
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages,
  parameter int unsigned UnderWay = 8       // Writes that still come once there is no room.
) (
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      write_i,                // Of any page.
  input  page_t     page_i,
  input  quad_t     quad_i,
  input  midpoint_t data_i[Rows][PlaneTokens],
  output logic      room_o,                 // For what is begun now.

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o,
  input  logic           written_i,         // Memory has all that was taken.
  output logic           busy_o             // Not all of what came here is in memory.
);

  localparam int unsigned Depth = 4 * UnderWay;
  typedef struct packed {
    page_t  page;
    quad_t  quad;
    burst_t data;
  } spilled_t;
  spilled_t in, out;
  logic unused_ready, room_q;
  logic [$clog2(Depth):0] used;
  wire spills = write_i && !stays(page_i, KeptPages);

  always_comb begin
    in.page = page_i;
    in.quad = quad_i;
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < PlaneTokens; t++) begin
        in.data[16*(PlaneTokens*r+t)+:16] = data_i[r][t];
      end
    end
  end

  nkv_fifo #(
    .T(spilled_t),
    .Depth(Depth)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (spills),
    .in_ready_o (unused_ready),
    .in_data_i  (in),
    .out_valid_o(write_valid_o),
    .out_ready_i(write_ready_i),
    .out_data_o (out),
    .used_o     (used)
  );

  // A cycle late, and so for one more write.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) room_q <= 1'b1;
    else room_q <= used < ($clog2(Depth) + 1)'(Depth - UnderWay - 2);
  end
  assign room_o = room_q;
  assign write_o = '{
      address: midpoints_at(out.page) + 64'({out.quad, 6'b0}),
      strobes: '1,
      data: out.data
  };

  // Only who has spilled waits for memory.
  logic spilled_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) spilled_q <= 1'b0;
    else spilled_q <= spills || write_valid_o || (spilled_q && !written_i);
  end
  assign busy_o = spilled_q;

endmodule
