// The arrays of codes of the pages that an APPEND builds, and what their headers say of codes.
//
// Of each page the values are coded first, then the keys, when their rows are kept. A tensor's
// codes are kept until the page is stored; meanwhile the next page's rows are read.

module nkv_page_codes
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned GainIndexBits = $clog2(Channels / GranuleBytes)
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,         // Before the pages of a command.

  input  append_command_t command_i,       // Checked; held from clear_i on.
  input  logic            gains_valid_i,   // Before the first page.
  input  logic [GainIndexBits-1:0] gains_index_i,
  input  granule_t        gains_i,

  // Keys as numbers, and what is said of the values' once they are kept.
  input  logic            number_valid_i,
  input  logic            number_first_i,  // Word of its tensor.
  input  word_index_t     number_index_i,
  input  exponent_t       exponent_i[ExactLanes],
  input  significand_t    significand_i[ExactLanes],
  input  exponent_t       v_exponent_i,

  // Rows that are kept, which are not needed any more from *_read_o on. A word comes in the cycle
  // after it was asked for.
  input  logic            keys_kept_i,
  input  logic            values_kept_i,
  output logic            keys_read_o,
  output logic            values_read_o,
  output logic            read_keys_o,
  output logic            read_values_o,
  output token_t          read_row_o,
  output word_index_t     read_index_o,
  input  element_t        key_word_i[ExactLanes],
  input  element_t        value_word_i[ExactLanes],

  // Bursts of the page that is stored: valid in the cycle after they are wanted, if they are there.
  input  page_array_t     array_i,
  input  logic            wants_i,
  input  logic            burst_taken_i,
  output logic            burst_valid_o,
  output burst_t          burst_o,
  input  logic            page_sent_i,     // All of it.

  // Of that page, with its last array.
  output code_powers_t    keys_o,
  output code_powers_t    values_o,
  output sign_set_t       sign_set_o
);

  localparam int unsigned PlaneBursts = PageTokens * Channels / BurstBits;
  localparam int unsigned PlaneIndexBits = $clog2(PlaneBursts);
  localparam int unsigned PlaneGranule = ChunkChannels;
  localparam int unsigned PlaceBits = PlaneIndexBits + $clog2(BurstBits / PlaneGranule);
  localparam int unsigned MeanBursts = 2 * Channels / BurstBytes;
  localparam int unsigned MeanIndexBits = $clog2(MeanBursts);
  localparam int unsigned MeanGranule = 8 * ChunkChannels;
  localparam int unsigned MeanPlaceBits = MeanIndexBits + $clog2(BurstBits / MeanGranule);
  localparam int unsigned WordGranules = 8 * GranuleBytes;  // Bits of gains that come together.
  localparam int unsigned Settle = 15;  // Cycles until what is said of kept rows is known.
  localparam code_powers_t NoPowers = '{mean_power: -16'(FixedUnit), top: '0};

  wire dim_t head_dim = dim_t'(command_i.head_dim);
  wire dim_t value_dim = dim_t'(command_i.value_dim);
  wire has_values = command_i.v_form != RowFormNone;
  wire any_values = value_dim != '0;

  // ---- Gains: words of lanes for the keys' scale and their codes, bursts for the page ----
  localparam int unsigned LaneGranules = ExactLanes / GranuleBytes;
  word_index_t gain_index;
  octaves_t    gain[ExactLanes], number_gain[ExactLanes];
  logic [PlaneIndexBits-1:0] next;         // Burst that is read for the page.
  burst_t      gains_burst;
  for (genvar g = 0; g < LaneGranules; g++) begin : gen_gains
    (* ram_style = "distributed" *) granule_t memory[RowWords];
    wire granule_t of_codes = memory[gain_index];
    wire granule_t of_numbers = memory[number_index_i];
    always_ff @(posedge clk_i) begin
      if (gains_valid_i && gains_index_i[$clog2(LaneGranules)-1:0] == ($clog2(LaneGranules))'(g)) begin
        memory[gains_index_i[GainIndexBits-1:$clog2(LaneGranules)]] <= gains_i;
      end
    end
    for (genvar i = 0; i < GranuleBytes; i++) begin : gen_lanes
      assign gain[GranuleBytes*g+i] = of_codes[8*i+:8];
      assign number_gain[GranuleBytes*g+i] = of_numbers[8*i+:8];
    end
    for (genvar h = 0; h < BurstBytes / ExactLanes; h++) begin : gen_halves
      localparam int unsigned At = LaneGranules * h + g;
      wire word_index_t word = word_index_t'({next, 1'(h)});
      wire dim_t channel = {1'b0, word, ($clog2(ExactLanes))'(GranuleBytes * g)};
      assign gains_burst[WordGranules*At+:WordGranules] = channel < head_dim ? memory[word] : '0;
    end
  end

  // ---- X of the keys ----
  logic [HighBits-1:0] high[ExactLanes];
  top_t keys_top;
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_high
    assign high[i] = significand_i[i][SignificandBits-1-:HighBits];
    wire unused = ^significand_i[i][SignificandBits-HighBits-1:0];
  end
  nkv_code_top u_top (
    .clk_i,
    .rst_ni,
    .valid_i   (number_valid_i),
    .first_i   (number_first_i),
    .exponent_i,
    .high_i    (high),
    .gain_i    (number_gain),
    .top_o     (keys_top)
  );

  // ---- Which tensor is read next ----
  typedef enum logic [1:0] {
    StPage,     // Its sign set is being found.
    StValues,
    StKeys
  } state_e;
  localparam int unsigned PagePlaceBits = 32 - TokenBits;
  state_e state_q;
  logic   begun_q;                         // The tensor is being read.
  logic [PagePlaceBits-1:0] place_q;       // Of the page in its sequence.
  logic [$clog2(Settle+1)-1:0] settled_q;
  logic   set_done, job_ready, job_read, read;
  sign_set_t page_set;
  code_job_t job;
  wire enabled = command_i.flags[AppendFlagCodes];
  wire of_keys = state_q == StKeys || !has_values;
  wire kept = of_keys ? keys_kept_i && !keys_read_o : values_kept_i && !values_read_o;
  wire waits = state_q != StPage && !begun_q && kept;
  wire job_valid = waits && set_done && settled_q == ($clog2(Settle + 1))'(Settle);

  nkv_code_sign_set u_set (
    .clk_i,
    .rst_ni,
    .start_i   (state_q == StPage && enabled),
    .place_i   (place_q),
    .run_i     (command_i.sign_run == '0 ? 8'(SignRun) : command_i.sign_run),
    .done_o    (set_done),
    .sign_set_o(page_set)
  );

  assign job = '{
      is_value: state_q == StValues,
      of_keys: of_keys,
      dim: state_q == StValues ? value_dim : head_dim,
      top: state_q == StValues ? top_t'({1'b0, v_exponent_i}) : keys_top,
      sign_set: page_set
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      {begun_q, place_q, settled_q, keys_read_o, values_read_o} <= '0;
    end else if (clear_i) begin
      state_q <= StPage;
      {begun_q, settled_q, keys_read_o, values_read_o} <= '0;
      place_q <= command_i.first_token[31:TokenBits];
    end else begin
      settled_q <= !waits ? '0 : settled_q + ($clog2(Settle + 1))'(settled_q != '1);
      if (job_valid && job_ready) begun_q <= 1'b1;
      if (!keys_kept_i) keys_read_o <= 1'b0;
      if (!values_kept_i) values_read_o <= 1'b0;
      if (job_read) begin
        begun_q <= 1'b0;
        if (state_q == StKeys) keys_read_o <= 1'b1;
        else if (has_values) values_read_o <= 1'b1;
      end
      unique case (state_q)
        StPage: if (enabled) state_q <= any_values ? StValues : StKeys;
        StValues: if (job_read) state_q <= StKeys;
        default: begin
          if (job_read) begin
            state_q <= StPage;
            place_q <= place_q + 1'b1;
          end
        end
      endcase
    end
  end

  // ---- Codes ----
  assign read_keys_o = read && of_keys;
  assign read_values_o = read && !of_keys;
  element_t  word[ExactLanes];
  logic      of_keys_q;
  code_job_t coding;
  logic      begins, mean_valid, cells_valid, coded;
  logic      keys_coded_q, values_coded_q;
  word_index_t mean_index, cells_index;
  mean_t     mean[ExactLanes];
  logic [CellBits-1:0] cells[ExactLanes];
  code_powers_t powers;
  logic [4*PageTokens-1:0] factors, key_factors_q, value_factors_q;
  always_ff @(posedge clk_i) of_keys_q <= of_keys;
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_word
    assign word[i] = of_keys_q ? key_word_i[i] : value_word_i[i];
  end

  nkv_code_tensor u_tensor (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dtype_i      (command_i.dtype),
    .job_valid_i  (job_valid),
    .job_ready_o  (job_ready),
    .job_i        (job),
    .job_read_o   (job_read),
    .read_o       (read),
    .read_row_o,
    .read_index_o,
    .word_i       (word),
    .gain_index_o (gain_index),
    .gain_i       (gain),
    .job_o        (coding),
    .keys_free_i  (!keys_coded_q),
    .values_free_i(!values_coded_q),
    .begin_o      (begins),
    .mean_valid_o (mean_valid),
    .mean_index_o (mean_index),
    .mean_o       (mean),
    .cells_valid_o(cells_valid),
    .cells_index_o(cells_index),
    .cell_o       (cells),
    .done_o       (coded),
    .powers_o     (powers),
    .factors_o    (factors)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {keys_coded_q, values_coded_q} <= '0;
    end else if (clear_i || page_sent_i) begin
      {keys_coded_q, values_coded_q} <= '0;
    end else if (coded) begin
      if (coding.is_value) values_coded_q <= 1'b1;
      else keys_coded_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (coded) sign_set_o <= coding.sign_set;
    if (coded && !coding.is_value) {keys_o, key_factors_q} <= {powers, factors};
    if (coded && coding.is_value) {values_o, value_factors_q} <= {powers, factors};
    if (!any_values) {values_o, value_factors_q} <= {NoPowers, (4 * PageTokens)'(0)};
  end

  // ---- Planes: a store each, whose words follow each other without a gap ----
  wire word_index_t last_index = word_index_t'((coding.dim - 1'b1) >> $clog2(ExactLanes));
  wire last_is_half = coding.dim[$clog2(ChunkChannels)];
  logic [PlaceBits-1:0] cells_at_q;
  wire cells_two = !(last_is_half && cells_index == last_index);
  always_ff @(posedge clk_i) begin
    if (begins) cells_at_q <= '0;
    else if (cells_valid) cells_at_q <= cells_at_q + PlaceBits'(1) + PlaceBits'(cells_two);
  end

  localparam int unsigned Planes = KeyCodePlanes + ValueCodePlanes;
  burst_t planes[Planes];  // K's, then V's.
  for (genvar j = 0; j < Planes; j++) begin : gen_planes
    localparam bit OfValues = j >= KeyCodePlanes;
    localparam int unsigned CellBit = (OfValues ? Planes : KeyCodePlanes) - 1 - j;
    logic [ExactLanes-1:0] bits;
    for (genvar i = 0; i < ExactLanes; i++) begin : gen_bits
      assign bits[i] = cells[i][CellBit];
    end
    nkv_code_store #(
      .GranuleBits(PlaneGranule),
      .Bursts(PlaneBursts)
    ) u_store (
      .clk_i,
      .valid_i  (cells_valid && coding.is_value == OfValues),
      .two_i    (cells_two),
      .at_i     (cells_at_q),
      .granule_i(bits),
      .index_i  (next),
      .burst_o  (planes[j])
    );
  end

  // ---- Means: the values' behind the keys' ----
  localparam int unsigned ChunkLog2 = $clog2(ChunkChannels);
  logic [1:0][MeanGranule-1:0] mean_granules;
  burst_t means, means_burst;
  wire [MeanPlaceBits-1:0] mean_base = coding.is_value ? MeanPlaceBits'(head_dim >> ChunkLog2) : '0;
  wire [MeanPlaceBits:0] mean_count =
      (MeanPlaceBits + 1)'(head_dim >> ChunkLog2) + (MeanPlaceBits + 1)'(value_dim >> ChunkLog2);
  wire [MeanIndexBits-1:0] mean_next = MeanIndexBits'(next) - 1'b1;
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_means
    assign mean_granules[i/ChunkChannels][8*(i%ChunkChannels)+:8] = mean[i];
  end
  nkv_code_store #(
    .GranuleBits(MeanGranule),
    .Bursts(MeanBursts)
  ) u_means (
    .clk_i,
    .valid_i  (mean_valid),
    .two_i    (!(last_is_half && mean_index == last_index)),
    .at_i     (mean_base + MeanPlaceBits'({mean_index, 1'b0})),
    .granule_i(mean_granules),
    .index_i  (mean_next),
    .burst_o  (means)
  );
  for (genvar g = 0; g < BurstBits / MeanGranule; g++) begin : gen_tail
    wire [MeanPlaceBits:0] at =
        (MeanPlaceBits + 1)'({mean_next, ($clog2(BurstBits / MeanGranule))'(g)});
    assign means_burst[MeanGranule*g+:MeanGranule] =
        at < mean_count ? means[MeanGranule*g+:MeanGranule] : '0;
  end

  // ---- Bursts: the next one is read while this one is offered ----
  logic [PlaneIndexBits-1:0] index_q, plane_last;
  logic [1:0]                plane_q, next_plane;
  logic                      is_there;
  wire takes = burst_taken_i && burst_valid_o;
  wire has_planes = array_i inside {page_array_t'(PageArrayKCodes), page_array_t'(PageArrayVCodes)};
  wire plane_ends = has_planes && index_q == plane_last;
  assign plane_last = PlaneIndexBits'((array_i == page_array_t'(PageArrayVCodes) ? value_dim
                                                                                 : head_dim) >> 3) - 1'b1;

  always_comb begin
    unique case (array_i)
      page_array_t'(PageArrayKSigns), page_array_t'(PageArrayKCodes): is_there = keys_coded_q;
      page_array_t'(PageArrayVCodes): is_there = values_coded_q;
      page_array_t'(PageArrayCodeSummary): is_there = keys_coded_q && (values_coded_q || !any_values);
      page_array_t'(PageArrayKGains): is_there = 1'b1;
      default: is_there = 1'b0;
    endcase
    next = !takes ? index_q : plane_ends ? '0 : index_q + 1'b1;
    next_plane = plane_q + 2'(takes && plane_ends);
  end

  always_ff @(posedge clk_i) begin
    unique case (array_i)
      page_array_t'(PageArrayKSigns): burst_o <= planes[0];
      page_array_t'(PageArrayKCodes): burst_o <= planes[3'(next_plane)+3'd1];
      page_array_t'(PageArrayVCodes): burst_o <= planes[3'(next_plane)+3'(KeyCodePlanes)];
      page_array_t'(PageArrayCodeSummary): begin
        burst_o <= next == '0 ? {value_factors_q, key_factors_q} : means_burst;
      end
      default: burst_o <= gains_burst;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {index_q, plane_q, burst_valid_o} <= '0;
    end else if (clear_i || !wants_i) begin
      {index_q, plane_q, burst_valid_o} <= '0;
    end else begin
      index_q <= next;
      plane_q <= next_plane;
      burst_valid_o <= is_there;
    end
  end

  wire unused = ^{command_i, coding};

endmodule
