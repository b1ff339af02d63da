// Gains as they lie in memory, at any granule of 8 bytes, to granules that are counted from the
// first one: a granule per cycle.

module nkv_code_gains
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
#(
  localparam int unsigned Granules = Channels / GranuleBytes,
  localparam int unsigned IndexBits = $clog2(Granules)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,       // Before each read.

  input  logic [2:0]           first_i,       // Granule of the first burst that begins them,
  input  logic [IndexBits-1:0] last_i,        // and how many follow it. Held until done_o.
  input  logic                 beat_valid_i,  // The bursts that hold them, and no others.
  output logic                 beat_ready_o,
  input  read_beat_t           beat_i,

  output logic                 valid_o,
  output logic [IndexBits-1:0] index_o,
  output granule_t             gains_o,
  output logic                 done_o,        // For one cycle, when all have been given, or
  output logic                 poisoned_o     // with it: they are not to be used.
);

  logic   held_q, last_q, started_q, poisoned_q;
  burst_t burst_q;
  logic [2:0] at_q;
  logic [IndexBits-1:0] index_q;
  wire takes = beat_valid_i && beat_ready_o;
  wire ends = held_q && (at_q == '1 || index_q == last_i);

  assign beat_ready_o = !held_q;
  assign valid_o = held_q;
  assign index_o = index_q;
  assign gains_o = burst_q[8*GranuleBytes*at_q+:8*GranuleBytes];
  assign done_o = ends && last_q;
  assign poisoned_o = poisoned_q;

  always_ff @(posedge clk_i) begin
    if (takes) burst_q <= beat_i.data;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {held_q, last_q, started_q, poisoned_q, at_q, index_q} <= '0;
    end else if (clear_i) begin
      {held_q, last_q, started_q, poisoned_q, at_q, index_q} <= '0;
    end else begin
      if (takes) begin
        held_q <= 1'b1;
        last_q <= beat_i.last || beat_i.fault;
        started_q <= 1'b1;
        poisoned_q <= poisoned_q || beat_i.poison || beat_i.fault;
        at_q <= started_q ? '0 : first_i;
      end
      if (held_q) begin
        at_q <= at_q + 1'b1;
        if (index_q != last_i) index_q <= index_q + 1'b1;
        if (ends) held_q <= 1'b0;
      end
    end
  end

  wire unused = ^{beat_i.first, beat_i.tag};

endmodule
