// One lane of a row's histogram: 4,096 bins that are told from those of earlier commands by a
// stamp, and 64 coarse bins that are cleared. One token per cycle, or one bin made fit for this
// command (count nothing), also where the same bin comes again and again.
//
// Counts of bins stick at 16,383, which is beyond any count that is asked for.

module nkv_histogram
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [3:0] stamp_i,

  input  logic       valid_i,
  input  bin_t       bin_i,
  input  logic       counts_i,  // Else the bin is only stamped
  input  logic       forget_i,  // Whatever its stamp says

  input  logic       clear_i,   // Coarse bin clear_bin_i, while no token comes
  input  logic [5:0] clear_bin_i,

  // Reading, while no token is on its way: bin after 3 cycles, coarse bin after 1.
  input  logic        read_i,
  input  bin_t        read_bin_i,
  output logic [13:0] count_o,
  input  logic        read_coarse_i,
  input  logic [5:0]  read_coarse_bin_i,
  output coarse_count_t coarse_o
);

  localparam int unsigned Bins = nkv_abi_pkg::HistogramBins;
  typedef struct packed {
    logic [3:0]  stamp;
    logic [13:0] count;
  } word_t;

  // 0: address. 1, 2: memory output, twice registered. 3: written. 4, 5: what the word in 2 may
  // have missed.
  (* ram_style = "block" *) word_t words[Bins];
  word_t word_1, word_2, new_3;
  logic [13:0] new_4, new_5;
  logic [4:1] valid_q;
  bin_t bin_1, bin_2, bin_3, bin_4;
  logic counts_1, counts_2, forget_1, forget_2;
  logic [2:0] hits_2;  // The bin of 2 is that of 3, 4, 5
  logic [13:0] kept_2;
  wire bin_t address = read_i ? read_bin_i : bin_i;

  always_comb begin
    kept_2 = word_2.stamp == stamp_i && !forget_2 ? word_2.count : '0;
    if (hits_2[0]) kept_2 = new_3.count;
    else if (hits_2[1]) kept_2 = new_4;
    else if (hits_2[2]) kept_2 = new_5;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[3:1], valid_i};
  end

  logic read_1, read_2;
  always_ff @(posedge clk_i) begin
    read_1 <= read_i;
    read_2 <= read_1;
    if (valid_i || read_i) word_1 <= words[address];
    if (valid_q[3]) words[bin_3] <= new_3;
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      bin_1 <= bin_i;
      counts_1 <= counts_i;
      forget_1 <= forget_i;
    end
    if (valid_q[1] || read_1) word_2 <= word_1;
    if (valid_q[1]) begin
      bin_2 <= bin_1;
      counts_2 <= counts_1;
      forget_2 <= forget_1;
      hits_2 <= {valid_q[4] && bin_4 == bin_1, valid_q[3] && bin_3 == bin_1,
                 valid_q[2] && bin_2 == bin_1};
    end
    if (valid_q[2]) begin
      bin_3 <= bin_2;
      new_3.stamp <= stamp_i;
      new_3.count <= kept_2 + 14'(counts_2 && kept_2 != '1);
    end
    if (valid_q[3]) begin
      bin_4 <= bin_3;
      new_4 <= new_3.count;
    end
    if (valid_q[4]) new_5 <= new_4;
    if (read_2) count_o <= word_2.stamp == stamp_i ? word_2.count : '0;
  end

  // Coarse bins: read, added to and written in one cycle.
  (* ram_style = "distributed" *) coarse_count_t coarse[64];
  wire [5:0] coarse_at = clear_i ? clear_bin_i : read_coarse_i ? read_coarse_bin_i : bin_1[11:6];
  wire coarse_count_t coarse_old = coarse[coarse_at];

  always_ff @(posedge clk_i) begin
    if (clear_i) coarse[coarse_at] <= '0;
    else if (valid_q[1] && counts_1) coarse[coarse_at] <= coarse_old + 1'b1;
    if (read_coarse_i) coarse_o <= coarse_old;
  end

endmodule
