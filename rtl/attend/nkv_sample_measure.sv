// How far off a command's rows may be, from the sums of nkv_value_sum where they grow: step 5 of ARITHMETIC.md
// section 8. Row after row it reads the eight z, then the eight acc of each channel, one sum a cycle; their
// total gives the channel's output, beside which the groups' sums reach nkv_sample_bound. A row of C
// channels takes 8 C + 77 cycles.

module nkv_sample_measure
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
  import nkv_tables_pkg::*;
#(
  localparam int unsigned ChannelBits = $clog2(Channels)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,        // Before each command.

  input  logic                   start_i,        // While idle. What follows is held until done_o,
  input  group_t                 rows_i,         // and the sums stand still.
  input  dim_t                   value_dim_i,
  input  logic [7:0]             sixteenths_i,   // z; 0 means 32.
  input  logic [31:0]            error_i,        // Binary32.

  output logic                   read_valid_o,   // Of nkv_value_sum's set that grows.
  output logic                   read_z_o,
  output row_index_t             read_row_o,
  output logic [ChannelBits-1:0] read_channel_o,
  output sample_group_t          read_sum_o,
  input  sum_t                   acc_i,          // 3 cycles later.

  output logic                   done_o,         // For one cycle; the answers stand until the next start.
  output logic                   known_o[Rows],  // There is a beta:
  output log_t                   log_bound_o[Rows],
  output logic [31:0]            bound_o[Rows],  // 2^beta, else infinity.
  output log_t                   log_error_o,    // lg error
  output logic                   all_within_o    // All rows' beta are known and not above it.
);

  localparam int unsigned ReadLatency = 3;
  // From a group's sum to where it meets the output of its channel: the sums behind it, their total, the
  // quotient.
  localparam int unsigned OutputLatency = 36;
  localparam int unsigned MeetLatency = Groups + OutputLatency;
  localparam logic [7:0] UsualSixteenths = 8'd32;
  localparam sample_group_t LastSum = sample_group_t'(Sums - 1);

  typedef enum logic [1:0] {
    Idle,
    Read,    // The sums of a row.
    Judge    // Until its bound is there.
  } state_e;

  // What is read.
  typedef struct packed {
    logic          valid;
    logic          is_z;
    sample_group_t sum;
    logic          last;  // Of the row.
  } asked_t;

  state_e                 state_q;
  row_index_t             row_q;
  logic                   is_z_q;
  logic [ChannelBits-1:0] channel_q;
  sample_group_t          sum_q;
  logic                   bound_done, last_channel_q;
  wire last_row = group_t'(row_q) + 1'b1 == rows_i;
  wire last_read = last_channel_q && sum_q == LastSum;

  assign read_valid_o = state_q == Read;
  assign read_z_o = is_z_q;
  assign read_row_o = row_q;
  assign read_channel_o = channel_q;
  assign read_sum_o = sum_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= Idle;
      done_o <= 1'b0;
    end else begin
      done_o <= bound_done && last_row;
      unique case (state_q)
        Idle: if (start_i) state_q <= Read;
        Read: if (last_read) state_q <= Judge;
        Judge: if (bound_done) state_q <= last_row ? Idle : Read;
        default: state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Idle) row_q <= '0;
    else if (bound_done) row_q <= row_q + 1'b1;
    last_channel_q <= !is_z_q && dim_t'(channel_q) + 1'b1 == value_dim_i;  // In time for LastSum.
    if (state_q != Read) begin
      is_z_q <= 1'b1;
      channel_q <= '0;
      sum_q <= '0;
    end else begin
      sum_q <= sum_q + 1'b1;
      if (sum_q == LastSum) begin
        is_z_q <= 1'b0;
        if (!is_z_q) channel_q <= channel_q + 1'b1;
      end
    end
  end

  // ---- Totals ----
  asked_t asked_q[ReadLatency];
  wire asked_t asked = asked_q[ReadLatency-1];
  sum_t   total_q, whole_q;
  logic   total_ends_q, total_is_z_q, bound_start_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < ReadLatency; i++) asked_q[i] <= '0;
      total_ends_q <= 1'b0;
      bound_start_q <= 1'b0;
    end else begin
      asked_q[0] <= '{valid: read_valid_o && !clear_i, is_z: is_z_q, sum: sum_q, last: last_read};
      for (int unsigned i = 1; i < ReadLatency; i++) asked_q[i] <= clear_i ? '0 : asked_q[i-1];
      total_ends_q <= asked.valid && asked.sum == LastSum && !clear_i;
      bound_start_q <= total_ends_q && total_is_z_q && !clear_i;
    end
  end
  always_ff @(posedge clk_i) begin
    if (asked.valid) begin
      total_q <= asked.sum == '0 ? acc_i : total_q + acc_i;
      total_is_z_q <= asked.is_z;
    end
    if (total_ends_q && total_is_z_q) whole_q <= total_q;
  end

  output_t channel_output;
  nkv_sample_output u_output (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (total_ends_q),
    .is_z_i  (total_is_z_q),
    .number_i(total_q),
    .output_o(channel_output)
  );

  // ---- The groups' sums meet the output ----
  logic [MeetLatency-1:0] late_valid_q;
  logic                   late_last;
  sum_t                   late_sum;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) late_valid_q <= '0;
    else if (clear_i) late_valid_q <= '0;
    else begin
      late_valid_q <= {late_valid_q[MeetLatency-2:0], asked.valid && asked.sum != '0};
    end
  end
  nkv_delay #(
    .Width (SumBits + 1),
    .Cycles(MeetLatency)
  ) u_late (
    .clk_i,
    .data_i({asked.last, acc_i}),
    .data_o({late_last, late_sum})
  );

  logic        known;
  log_t        log_bound;
  logic [31:0] bound;
  logic        unused_ready;
  logic [7:0]  sixteenths_q;
  nkv_sample_bound u_bound (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i     (bound_start_q),
    .total_i     (whole_q),
    .sixteenths_i(sixteenths_q),
    .log_error_i (log_error_o),
    .ready_o     (unused_ready),
    .valid_i     (late_valid_q[MeetLatency-1]),
    .last_i      (late_last),
    .sum_i       (late_sum),
    .output_i    (channel_output),
    .done_o      (bound_done),
    .known_o     (known),
    .log_bound_o (log_bound),
    .bound_o     (bound)
  );

  always_ff @(posedge clk_i) begin
    if (bound_done) begin
      known_o[row_q] <= known;
      log_bound_o[row_q] <= log_bound;
      bound_o[row_q] <= bound;
    end
    sixteenths_q <= sixteenths_i == '0 ? UsualSixteenths : sixteenths_i;
    if (state_q == Idle && start_i) all_within_o <= 1'b1;
    else if (bound_done && !(known && log_bound <= log_error_o)) all_within_o <= 1'b0;
  end

  // ---- lg error ----
  localparam int unsigned SignificandTop = 22;
  logic [30:0] error_q;
  logic [23:0] base_q;
  logic [17:0] slope_q;
  logic [15:0] rest_q;
  logic [33:0] rise_q;
  log_t        whole_log_q;
  wire [7:0] error_exponent = error_q[30:23];

  always_ff @(posedge clk_i) begin
    if (state_q == Idle && start_i) error_q <= error_i[30:0];
    base_q <= Log2Base[error_q[SignificandTop-:7]];
    slope_q <= Log2Slope[error_q[SignificandTop-:7]];
    rest_q <= error_q[15:0];
    rise_q <= slope_q * rest_q;
    whole_log_q <= ((log_t'({1'b0, error_exponent}) - log_t'(127)) <<< FractionBits) |
        log_t'({1'b0, base_q});
    log_error_o <= error_exponent inside {8'd0, 8'd255} ? NoVariance
        : whole_log_q + log_t'({1'b0, rise_q[33:16]});
  end

  wire unused = ^{error_i[31], rise_q[15:0]};

endmodule
