// Midpoints of a list, wherever they lie: on chip, or on their way to scratch memory and back; and the highest
// and lowest of them. Reads take two cycles; passes over midpoints come first, then those that are sharpened,
// then others.

module nkv_midpoint_store
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      write_i,
  input  page_t     write_page_i,
  input  quad_t     write_quad_i,
  input  midpoint_t write_data_i[Rows][PlaneTokens],
  input  logic      clear_i,        // What is highest and lowest begins anew.
  input  logic      counts_i,       // The midpoints written are new ones, of tokens that are visible.
  input  logic      visible_i[PlaneTokens],
  output logic      ranged_o,       // Some were.
  output midpoint_t highest_o[Rows],
  output midpoint_t lowest_o[Rows],
  output logic      room_o,         // For what is begun now.
  output logic      busy_o,         // Not all that left the chip is in memory.

  // To scratch memory, and back.
  output logic           spill_valid_o,
  input  logic           spill_ready_i,
  output write_request_t spill_o,
  input  logic           spilled_i,
  input  logic           fill_i,
  input  page_t          fill_page_i,
  input  quad_t          fill_quad_i,
  input  burst_t         fill_data_i,

  input  logic       pass_fetch_i,  // A word.
  input  page_t      pass_page_i,
  input  logic [1:0] pass_word_i,
  input  logic       fetch_i,       // A quad.
  input  page_t      fetch_page_i,
  input  quad_t      fetch_quad_i,
  input  logic       read_i,        // A word.
  output logic       read_ready_o,
  input  page_t      read_page_i,
  input  logic [1:0] read_word_i,
  output midpoint_t  data_o[Rows][ScanTokens]
);

  assign read_ready_o = !pass_fetch_i && !fetch_i;

  nkv_midpoint_memory #(
    .KeptPages(KeptPages)
  ) u_memory (
    .clk_i,
    .write_i,
    .write_page_i,
    .write_quad_i,
    .write_data_i,
    .fill_i,
    .fill_page_i,
    .fill_quad_i,
    .fill_data_i,
    .read_all_i(pass_fetch_i || (read_i && read_ready_o)),
    .read_quad_i(fetch_i),
    .read_page_i(pass_fetch_i ? pass_page_i : fetch_i ? fetch_page_i : read_page_i),
    .read_word_i(pass_fetch_i ? pass_word_i : fetch_i ? fetch_quad_i[QuadBits-1:2] : read_word_i),
    .read_part_i(fetch_quad_i[1:0]),
    .read_data_o(data_o)
  );

  nkv_midpoint_spill #(
    .KeptPages(KeptPages)
  ) u_spill (
    .clk_i,
    .rst_ni,
    .write_i,
    .page_i(write_page_i),
    .quad_i(write_quad_i),
    .data_i(write_data_i),
    .room_o,
    .write_valid_o(spill_valid_o),
    .write_ready_i(spill_ready_i),
    .write_o(spill_o),
    .written_i(spilled_i),
    .busy_o
  );

  nkv_midpoint_range u_range (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i(counts_i),
    .midpoint_i(write_data_i),
    .visible_i,
    .any_o(ranged_o),
    .highest_o,
    .lowest_o
  );

endmodule
