// The operations of the plane stage, one at a time: which one runs, what holds for it, and when it is over.

module nkv_scan_order
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      op_valid_i,
  output logic      op_ready_o,
  input  op_t       op_i,
  input  logic      rests_i,            // Takes none now.

  // What operations wait for.
  input  logic      threshold_ready_i,  // OpStart, to begin.
  input  logic      clearing_i,         // OpStart
  input  logic      walking_i,          // OpThreshold
  input  logic      freezing_i,         // OpFreeze
  input  logic      storing_i,          // What pages leave behind.
  input  logic      record_taken_i,
  input  logic      page_done_i,        // All midpoints of a page are made.
  input  logic      chosen_i,           // A page's tokens were given.

  output logic      running_o,
  output op_e       op_o,
  output settings_t settings_o,
  output planes_t   planes_o,           // L0, or those of the operation.
  output logic      records_left_o      // Pages are still to come.
);

  localparam int unsigned DrainCycles = 8;  // From a page's last midpoint to its place in a bin

  logic              started_q, op_done;
  logic [PageBits:0] records_left_q, pages_left_q;
  logic [3:0]        drain_q;
  wire op_accept = op_valid_i && op_ready_o;
  wire chooses = op_o == OpBest || op_o == OpAlive;
  assign op_ready_o = !running_o && !rests_i && (op_i.op != OpStart || threshold_ready_i);
  assign records_left_o = records_left_q != '0;

  always_comb begin
    unique case (op_o)
      OpStart: op_done = !clearing_i;
      OpThreshold: op_done = !walking_i;
      OpFreeze: op_done = !freezing_i;
      OpBest, OpAlive: op_done = pages_left_q == '0;
      default: op_done = pages_left_q == '0 && drain_q == '0 && !storing_i;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_o <= 1'b0;
      started_q <= 1'b0;
      op_o <= OpStart;
      settings_o <= '0;
      planes_o <= '0;
      records_left_q <= '0;
      pages_left_q <= '0;
      drain_q <= '0;
    end else begin
      started_q <= op_accept;
      if (op_accept) begin
        running_o <= 1'b1;
        op_o <= op_i.op;
        if (op_i.op == OpStart) settings_o <= op_i.settings;
        planes_o <= op_i.op == OpScan ? settings_o.planes : op_i.planes;
        records_left_q <= op_i.op == OpScan || op_i.op == OpRefine ? op_i.pages : '0;
        pages_left_q <= op_i.pages;
        drain_q <= '0;
      end else if (running_o) begin
        if (op_done && !started_q) running_o <= 1'b0;
        if (record_taken_i) records_left_q <= records_left_q - 1'b1;
        if (page_done_i || (chooses && chosen_i)) pages_left_q <= pages_left_q - 1'b1;
        if (page_done_i) drain_q <= 4'(DrainCycles);
        else if (drain_q != '0) drain_q <= drain_q - 1'b1;
      end
    end
  end

  wire unused = ^op_i;

endmodule
