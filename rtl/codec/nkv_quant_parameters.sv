// The parameters of blocks' groups as an encoder makes and uses them: written one group at a time,
// read for the two chunks of a burst, two cycles later, and by 16 groups as they stand in a block.

module nkv_quant_parameters
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
#(
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotBits = $clog2(Slots)
) (
  input  logic                clk_i,

  input  logic                write_i,
  input  logic [SlotBits-1:0] write_slot_i,
  input  group_t              group_i,
  input  quant_parameters_t   parameters_i,

  input  logic [SlotBits-1:0] slot_i,
  input  logic                is_value_i,
  input  chunk_pair_t         place_i,
  output quant_parameters_t   parameters_o[2*ChunkLanes],

  input  logic [SlotBits-1:0] entry_slot_i,
  input  chunk_t              entry_i,      // Groups 16 entry_i and on.
  input  logic                is_fp8_i,
  output burst_t              entry_o       // With FP8 only the first 16 bytes.
);

  localparam int unsigned LaneBits = $clog2(ChunkLanes);
  typedef logic [LaneBits-1:0] lane_t;

  quant_parameters_t read[2][ChunkLanes];
  quant_parameters_t read_q[2][ChunkLanes];
  logic is_value_q;
  lane_t lane_q[2];
  logic [8*ChunkLanes-1:0] bytes;

  chunk_t entry[2];
  always_comb begin
    for (int unsigned h = 0; h < 2; h++) begin
      entry[h] = is_value_i ? chunk_t'(place_i.token[h] >> LaneBits) : place_i.chunk[h];
    end
  end
  wire unused_last = place_i.last;

  for (genvar i = 0; i < ChunkLanes; i++) begin : gen_lanes
    (* ram_style = "distributed" *) quant_parameters_t cells[Slots*Chunks];
    quant_parameters_t listed;
    always_ff @(posedge clk_i) begin
      if (write_i && group_i[LaneBits-1:0] == lane_t'(i)) begin
        cells[{write_slot_i, group_i[GroupBits-1:LaneBits]}] <= parameters_i;
      end
    end
    assign read[0][i] = cells[{slot_i, entry[0]}];
    assign read[1][i] = cells[{slot_i, entry[1]}];
    assign listed = cells[{entry_slot_i, entry_i}];
    wire unused_reciprocal = ^listed.reciprocal;
    wire [31:0] both = {listed.scale, listed.zero};
    if (i < ChunkLanes / 4) begin : gen_first
      assign entry_o[32*i+:32] = is_fp8_i ? bytes[32*i+:32] : both;
    end else begin : gen_rest
      assign entry_o[32*i+:32] = both;
    end
    assign bytes[8*i+:8] = listed.scale[7:0];
  end

  always_ff @(posedge clk_i) begin
    is_value_q <= is_value_i;
    for (int unsigned h = 0; h < 2; h++) begin
      lane_q[h] <= lane_t'(place_i.token[h]);
      for (int unsigned i = 0; i < ChunkLanes; i++) begin
        read_q[h][i] <= read[h][i];
        parameters_o[ChunkLanes*h+i] <= read_q[h][is_value_q ? lane_q[h] : lane_t'(i)];
      end
    end
  end

endmodule
