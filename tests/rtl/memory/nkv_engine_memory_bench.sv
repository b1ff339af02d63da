// nkv_engine_memory with three readers and three writers, whose fields are ports. Writer 1 trails, in a window
// that begins `trailing_offset_i` after that of the others and is as large; the third ones have one that
// begins `scratch_offset_i` after it. Of a read's tag only the page is the test's; all of it travels alike.
module nkv_engine_memory_bench
  import nkv_pkg::*;
#(
  localparam int unsigned Readers = 3,
  localparam int unsigned Writers = 3,
  localparam logic [2:0] Client = 3'd5
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,
  input  logic               forget_reads_i,
  input  address_t           window_base_i,
  input  address_t           window_bytes_i,
  input  address_t           trailing_offset_i,
  input  address_t           scratch_offset_i,

  input  logic [Readers-1:0] read_valid_i,
  output logic [Readers-1:0] read_ready_o,
  input  logic [63:0]        read_address_i[Readers],
  input  burst_count_t       read_bursts_i[Readers],
  input  page_index_t        read_page_i[Readers],
  output logic               beat_valid_o,
  input  logic               beat_ready_i,
  output logic               beat_fault_o,
  output logic               beat_poison_o,
  output logic               beat_first_o,
  output logic               beat_last_o,
  output page_index_t        beat_page_o,
  output burst_t             beat_data_o,

  input  logic [Writers-1:0] write_valid_i,
  output logic [Writers-1:0] write_ready_o,
  input  logic [63:0]        write_address_i[Writers],
  input  logic [63:0]        write_strobes_i[Writers],
  input  burst_t             write_data_i[Writers],
  output logic               writes_done_o,
  output logic               trailing_done_o,

  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output axi_id_t            ar_id_o,
  output address_t           ar_addr_o,
  output logic [9:0]         ar_len_o,
  input  logic               r_valid_i,
  input  axi_id_t            r_id_i,
  input  logic               r_error_i,
  input  logic               r_poison_i,
  input  logic               r_last_i,
  input  burst_t             r_data_i,
  output logic               w_valid_o,
  input  logic               w_ready_i,
  output axi_id_t            w_id_o,
  output address_t           w_addr_o,
  output logic [63:0]        w_strb_o,
  output burst_t             w_data_o,
  input  logic               b_valid_i,
  input  axi_id_t            b_id_i
);

  read_request_t  [Readers-1:0] read;
  write_request_t [Writers-1:0] write;
  read_beat_t beat;
  axi_ar_t    ar;
  axi_w_t     w;

  always_comb begin
    for (int unsigned i = 0; i < Readers; i++) begin
      read[i] = '{
          tag: '{page: read_page_i[i], sink: SinkHeader, default: '0},
          bursts: read_bursts_i[i],
          address: read_address_i[i]
      };
    end
    for (int unsigned i = 0; i < Writers; i++) begin
      write[i] = '{
          address: write_address_i[i],
          strobes: write_strobes_i[i],
          data: write_data_i[i]
      };
    end
  end

  nkv_engine_memory #(
    .Readers(Readers),
    .Writers(Writers),
    .Trailing(3'b010),
    .ScratchReaders(3'b100),
    .ScratchWriters(3'b100),
    .Client (Client)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .clear_i,
    .forget_reads_i,
    .domain_i('{tenant: '0, window_bytes: window_bytes_i, window_base: window_base_i}),
    .trailing_domain_i('{
        tenant: '0,
        window_bytes: window_bytes_i,
        window_base: window_base_i + trailing_offset_i
    }),
    .scratch_domain_i('{
        tenant: '0,
        window_bytes: window_bytes_i,
        window_base: window_base_i + scratch_offset_i
    }),
    .read_valid_i,
    .read_ready_o,
    .read_i  (read),
    .beat_valid_o,
    .beat_ready_i,
    .beat_o  (beat),
    .write_valid_i,
    .write_ready_o,
    .write_i (write),
    .writes_done_o,
    .trailing_done_o,
    .ar_valid_o,
    .ar_ready_i,
    .ar_o    (ar),
    .r_valid_i,
    .r_i     ('{id: r_id_i, error: r_error_i, poison: r_poison_i, last: r_last_i, data: r_data_i}),
    .w_valid_o,
    .w_ready_i,
    .w_o     (w),
    .b_valid_i,
    .b_i     ('{id: b_id_i, error: 1'b0})
  );

  assign beat_fault_o = beat.fault;
  assign beat_poison_o = beat.poison;
  assign beat_first_o = beat.first;
  assign beat_last_o = beat.last;
  assign beat_page_o = beat.tag.page;
  assign beat_data_o = beat.data;
  assign {ar_id_o, ar_addr_o, ar_len_o} = ar;
  assign w_id_o = w.id;
  assign w_addr_o = w.addr;
  assign w_strb_o = w.strb;
  assign w_data_o = w.data;

  wire unused = ^{beat.tag, w.poison};

endmodule
