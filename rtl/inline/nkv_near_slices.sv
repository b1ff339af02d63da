// One stream of near-data accesses to all slices, and the slices' answers back in one: at most one
// access and one answer per cycle, however many slices there are. Accesses keep their order; answers
// come as slices have them, slices in turn. Combinational.

module nkv_near_slices
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1,
  parameter type Answer = access_r_t,
  localparam int unsigned SliceBits = Slices > 1 ? $clog2(Slices) : 1
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 valid_i,
  output logic                 ready_o,
  input  logic [SliceBits-1:0] slice_i,         // Where to.
  output logic [Slices-1:0]    valid_o,
  input  logic [Slices-1:0]    ready_i,

  input  logic [Slices-1:0]    answer_valid_i,
  output logic [Slices-1:0]    answer_ready_o,
  input  Answer                answer_i[Slices],
  output logic                 answer_valid_o,  // Taken at once.
  output Answer                answer_o
);

  if (Slices == 1) begin : gen_one
    assign valid_o = valid_i;
    assign ready_o = ready_i;
    assign answer_ready_o = 1'b1;
    assign answer_valid_o = answer_valid_i;
    assign answer_o = answer_i[0];
    wire unused = ^{clk_i, rst_ni, slice_i};
  end else begin : gen_many
    logic [SliceBits-1:0] answering;

    assign valid_o = Slices'(valid_i) << slice_i;
    assign ready_o = ready_i[slice_i];

    nkv_round_robin #(
      .Requests(Slices)
    ) u_turn (
      .clk_i,
      .rst_ni,
      .request_i(answer_valid_i),
      .valid_o  (answer_valid_o),
      .ready_i  (1'b1),
      .grant_o  (answer_ready_o),
      .index_o  (answering)
    );
    assign answer_o = answer_i[answering];
  end

endmodule
