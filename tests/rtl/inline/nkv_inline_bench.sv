// nkv_inline with ports that C++ can name one by one, arrays over the slices or near-data's ports.

module nkv_inline_bench
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1,
  parameter int unsigned Ports = 1,
  parameter int unsigned GranuleBytes = 256
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic [3:0]   share_i,
  input  logic [9:0]   age_cycles_i,
  input  logic [9:0]   near_least_i,
  input  logic [9:0]   read_limit_i,
  input  logic [9:0]   write_limit_i,
  input  logic [9:0]   optimal_i,
  input  logic [9:0]   overload_i,
  input  logic [15:0]  doorbell_enable_i,
  input  logic [63:0]  doorbell_base_i,

  input  logic         host_ar_valid_i[Slices],
  output logic         host_ar_ready_o[Slices],
  input  logic [11:0]  host_ar_id_i[Slices],
  input  logic [63:0]  host_ar_addr_i[Slices],
  output logic         host_r_valid_o[Slices],
  input  logic         host_r_ready_i[Slices],
  output logic [11:0]  host_r_id_o[Slices],
  output logic         host_r_error_o[Slices],
  output logic         host_r_poison_o[Slices],
  output logic [511:0] host_r_data_o[Slices],
  input  logic         host_aw_valid_i[Slices],
  output logic         host_aw_ready_o[Slices],
  input  logic [11:0]  host_aw_id_i[Slices],
  input  logic [63:0]  host_aw_addr_i[Slices],
  input  logic         host_w_valid_i[Slices],
  output logic         host_w_ready_o[Slices],
  input  logic [63:0]  host_w_strb_i[Slices],
  input  logic         host_w_poison_i[Slices],
  input  logic [511:0] host_w_data_i[Slices],
  output logic         host_b_valid_o[Slices],
  input  logic         host_b_ready_i[Slices],
  output logic [11:0]  host_b_id_o[Slices],
  output logic         host_b_error_o[Slices],
  output logic [1:0]   load_o[Slices],
  output logic         doorbell_brings_tail_o[Slices],
  output logic         doorbell_brings_head_o[Slices],
  output logic [3:0]   doorbell_index_o[Slices],
  output logic [15:0]  doorbell_tail_o[Slices],
  output logic [15:0]  doorbell_head_o[Slices],

  input  logic         near_ar_valid_i[Ports],
  output logic         near_ar_ready_o[Ports],
  input  logic [11:0]  near_ar_id_i[Ports],
  input  logic [63:0]  near_ar_addr_i[Ports],
  input  logic [9:0]   near_ar_len_i[Ports],
  output logic         near_r_valid_o[Ports],
  output logic [11:0]  near_r_id_o[Ports],
  output logic         near_r_error_o[Ports],
  output logic         near_r_poison_o[Ports],
  output logic         near_r_last_o[Ports],
  output logic [511:0] near_r_data_o[Ports],
  input  logic         near_w_valid_i[Ports],
  output logic         near_w_ready_o[Ports],
  input  logic [11:0]  near_w_id_i[Ports],
  input  logic [63:0]  near_w_addr_i[Ports],
  input  logic [63:0]  near_w_strb_i[Ports],
  input  logic         near_w_poison_i[Ports],
  input  logic [511:0] near_w_data_i[Ports],
  output logic         near_b_valid_o[Ports],
  output logic [11:0]  near_b_id_o[Ports],
  output logic         near_b_error_o[Ports],

  output logic         memory_ar_valid_o[Slices],
  input  logic         memory_ar_ready_i[Slices],
  output logic [12:0]  memory_ar_id_o[Slices],
  output logic [63:0]  memory_ar_addr_o[Slices],
  input  logic         memory_r_valid_i[Slices],
  output logic         memory_r_ready_o[Slices],
  input  logic [12:0]  memory_r_id_i[Slices],
  input  logic         memory_r_error_i[Slices],
  input  logic         memory_r_poison_i[Slices],
  input  logic [511:0] memory_r_data_i[Slices],
  output logic         memory_aw_valid_o[Slices],
  input  logic         memory_aw_ready_i[Slices],
  output logic [12:0]  memory_aw_id_o[Slices],
  output logic [63:0]  memory_aw_addr_o[Slices],
  output logic         memory_w_valid_o[Slices],
  input  logic         memory_w_ready_i[Slices],
  output logic [63:0]  memory_w_strb_o[Slices],
  output logic         memory_w_poison_o[Slices],
  output logic [511:0] memory_w_data_o[Slices],
  input  logic         memory_b_valid_i[Slices],
  output logic         memory_b_ready_o[Slices],
  input  logic [12:0]  memory_b_id_i[Slices],
  input  logic         memory_b_error_i[Slices]
);

  logic      [Slices-1:0] host_ar_valid, host_ar_ready, host_r_valid, host_r_ready;
  logic      [Slices-1:0] host_aw_valid, host_aw_ready, host_w_valid, host_w_ready;
  logic      [Slices-1:0] host_b_valid, host_b_ready;
  access_t   [Slices-1:0] host_ar, host_aw;
  access_r_t [Slices-1:0] host_r;
  access_w_t [Slices-1:0] host_w;
  axi_b_t    [Slices-1:0] host_b;
  dev_load_e [Slices-1:0] load;
  doorbell_t [Slices-1:0] doorbell;
  logic      [Slices-1:0] memory_ar_valid, memory_ar_ready, memory_r_valid, memory_r_ready;
  logic      [Slices-1:0] memory_aw_valid, memory_aw_ready, memory_w_valid, memory_w_ready;
  logic      [Slices-1:0] memory_b_valid, memory_b_ready;
  memory_access_t [Slices-1:0] memory_ar, memory_aw;
  memory_r_t [Slices-1:0] memory_r;
  access_w_t [Slices-1:0] memory_w;
  memory_b_t [Slices-1:0] memory_b;
  logic    [Ports-1:0] near_ar_valid, near_ar_ready, near_r_valid;
  logic    [Ports-1:0] near_w_valid, near_w_ready, near_b_valid;
  axi_ar_t [Ports-1:0] near_ar;
  axi_r_t  [Ports-1:0] near_r;
  axi_w_t  [Ports-1:0] near_w;
  axi_b_t  [Ports-1:0] near_b;

  for (genvar i = 0; i < int'(Slices); i++) begin : gen_slice
    assign host_ar_valid[i] = host_ar_valid_i[i];
    assign host_ar_ready_o[i] = host_ar_ready[i];
    assign host_ar[i] = {host_ar_id_i[i], host_ar_addr_i[i][AddressBits-1:0]};
    assign host_r_valid_o[i] = host_r_valid[i];
    assign host_r_ready[i] = host_r_ready_i[i];
    assign {host_r_id_o[i], host_r_error_o[i], host_r_poison_o[i], host_r_data_o[i]} = host_r[i];
    assign host_aw_valid[i] = host_aw_valid_i[i];
    assign host_aw_ready_o[i] = host_aw_ready[i];
    assign host_aw[i] = {host_aw_id_i[i], host_aw_addr_i[i][AddressBits-1:0]};
    assign host_w_valid[i] = host_w_valid_i[i];
    assign host_w_ready_o[i] = host_w_ready[i];
    assign host_w[i] = {host_w_strb_i[i], host_w_poison_i[i], host_w_data_i[i]};
    assign host_b_valid_o[i] = host_b_valid[i];
    assign host_b_ready[i] = host_b_ready_i[i];
    assign {host_b_id_o[i], host_b_error_o[i]} = host_b[i];
    assign load_o[i] = load[i];
    assign doorbell_brings_tail_o[i] = doorbell[i].brings_tail;
    assign doorbell_brings_head_o[i] = doorbell[i].brings_head;
    assign doorbell_index_o[i] = doorbell[i].index;
    assign doorbell_tail_o[i] = doorbell[i].tail;
    assign doorbell_head_o[i] = doorbell[i].head;
    assign memory_ar_valid_o[i] = memory_ar_valid[i];
    assign memory_ar_ready[i] = memory_ar_ready_i[i];
    assign memory_ar_id_o[i] = {memory_ar[i].is_near, memory_ar[i].access.id};
    assign memory_ar_addr_o[i] = 64'(memory_ar[i].access.addr);
    assign memory_r_valid[i] = memory_r_valid_i[i];
    assign memory_r_ready_o[i] = memory_r_ready[i];
    assign memory_r[i] =
        {memory_r_id_i[i], memory_r_error_i[i], memory_r_poison_i[i], memory_r_data_i[i]};
    assign memory_aw_valid_o[i] = memory_aw_valid[i];
    assign memory_aw_ready[i] = memory_aw_ready_i[i];
    assign memory_aw_id_o[i] = {memory_aw[i].is_near, memory_aw[i].access.id};
    assign memory_aw_addr_o[i] = 64'(memory_aw[i].access.addr);
    assign memory_w_valid_o[i] = memory_w_valid[i];
    assign memory_w_ready[i] = memory_w_ready_i[i];
    assign {memory_w_strb_o[i], memory_w_poison_o[i], memory_w_data_o[i]} = memory_w[i];
    assign memory_b_valid[i] = memory_b_valid_i[i];
    assign memory_b_ready_o[i] = memory_b_ready[i];
    assign memory_b[i] = {memory_b_id_i[i], memory_b_error_i[i]};
    wire unused_bits = ^{host_ar_addr_i[i][63:AddressBits], host_aw_addr_i[i][63:AddressBits]};
  end

  for (genvar i = 0; i < int'(Ports); i++) begin : gen_port
    assign near_ar_valid[i] = near_ar_valid_i[i];
    assign near_ar_ready_o[i] = near_ar_ready[i];
    assign near_ar[i] = {near_ar_id_i[i], near_ar_addr_i[i][AddressBits-1:0], near_ar_len_i[i]};
    assign near_r_valid_o[i] = near_r_valid[i];
    assign {
      near_r_id_o[i], near_r_error_o[i], near_r_poison_o[i], near_r_last_o[i], near_r_data_o[i]
    } = near_r[i];
    assign near_w_valid[i] = near_w_valid_i[i];
    assign near_w_ready_o[i] = near_w_ready[i];
    assign near_w[i] = {
      near_w_id_i[i], near_w_addr_i[i][AddressBits-1:0], near_w_strb_i[i], near_w_poison_i[i],
      near_w_data_i[i]
    };
    assign near_b_valid_o[i] = near_b_valid[i];
    assign {near_b_id_o[i], near_b_error_o[i]} = near_b[i];
    wire unused_bits = ^{near_ar_addr_i[i][63:AddressBits], near_w_addr_i[i][63:AddressBits]};
  end

  nkv_inline #(
    .Slices(Slices),
    .Ports(Ports),
    .GranuleBytes(GranuleBytes)
  ) u_inline (
    .clk_i,
    .rst_ni,
    .control_i        ({
        share_i, age_cycles_i, near_least_i, read_limit_i, write_limit_i, optimal_i, overload_i
    }),
    .doorbells_i      ({doorbell_enable_i, doorbell_base_i[AddressBits-1:0]}),
    .host_ar_valid_i  (host_ar_valid),
    .host_ar_ready_o  (host_ar_ready),
    .host_ar_i        (host_ar),
    .host_r_valid_o   (host_r_valid),
    .host_r_ready_i   (host_r_ready),
    .host_r_o         (host_r),
    .host_aw_valid_i  (host_aw_valid),
    .host_aw_ready_o  (host_aw_ready),
    .host_aw_i        (host_aw),
    .host_w_valid_i   (host_w_valid),
    .host_w_ready_o   (host_w_ready),
    .host_w_i         (host_w),
    .host_b_valid_o   (host_b_valid),
    .host_b_ready_i   (host_b_ready),
    .host_b_o         (host_b),
    .load_o           (load),
    .doorbell_o       (doorbell),
    .near_ar_valid_i  (near_ar_valid),
    .near_ar_ready_o  (near_ar_ready),
    .near_ar_i        (near_ar),
    .near_r_valid_o   (near_r_valid),
    .near_r_o         (near_r),
    .near_w_valid_i   (near_w_valid),
    .near_w_ready_o   (near_w_ready),
    .near_w_i         (near_w),
    .near_b_valid_o   (near_b_valid),
    .near_b_o         (near_b),
    .memory_ar_valid_o(memory_ar_valid),
    .memory_ar_ready_i(memory_ar_ready),
    .memory_ar_o      (memory_ar),
    .memory_r_valid_i (memory_r_valid),
    .memory_r_ready_o (memory_r_ready),
    .memory_r_i       (memory_r),
    .memory_aw_valid_o(memory_aw_valid),
    .memory_aw_ready_i(memory_aw_ready),
    .memory_aw_o      (memory_aw),
    .memory_w_valid_o (memory_w_valid),
    .memory_w_ready_i (memory_w_ready),
    .memory_w_o       (memory_w),
    .memory_b_valid_i (memory_b_valid),
    .memory_b_ready_o (memory_b_ready),
    .memory_b_i       (memory_b)
  );

  // Addresses have 52 bits.
  wire unused_bits = ^doorbell_base_i[63:AddressBits];

endmodule
