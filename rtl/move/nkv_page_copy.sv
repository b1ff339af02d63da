// Bodies of pages on their way from one place to another, a burst per cycle. Of each page its
// header goes first, under the new generation, without the word that makes it a header; then its bursts as
// they come, which are all that lie behind the header, in order.

module nkv_page_copy
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_crc32c_pkg::*;
#(
  parameter int unsigned Ahead = 4         // Pages that may be on their way.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           page_valid_i,
  output logic           page_ready_o,
  input  page_header_t   header_i,
  input  logic [31:0]    total_bytes_i,
  input  logic [31:0]    page_i,           // Where it goes,
  input  logic [15:0]    generation_i,     // under which generation.
  output logic           idle_o,

  input  logic           beat_valid_i,
  output logic           beat_ready_o,
  input  burst_t         beat_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  // How a checksum over the first CheckedBytes of a header changes with the word of `generation`.
  localparam int unsigned GenerationAt = 16;
  localparam int unsigned CheckedBytes = 60;
  localparam matrix_t FromGeneration = product(product(forth(5), forth(3)), forth(2));
  if (CheckedBytes - GenerationAt != 44) begin : gen_no_such_header
    $fatal(1, "FromGeneration is the matrix of 44 bytes");
  end

  function automatic page_header_t renewed(page_header_t header, logic [15:0] generation);
    automatic page_header_t result = header;
    automatic logic [15:0] change = generation ^ header.generation;
    result.generation = generation;
    result.crc_hot = header.crc_hot ^ apply(FromGeneration, 32'(change));
    return result;
  endfunction

  typedef struct packed {
    page_header_t header;
    logic [31:0]  total_bytes;
    logic [31:0]  page;
  } copy_t;

  logic  copy_valid, ends;
  copy_t copy;
  logic [$clog2(Ahead):0] used;

  nkv_fifo #(
    .T(copy_t),
    .Depth(Ahead)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_valid_i),
    .in_ready_o (page_ready_o),
    .in_data_i  ('{
        header: renewed(header_i, generation_i),
        total_bytes: total_bytes_i,
        page: page_i
    }),
    .out_valid_o(copy_valid),
    .out_ready_i(ends),
    .out_data_o (copy),
    .used_o     (used)
  );
  assign idle_o = used == '0;

  logic [31:0] done_q;  // Bytes.
  wire         in_header = done_q < 32'(PageHeaderBytes);
  wire         in_first = done_q == '0;
  wire         sent = write_valid_o && write_ready_i;

  assign write_valid_o = copy_valid && (in_header || beat_valid_i);
  assign beat_ready_o = copy_valid && !in_header && write_ready_i;
  assign write_o = '{
      address: 64'(copy.page) * 64'(PageGrainBytes) + 64'(done_q),
      strobes: in_first ? HeaderRest : '1,
      data: in_first ? copy.header[BurstBits-1:0]
          : in_header ? copy.header[2*BurstBits-1:BurstBits] : beat_i
  };
  assign ends = sent && done_q + 32'(BurstBytes) == copy.total_bytes;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_q <= '0;
    else if (clear_i || ends) done_q <= '0;
    else if (sent) done_q <= done_q + 32'(BurstBytes);
  end

endmodule
