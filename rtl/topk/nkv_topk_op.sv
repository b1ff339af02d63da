// The operation of the plane stage that a step of TOPK, or of ATTEND TAIL's search, asks for; none of
// them: a plane that refines.

module nkv_topk_op
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_scan_pkg::op_t;
  import nkv_scan_pkg::planes_t;
(
  input  topk_command_t command_i,
  input  logic          tail_i,
  input  logic          bounded_i,
  input  exponent_t     key_exponent_i,
  input  planes_t       scan_planes_i,  // L0
  input  planes_t       planes_i,       // That midpoints have.
  input  logic [PageIndexBits:0] pages_i,
  input  logic [13:0]   count_i,        // Of a threshold.

  input  logic          starts_i,
  input  logic          scans_i,
  input  logic          threshold_i,
  input  logic          best_i,
  input  logic          freeze_i,
  input  logic          alive_i,
  output op_t           op_o
);

  wire refines = !starts_i && !scans_i && !threshold_i && !best_i && !freeze_i && !alive_i;

  always_comb begin
    op_o = '0;
    op_o.settings = '{
        rows: group_t'(command_i.group),
        blocks: command_i.head_dim[7:4],
        planes: scan_planes_i,
        statistical: !tail_i && command_i.mode == SelectStatistical,
        z: command_i.z == '0 ? 8'd64 : command_i.z,
        key_exponent: key_exponent_i,
        tail: tail_i,
        no_best: tail_i && (bounded_i || command_i.top_k == '0)
    };
    op_o.pages = pages_i;
    op_o.planes = refines ? planes_i + 3'd1 : planes_i;
    op_o.count = count_i;
    unique case (1'b1)
      starts_i: op_o.op = nkv_scan_pkg::OpStart;
      scans_i: op_o.op = nkv_scan_pkg::OpScan;
      threshold_i: op_o.op = nkv_scan_pkg::OpThreshold;
      best_i: op_o.op = nkv_scan_pkg::OpBest;
      freeze_i: op_o.op = nkv_scan_pkg::OpFreeze;
      alive_i: op_o.op = nkv_scan_pkg::OpAlive;
      default: op_o.op = nkv_scan_pkg::OpRefine;
    endcase
  end

  wire unused = ^command_i;

endmodule
