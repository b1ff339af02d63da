// What nkv_inline_channel promises while memory answers no more than it was asked: offers hold until
// they are taken (AXI's rule), no answer is lost or made up, credits never run under or over, and
// neither side's answers, taken or not, hold up the other side. Two credits a side.

module nkv_inline_channel_proof
  import nkv_inline_pkg::*;
(
  input logic       clk_i,
  input logic [3:0] share_i,
  input age_t       age_cycles_i,
  input logic [2:0] least_i,
  input logic [2:0] limit_i,
  input logic       host_valid_i,
  input logic [1:0] host_i,
  input logic       near_valid_i,
  input logic [1:0] near_i,
  input logic       memory_ready_i,
  input logic       answer_valid_i,
  input logic       answer_near_i,
  input logic [1:0] answer_i,
  input logic       host_answer_ready_i,
  input logic       near_answer_ready_i
);

  localparam logic [2:0] Credits = 3'd2;

  logic rst_n = 1'b0;
  logic host_ready, near_ready, memory_valid, memory_near;
  logic host_answer_valid, near_answer_valid;
  logic [1:0] memory, host_answer, near_answer;
  depth_t host_depth, near_depth;
  logic [2:0] least = '0;          // As chosen at the start.
  logic [2:0] limit = '0;

  nkv_inline_channel #(
    .Request(logic [1:0]),
    .Answer(logic [1:0]),
    .HostLimit(2),
    .NearLimit(2)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .share_i,
    .age_cycles_i,
    .near_least_i(depth_t'(least)),
    .limit_i(depth_t'(limit)),
    .host_valid_i,
    .host_ready_o(host_ready),
    .host_i,
    .near_valid_i,
    .near_ready_o(near_ready),
    .near_i,
    .memory_valid_o(memory_valid),
    .memory_ready_i,
    .memory_near_o(memory_near),
    .memory_o(memory),
    .answer_valid_i,
    .answer_near_i,
    .answer_i,
    .host_answer_valid_o(host_answer_valid),
    .host_answer_ready_i,
    .host_answer_o(host_answer),
    .near_answer_valid_o(near_answer_valid),
    .near_answer_ready_i,
    .near_answer_o(near_answer),
    .host_depth_o(host_depth),
    .near_depth_o(near_depth)
  );

  // Index 0: the host, 1: near-data.
  wire [1:0] accepted = {near_valid_i && near_ready, host_valid_i && host_ready};
  wire [1:0] sent = {1'b0, memory_valid && memory_ready_i} << memory_near;
  wire [1:0] came = {1'b0, answer_valid_i} << answer_near_i;
  wire [1:0] answer_valid = {near_answer_valid, host_answer_valid};
  wire [1:0] gone = answer_valid & {near_answer_ready_i, host_answer_ready_i};

  logic [1:0][2:0] waiting = '0;   // Accepted, not at memory yet;
  logic [1:0][2:0] asked = '0;     // at memory;
  logic [1:0][2:0] held = '0;      // answered, the answer not taken yet.
  logic offered = 1'b0;            // In the last cycle, and not taken:
  logic [2:0] offer = '0;          // this.
  logic [1:0] answer_offered = '0;
  logic [1:0][1:0] answer = '0;
  logic flowed = 1'b0;             // Memory was ready in the last cycle,
  logic may = 1'b0;                // and near-data within its bounds.

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) begin
      least <= least_i;
      limit <= limit_i;
    end else begin
      for (int i = 0; i < 2; i++) begin
        waiting[i] <= waiting[i] + 3'(accepted[i]) - 3'(sent[i]);
        asked[i] <= asked[i] + 3'(sent[i]) - 3'(came[i]);
        held[i] <= held[i] + 3'(came[i]) - 3'(gone[i]);
      end
      offered <= memory_valid && !memory_ready_i;
      answer_offered <= answer_valid & ~gone;
      flowed <= memory_ready_i;
      may <= near_depth == '0 || near_depth < depth_t'(least) ||
          host_depth + near_depth < depth_t'(limit);
    end
    offer <= {memory_near, memory};
    answer <= {near_answer, host_answer};
  end

  always_comb begin
    if (rst_n) begin
      assume (!came[0] || asked[0] != '0);
      assume (!came[1] || asked[1] != '0);
      if (offered) a_offer_holds : assert (memory_valid && offer == {memory_near, memory});
      if (answer_offered[0]) a_host_answer_holds : assert (host_answer_valid && host_answer == answer[0]);
      if (answer_offered[1]) a_near_answer_holds : assert (near_answer_valid && near_answer == answer[1]);
      a_sends_what_was_asked : assert (!memory_valid || waiting[memory_near] != '0);
      a_host_answers_arrive : assert (host_answer_valid == (held[0] != '0));
      a_near_answers_arrive : assert (near_answer_valid == (held[1] != '0));
      a_host_credits : assert (host_depth == depth_t'(waiting[0] + asked[0] + held[0]));
      a_near_credits : assert (near_depth == depth_t'(waiting[1] + asked[1] + held[1]));
      a_bounded : assert (host_depth <= depth_t'(Credits) && near_depth <= depth_t'(Credits));
      a_near_keeps_its_bounds : assert (!accepted[1] || may);
      if (flowed && host_valid_i && host_depth < depth_t'(Credits) && near_depth == depth_t'(Credits))
        a_near_holds_up_nobody : assert (host_ready);
      if (flowed && near_valid_i && near_depth < depth_t'(Credits) && may &&
          host_depth == depth_t'(Credits))
        a_host_holds_up_nobody : assert (near_ready);
    end
  end

endmodule
