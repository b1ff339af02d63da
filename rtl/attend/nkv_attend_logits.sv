// The key side of ATTEND DENSE (ARITHMETIC.md section 4): turns the scores of a page into logits,
// keeps those of two pages, and says when a page is complete and what its references are.
//
// Two logits per cycle: four cycles for a visible token, one for another. Pages are handed on in
// order; the value side reads logits and releases the page's bank when it is through.

module nkv_attend_logits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,           // Before each command.

  input  logit_scale_t         scale_i,           // Held during a command, as the exponents are.
  input  exponent_t            query_exponent_i[Rows],

  input  logic                 page_valid_i,      // In the order in which their scores come.
  output logic                 page_ready_o,
  input  token_mask_t          page_visible_i,

  input  logic                 score_valid_i,
  output logic                 score_ready_o,
  input  logic [TokenBits-1:0] score_token_i,
  input  logic                 score_last_i,      // Of its page.
  input  score_t               score_i[Rows],

  output logic                 done_valid_o,      // A page's logits are complete.
  input  logic                 done_ready_i,
  output logic                 done_bank_o,
  output logic [5:0]           done_raise_o[Rows],      // By how much M has grown.
  output reference_t           done_reference_o[Rows],  // M with this page.
  input  logic                 release_i,         // The value side is through with the oldest page.

  input  logic [TokenBits:0]   read_i,            // Bank and token; the logits follow by a cycle.
  output logit_t               logit_o[Rows],
  output logic                 idle_o
);

  localparam int unsigned Units = 2;
  localparam int unsigned Phases = Rows / Units;
  localparam int unsigned PhaseBits = $clog2(Phases);
  typedef logic [PhaseBits-1:0] phase_t;
  localparam int unsigned TagBits = 1 + TokenBits + PhaseBits;

  typedef enum logic [1:0] {
    StPage,
    StTokens,
    StDrain,
    StDone
  } state_e;

  state_e state_q;
  phase_t phase_q;
  logic   bank_q;
  logic [1:0] banks_used_q;
  logic [6:0] under_way_q;
  reference_t before_q[Rows];  // M before this page.
  reference_t largest_q[Rows];
  logic       any_before_q;

  wire visible = page_visible_i[score_token_i];
  wire feeds = state_q == StTokens && score_valid_i && visible;
  assign score_ready_o = state_q == StTokens && (!visible || phase_q == '1);

  // ---- Logits ----
  logic   logit_valid[Units];
  logic [TagBits-1:0] logit_tag[Units];
  logit_t logit[Units];

  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    wire row_index_t row = {phase_q, 1'(u)};
    nkv_logit #(
      .TagBits(TagBits)
    ) u_logit (
      .clk_i,
      .rst_ni,
      .scale_i,
      .valid_i         (feeds),
      .tag_i           ({bank_q, score_token_i, phase_q}),
      .score_i         (score_i[row]),
      .query_exponent_i(query_exponent_i[row]),
      .valid_o         (logit_valid[u]),
      .tag_o           (logit_tag[u]),
      .logit_o         (logit[u])
    );
  end

  wire phase_t logit_phase = logit_tag[0][PhaseBits-1:0];
  wire [TokenBits:0] logit_place = logit_tag[0][TagBits-1:PhaseBits];

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    logit_t memory[2*PageTokens];
    logit_t read_q;
    always_ff @(posedge clk_i) begin
      if (logit_valid[0] && logit_phase == phase_t'(r / Units)) begin
        memory[logit_place] <= logit[r%Units];
      end
      read_q <= memory[read_i];
    end
    assign logit_o[r] = read_q;
  end

  // ---- References ----
  function automatic logic [5:0] distance(reference_t from, reference_t to);
    automatic logic [ReferenceBits:0] difference = (ReferenceBits + 1)'(to) -
        (ReferenceBits + 1)'(from);
    return difference > (ReferenceBits + 1)'(63) ? 6'd63 : difference[5:0];
  endfunction

  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      automatic reference_t whole = reference_t'(logit[r%Units] >>> LogitFractionBits);
      if (clear_i) begin
        before_q[r] <= NoReference;
        largest_q[r] <= NoReference;
      end else if (done_valid_o && done_ready_i) begin
        before_q[r] <= largest_q[r];
      end else if (logit_valid[0] && logit_phase == phase_t'(r / Units) && whole > largest_q[r]) begin
        largest_q[r] <= whole;
      end
    end
  end

  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      done_reference_o[r] = largest_q[r];
      // Before the first token there is nothing to raise.
      done_raise_o[r] = any_before_q ? distance(before_q[r], largest_q[r]) : '0;
    end
  end
  assign done_valid_o = state_q == StDone;
  assign done_bank_o = bank_q;
  assign page_ready_o = done_valid_o && done_ready_i;
  assign idle_o = state_q == StPage && !page_valid_i && banks_used_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      phase_q <= '0;
      bank_q <= 1'b0;
      banks_used_q <= '0;
      under_way_q <= '0;
      any_before_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StPage;
      phase_q <= '0;
      bank_q <= 1'b0;
      banks_used_q <= '0;
      under_way_q <= '0;
      any_before_q <= 1'b0;
    end else begin
      banks_used_q <= banks_used_q + 2'(page_ready_o) - 2'(release_i);
      under_way_q <= under_way_q + 7'(feeds) - 7'(logit_valid[0]);
      if (feeds) phase_q <= phase_q + 1'b1;
      unique case (state_q)
        StPage: if (page_valid_i && banks_used_q != 2'd2) state_q <= StTokens;
        StTokens: if (score_valid_i && score_ready_o && score_last_i) state_q <= StDrain;
        StDrain: if (under_way_q == '0) state_q <= StDone;
        StDone: begin
          if (done_ready_i) begin
            state_q <= StPage;
            bank_q <= !bank_q;
            if (page_visible_i != '0) any_before_q <= 1'b1;
          end
        end
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused_units = logit_valid[1] ^ (^logit_tag[1]);

endmodule
