// What of a page is made of its keys' numbers: digest, planes, and what its header says of them.
// The numbers come twice, the second time after replay_o; the digest's bursts are there from
// ready_o on, the planes' with complete_o, and are read in the cycle in which they are asked for.

module nkv_page_codes
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
#(
  localparam int unsigned PlaneBits = $clog2(KeyPlanes),
  localparam int unsigned PlaneIndexBits = $clog2(PageTokens * Channels / BurstBits)
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,

  input  dim_t                      dim_i,          // Held.
  input  logic                      begin_i,        // The keys' numbers come next,
  input  logic                      page_start_i,   // and their planes' page is the one to store.
  input  logic                      number_valid_i,
  input  logic [ExactLanes-1:0]     negative_i,
  input  logic [ExactLanes-1:0]     finite_i,
  input  exponent_t                 exponent_i[ExactLanes],
  input  significand_t              significand_i[ExactLanes],
  output logic                      replay_o,

  output logic                      ready_o,
  input  word_index_t               digest_index_i,
  output burst_t                    digest_o,
  output exponent_t                 k_exponent_o,   // From ready_o to the next begin_i.
  output logic signed [15:0]        k_step_exponent_o,
  output token_mask_t               nonfinite_o,

  output logic                      complete_o,     // To the next page_start_i.
  input  logic [PlaneBits-1:0]      plane_i,
  input  logic [PlaneIndexBits-1:0] plane_index_i,
  output burst_t                    plane_o
);

  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned DigestBits = 16;

  logic digest_valid, codes_valid, codes_last;
  word_index_t digest_index, codes_index;
  logic [DigestBits-1:0] digest_word[ExactLanes];
  logic [7:0] unused_code[ExactLanes];
  logic [ExactLanes-1:0] plane_bits[KeyPlanes];
  burst_t digest[RowWords];

  nkv_digest_build u_digest (
    .clk_i,
    .rst_ni,
    .start_i       (begin_i),
    .dim_i,
    .word_valid_i  (number_valid_i),
    .negative_i,
    .finite_i,
    .exponent_i,
    .significand_i,
    .replay_o,
    .digest_valid_o(digest_valid),
    .digest_index_o(digest_index),
    .digest_o      (digest_word),
    .codes_valid_o (codes_valid),
    .codes_index_o (codes_index),
    .codes_last_o  (codes_last),
    .code_o        (unused_code),
    .plane_o       (plane_bits),
    .k_step_exponent_o,
    .k_exponent_o,
    .nonfinite_o
  );

  // A word of the digest is a burst.
  always_ff @(posedge clk_i) begin
    if (digest_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        digest[digest_index][DigestBits*i+:DigestBits] <=
            dim_t'({digest_index, LaneBits'(i)}) < dim_i ? digest_word[i] : '0;
      end
    end
  end
  assign digest_o = digest[digest_index_i];

  // The last word is stored when replay_o is up already.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ready_o <= 1'b0;
    else ready_o <= replay_o && !begin_i;
  end

  nkv_plane_store u_planes (
    .clk_i,
    .rst_ni,
    .start_i       (page_start_i),
    .valid_i       (codes_valid),
    .half_i        (dim_t'({codes_index, LaneBits'(ChunkChannels)}) >= dim_i),
    .last_i        (codes_last),
    .plane_i       (plane_bits),
    .complete_o,
    .plane_select_i(plane_i),
    .index_i       (plane_index_i),
    .burst_o       (plane_o)
  );

endmodule
