// Codes of tensors of a page, one after the other: ARITHMETIC.md 11.3 to 11.6. What reads a tensor's
// rows and takes their mean works while what makes the codes is at the tensor before.
//
//   rows --> code_fix --> code_mean
//                 └─ memory ─► code_residual ─► code_transform ─► code_cells ─► planes
//                                                                    └─► code_fit ─► code_factors
//
// A tensor of 128 channels takes 256 cycles to be read and again 256 to be coded, and what is said of
// it as a whole comes 150 later.

module nkv_code_tensor
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  dtype_e      dtype_i,              // Of the rows; held, not fp32.

  input  logic        job_valid_i,
  output logic        job_ready_o,
  input  code_job_t   job_i,                // Held until job_read_o.
  output logic        job_read_o,           // For one cycle: all its rows have been read.

  // The rows: a word in the cycle after it was asked for.
  output logic        read_o,
  output token_t      read_row_o,
  output word_index_t read_index_o,
  input  element_t    word_i[ExactLanes],   // Lanes beyond the tensor's channels may be any.
  // Gains of K's channels, in the same cycle.
  output word_index_t gain_index_o,
  input  octaves_t    gain_i[ExactLanes],

  // The tensor whose codes come, from the first one to done_o. It begins when its places are free.
  output code_job_t   job_o,
  input  logic        keys_free_i,
  input  logic        values_free_i,
  output logic        begin_o,              // For one cycle, before all of the following.
  output logic        mean_valid_o,         // Its means, a word of channels per cycle,
  output word_index_t mean_index_o,
  output mean_t       mean_o[ExactLanes],
  output logic        cells_valid_o,        // its cells, row after row,
  output word_index_t cells_index_o,
  output logic [CellBits-1:0] cell_o[ExactLanes],  // as they are stored: plane j at its bit B - 1 - j,
  output logic        done_o,               // and what is said of it, which then stands a while.
  output code_powers_t powers_o,
  output logic [4*PageTokens-1:0] factors_o
);

  localparam int unsigned Lanes = ExactLanes;
  localparam int unsigned FixLatency = 9;
  localparam int unsigned GainLatency = 4;   // After the word.

  typedef struct packed {
    token_t      row;
    word_index_t index;
  } place_t;

  function automatic word_index_t last_index_of(dim_t dim);
    return word_index_t'((dim - 1'b1) >> $clog2(Lanes));
  endfunction

  // ---- Rows in: fixed, kept, their mean taken ----
  typedef enum logic [1:0] {
    InIdle,
    InRead,
    InMean,   // Until the mean is known.
    InGive    // Until the coder takes it.
  } in_state_e;
  in_state_e   in_q;
  code_job_t   in_job_q;
  place_t      in_place_q;
  logic        in_half_q;                    // Of the memory.
  logic        takes;                        // The coder takes what was read.
  wire word_index_t in_last = last_index_of(in_job_q.dim);
  wire in_last_is_half = in_job_q.dim[$clog2(ChunkChannels)];
  wire in_row_ends = in_place_q.index == in_last;

  assign job_ready_o = in_q == InIdle;
  assign read_o = in_q == InRead;
  assign {read_row_o, read_index_o} = in_place_q;
  assign job_read_o = read_o && in_row_ends && in_place_q.row == '1;

  logic        word_valid_q, word_half_q;
  element_t    word[Lanes];
  place_t      gain_place, fixed_place;
  logic        fixed_valid;
  fixed_t      fixed[Lanes];
  octaves_t    gain[Lanes];
  for (genvar i = 0; i < Lanes; i++) begin : gen_words
    assign word[i] = word_half_q && i >= ChunkChannels ? '0 : word_i[i];
    assign gain[i] = in_job_q.is_value ? '0 : gain_i[i];
  end

  nkv_delay #(
    .Width($bits(place_t)),
    .Cycles(1 + GainLatency)
  ) u_gain_place (
    .clk_i,
    .data_i(in_place_q),
    .data_o(gain_place)
  );
  assign gain_index_o = gain_place.index;
  nkv_delay #(
    .Width($bits(place_t)),
    .Cycles(FixLatency - GainLatency)
  ) u_fixed_place (
    .clk_i,
    .data_i(gain_place),
    .data_o(fixed_place)
  );

  nkv_code_fix #(
    .Lanes(Lanes)
  ) u_fix (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dtype_i,
    .top_i    (in_job_q.top),
    .valid_i  (word_valid_q),
    .element_i(word),
    .gain_i   (gain),
    .valid_o  (fixed_valid),
    .fixed_o  (fixed)
  );

  logic        mean_valid, mean_last;
  word_index_t mean_index;
  mean_t       mean[Lanes];
  mean_shift_t mean_shift;
  nkv_code_mean #(
    .Lanes(Lanes)
  ) u_mean (
    .clk_i,
    .rst_ni,
    .clear_i,
    .last_index_i(in_last),
    .valid_i     (fixed_valid),
    .first_row_i (fixed_place.row == '0),
    .last_row_i  (fixed_place.row == '1),
    .index_i     (fixed_place.index),
    .fixed_i     (fixed),
    .valid_o     (mean_valid),
    .last_o      (mean_last),
    .index_o     (mean_index),
    .mean_o      (mean),
    .shift_o     (mean_shift)
  );

  // ---- Between both: two tensors' rows and means ----
  localparam int unsigned FixedWord = Lanes * FixedBits;
  (* ram_style = "block" *) logic [FixedWord-1:0] rows[2*PageTokens*RowWords];
  (* ram_style = "distributed" *) logic [8*Lanes-1:0] means[2*RowWords];
  logic [FixedWord-1:0] fixed_word, out_word_q;
  logic [8*Lanes-1:0]   mean_word, out_mean_q;
  place_t      out_place_q, out_place_late_q;
  logic        out_read_q, out_half_q;
  for (genvar i = 0; i < Lanes; i++) begin : gen_pack
    assign fixed_word[FixedBits*i+:FixedBits] = fixed[i];
    assign mean_word[8*i+:8] = mean[i];
  end
  always_ff @(posedge clk_i) begin
    if (fixed_valid) rows[{in_half_q, fixed_place}] <= fixed_word;
    if (mean_valid) means[{in_half_q, mean_index}] <= mean_word;
    if (out_read_q) out_word_q <= rows[{out_half_q, out_place_q}];
    out_mean_q <= means[{out_half_q, out_place_q.index}];
    out_place_late_q <= out_place_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_q <= InIdle;
      {in_job_q, in_place_q, in_half_q, word_valid_q, word_half_q} <= '0;
    end else if (clear_i) begin
      in_q <= InIdle;
      {in_place_q, in_half_q, word_valid_q} <= '0;
    end else begin
      word_valid_q <= read_o;
      word_half_q <= in_row_ends && in_last_is_half;
      unique case (in_q)
        InIdle: begin
          in_job_q <= job_i;
          if (job_valid_i) in_q <= InRead;
        end
        InRead: begin
          in_place_q.index <= in_row_ends ? '0 : in_place_q.index + 1'b1;
          if (in_row_ends) in_place_q.row <= in_place_q.row + 1'b1;
          if (job_read_o) in_q <= InMean;
        end
        InMean: if (mean_valid && mean_last) in_q <= InGive;
        default: begin
          if (takes) begin
            in_q <= InIdle;
            in_half_q <= !in_half_q;
          end
        end
      endcase
    end
  end

  // ---- Codes out ----
  typedef enum logic [1:0] {
    OutIdle,
    OutBegin,
    OutRead,
    OutCode   // Until the last factor is known.
  } out_state_e;
  out_state_e  out_q;
  code_job_t   out_job_q;
  mean_shift_t out_shift_q;
  logic        factors_done;
  wire word_index_t out_last = last_index_of(out_job_q.dim);
  wire out_row_ends = out_place_q.index == out_last;

  assign out_read_q = out_q == OutRead;
  assign takes = out_q == OutIdle && in_q == InGive &&
      (in_job_q.is_value ? values_free_i : keys_free_i);
  assign begin_o = out_q == OutBegin;
  assign job_o = out_job_q;
  assign done_o = factors_done;

  logic signed [15:0] mean_power_q, top;
  always_ff @(posedge clk_i) begin
    if (takes) begin
      out_job_q <= in_job_q;
      out_shift_q <= mean_shift;
      out_half_q <= in_half_q;
    end
    mean_power_q <= 16'(out_job_q.top) - 16'(FixedUnit) + 16'(out_shift_q);
  end
  assign powers_o = '{mean_power: mean_power_q, top: top};

  logic out_valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      out_q <= OutIdle;
      {out_place_q, out_valid_q} <= '0;
    end else if (clear_i) begin
      out_q <= OutIdle;
      {out_place_q, out_valid_q} <= '0;
    end else begin
      out_valid_q <= out_read_q;
      unique case (out_q)
        OutIdle: if (takes) out_q <= OutBegin;
        OutBegin: out_q <= OutRead;
        OutRead: begin
          out_place_q.index <= out_row_ends ? '0 : out_place_q.index + 1'b1;
          if (out_row_ends) out_place_q.row <= out_place_q.row + 1'b1;
          if (out_row_ends && out_place_q.row == '1) out_q <= OutCode;
        end
        default: if (factors_done) out_q <= OutIdle;
      endcase
    end
  end

  fixed_t out_fixed[Lanes];
  for (genvar i = 0; i < Lanes; i++) begin : gen_unpack
    assign out_fixed[i] = fixed_t'(out_word_q[FixedBits*i+:FixedBits]);
    assign mean_o[i] = mean_t'(out_mean_q[8*i+:8]);
  end
  // The means go out beside the first row.
  assign mean_valid_o = out_valid_q && out_place_late_q.row == '0;
  assign mean_index_o = out_place_late_q.index;

  logic         length_valid, scaled_valid, z_valid, coded_valid, fit_valid, fit_any;
  length_bits_t length_bits;
  word_index_t  scaled_index, z_index;
  residual_t    scaled[Lanes], z[Lanes], coded_z[Lanes];
  cell_t        coded[Lanes];
  logic [8:0]   fit_log2;

  nkv_code_residual #(
    .Lanes(Lanes)
  ) u_residual (
    .clk_i,
    .rst_ni,
    .clear_i,
    .last_index_i  (out_last),
    .mean_shift_i  (out_shift_q),
    .valid_i       (out_valid_q),
    .index_i       (out_place_late_q.index),
    .fixed_i       (out_fixed),
    .mean_i        (mean_o),
    .length_valid_o(length_valid),
    .length_bits_o (length_bits),
    .valid_o       (scaled_valid),
    .index_o       (scaled_index),
    .scaled_o      (scaled)
  );
  nkv_code_transform u_transform (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i     (out_job_q.dim),
    .sign_set_i(out_job_q.sign_set),
    .valid_i   (scaled_valid),
    .index_i   (scaled_index),
    .value_i   (scaled),
    .valid_o   (z_valid),
    .index_o   (z_index),
    .value_o   (z)
  );
  nkv_code_cells #(
    .Lanes(Lanes)
  ) u_cells (
    .clk_i,
    .rst_ni,
    .clear_i,
    .is_value_i  (out_job_q.is_value),
    .dim_i       (out_job_q.dim),
    .last_index_i(out_last),
    .valid_i     (z_valid),
    .index_i     (z_index),
    .z_i         (z),
    .valid_o     (coded_valid),
    .index_o     (cells_index_o),
    .z_o         (coded_z),
    .cell_o      (coded)
  );
  nkv_code_fit #(
    .Lanes(Lanes)
  ) u_fit (
    .clk_i,
    .rst_ni,
    .clear_i,
    .last_index_i(out_last),
    .valid_i     (coded_valid),
    .index_i     (cells_index_o),
    .z_i         (coded_z),
    .cell_i      (coded),
    .valid_o     (fit_valid),
    .any_o       (fit_any),
    .log2_o      (fit_log2)
  );
  nkv_code_factors u_factors (
    .clk_i,
    .rst_ni,
    .clear_i,
    .job_i         (out_job_q),
    .length_valid_i(length_valid),
    .length_bits_i (length_bits),
    .fit_valid_i   (fit_valid),
    .fit_any_i     (fit_any),
    .fit_log2_i    (fit_log2),
    .done_o        (factors_done),
    .top_o         (top),
    .factors_o
  );

  assign cells_valid_o = coded_valid;
  for (genvar i = 0; i < Lanes; i++) begin : gen_cells
    // Half the cells are added: the sign turns.
    assign cell_o[i] = out_job_q.is_value
        ? (coded[i] ^ CellBits'(1) << (ValueCodePlanes - 1)) & CellBits'((1 << ValueCodePlanes) - 1)
        : coded[i] ^ CellBits'(1) << (KeyCodePlanes - 1);
  end

endmodule
