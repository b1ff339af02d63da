// Exact counters: one of 16 bits for each unit of the memory, for memories whose counters fit on
// chip (CounterWidth + TagBits bits a unit). One access per cycle, whatever its unit.
//
// A unit is hot with its access number threshold_i of an epoch: once an epoch, as counts stick at
// their largest. With restart_i (always-on mode) its counter begins again at zero, so that it is
// hot with every further threshold_i accesses. The access that made it hot comes out 3 cycles after
// it came in. Accesses while busy_o are not counted (nkv_chmu_sweep).

module nkv_chmu_exact
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned Units = 4096,
  parameter int unsigned TagBits = 16,
  localparam int unsigned UnitBits = $clog2(Units)
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic   clear_i,
  input  logic   epoch_i,
  output logic   busy_o,
  input  count_t threshold_i,  // At least 1. Changes only while nothing is under way, as restart_i.
  input  logic   restart_i,

  input  logic                valid_i,
  input  logic [UnitBits-1:0] unit_i,  // Less than Units

  output logic                hot_valid_o,
  output logic [UnitBits-1:0] hot_unit_o,
  output count_t              hot_count_o
);

  typedef logic [TagBits-1:0] tag_t;
  typedef logic [UnitBits-1:0] unit_t;
  typedef struct packed {
    tag_t   tag;
    count_t count;
  } word_t;

  tag_t tag;
  logic sweep;
  unit_t sweep_at;
  nkv_chmu_sweep #(
    .Words(Units),
    .TagBits(TagBits)
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

  // 0: address. 1, 2: memory output, twice registered. 3: written. 4, 5: what the word in 2 may
  // have missed.
  (* ram_style = "block" *) word_t words[Units];
  word_t word_1;
  logic [4:1] valid_q;
  unit_t unit_1, unit_2, unit_3, unit_4;
  tag_t tag_1, tag_2, tag_3, tag_4;
  count_t count_2, count_3, count_4, count_5;
  logic [2:0] hits_2;   // The unit of 2 is that of 3, 4, 5
  logic [2:0] fresh_2;  // and so is the epoch.
  count_t kept_2, below_q;
  logic hot_2, hot_3;

  always_comb begin
    kept_2 = count_2;
    if (hits_2[0]) kept_2 = fresh_2[0] ? count_3 : '0;
    else if (hits_2[1]) kept_2 = fresh_2[1] ? count_4 : '0;
    else if (hits_2[2]) kept_2 = fresh_2[2] ? count_5 : '0;
  end
  assign hot_2 = kept_2 == below_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[3:1], valid_i && !busy_o};
  end

  wire write = sweep || valid_q[3];
  wire unit_t write_at = sweep ? sweep_at : unit_3;
  wire word_t write_word = sweep ? '0 : '{tag: tag_3, count: count_3};
  always_ff @(posedge clk_i) begin
    if (valid_i) word_1 <= words[unit_i];
    if (write) words[write_at] <= write_word;
  end

  always_ff @(posedge clk_i) begin
    below_q <= threshold_i - 1'b1;
    if (valid_i) begin
      unit_1 <= unit_i;
      tag_1 <= tag;
    end
    if (valid_q[1]) begin
      unit_2 <= unit_1;
      tag_2 <= tag_1;
      count_2 <= word_1.tag == tag_1 ? word_1.count : '0;
      hits_2 <= {valid_q[4] && unit_4 == unit_1, valid_q[3] && unit_3 == unit_1,
                 valid_q[2] && unit_2 == unit_1};
      fresh_2 <= {tag_4 == tag_1, tag_3 == tag_1, tag_2 == tag_1};
    end
    if (valid_q[2]) begin
      unit_3 <= unit_2;
      tag_3 <= tag_2;
      count_3 <= hot_2 && restart_i ? '0 : kept_2 + count_t'(kept_2 != '1);
      hot_3 <= hot_2;
    end
    if (valid_q[3]) begin
      unit_4 <= unit_3;
      tag_4 <= tag_3;
      count_4 <= count_3;
    end
    if (valid_q[4]) count_5 <= count_4;
  end

  assign hot_valid_o = valid_q[3] && hot_3;
  assign hot_unit_o = unit_3;
  assign hot_count_o = threshold_i;

endmodule
