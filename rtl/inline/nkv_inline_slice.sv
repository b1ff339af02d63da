// One slice of the way between the CXL IP and a memory controller. The host's accesses pass, three
// cycles later than without it (two on the way to memory, one back) when nothing else is going on;
// near-data gets what the host leaves, its share, or its turn when it has waited long enough
// (nkv_host_first). Credits keep room for every answer (nkv_inline_channel).
//
// Order: of one side, reads go to memory in the order in which they came, and so do writes. Between
// a read and a write, or between host and near-data, there is none, at the same address neither: who
// needs it waits for the answer, as AXI has it. Answers come in memory's order.

`include "nkv_assert.svh"

module nkv_inline_slice
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned NearReadRoom = NearReadCredits,  // See nkv_inline_channel.
  parameter int unsigned NearWriteRoom = NearWriteCredits
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  inline_control_t   control_i,
  input  doorbell_control_t doorbells_i,

  input  host_request_t     host_i,
  output host_answer_t      host_o,
  output dev_load_e         load_o,
  output doorbell_t         doorbell_o,

  input  logic              near_ar_valid_i,
  output logic              near_ar_ready_o,
  input  access_t           near_ar_i,
  output logic              near_r_valid_o,
  input  logic              near_r_ready_i,
  output access_r_t         near_r_o,
  input  logic              near_w_valid_i,
  output logic              near_w_ready_o,
  input  axi_w_t            near_w_i,
  output logic              near_b_valid_o,
  input  logic              near_b_ready_i,
  output axi_b_t            near_b_o,

  output memory_request_t   memory_o,
  input  memory_answer_t    memory_i
);

  depth_t host_reads, host_writes, near_reads, near_writes;

  // ---- Reads ----
  logic host_ar_valid, host_ar_ready, near_ar_valid, near_ar_ready;
  access_t host_ar, near_ar;

  nkv_skid_buffer #(
    .T(access_t)
  ) u_host_ar (
    .clk_i,
    .rst_ni,
    .in_valid_i (host_i.ar_valid),
    .in_ready_o (host_o.ar_ready),
    .in_data_i  (host_i.ar),
    .out_valid_o(host_ar_valid),
    .out_ready_i(host_ar_ready),
    .out_data_o (host_ar)
  );
  nkv_skid_buffer #(
    .T(access_t)
  ) u_near_ar (
    .clk_i,
    .rst_ni,
    .in_valid_i (near_ar_valid_i),
    .in_ready_o (near_ar_ready_o),
    .in_data_i  (near_ar_i),
    .out_valid_o(near_ar_valid),
    .out_ready_i(near_ar_ready),
    .out_data_o (near_ar)
  );

  assign memory_o.r_ready = 1'b1;
  nkv_inline_channel #(
    .Request(access_t),
    .Answer(access_r_t),
    .HostLimit(HostCredits),
    .NearLimit(NearReadCredits),
    .NearRoom(NearReadRoom)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .share_i            (control_i.share),
    .age_cycles_i       (control_i.age_cycles),
    .near_least_i       (control_i.near_least),
    .limit_i            (control_i.read_limit),
    .host_valid_i       (host_ar_valid),
    .host_ready_o       (host_ar_ready),
    .host_i             (host_ar),
    .near_valid_i       (near_ar_valid),
    .near_ready_o       (near_ar_ready),
    .near_i             (near_ar),
    .memory_valid_o     (memory_o.ar_valid),
    .memory_ready_i     (memory_i.ar_ready),
    .memory_near_o      (memory_o.ar.is_near),
    .memory_o           (memory_o.ar.access),
    .answer_valid_i     (memory_i.r_valid),
    .answer_near_i      (memory_i.r.is_near),
    .answer_i           (memory_i.r.answer),
    .host_answer_valid_o(host_o.r_valid),
    .host_answer_ready_i(host_i.r_ready),
    .host_answer_o      (host_o.r),
    .near_answer_valid_o(near_r_valid_o),
    .near_answer_ready_i(near_r_ready_i),
    .near_answer_o      (near_r_o),
    .host_depth_o       (host_reads),
    .near_depth_o       (near_reads)
  );

  // ---- Writes ----
  logic host_w_valid, host_w_ready, near_w_valid, near_w_ready, write_valid, write_ready;
  axi_w_t host_w, near_w, write;
  logic write_near;

  nkv_write_join u_host_w (
    .clk_i,
    .rst_ni,
    .aw_valid_i(host_i.aw_valid),
    .aw_ready_o(host_o.aw_ready),
    .aw_i      (host_i.aw),
    .w_valid_i (host_i.w_valid),
    .w_ready_o (host_o.w_ready),
    .w_i       (host_i.w),
    .valid_o   (host_w_valid),
    .ready_i   (host_w_ready),
    .write_o   (host_w)
  );
  nkv_skid_buffer #(
    .T(axi_w_t)
  ) u_near_w (
    .clk_i,
    .rst_ni,
    .in_valid_i (near_w_valid_i),
    .in_ready_o (near_w_ready_o),
    .in_data_i  (near_w_i),
    .out_valid_o(near_w_valid),
    .out_ready_i(near_w_ready),
    .out_data_o (near_w)
  );

  assign memory_o.b_ready = 1'b1;
  nkv_inline_channel #(
    .Request(axi_w_t),
    .Answer(axi_b_t),
    .HostLimit(HostCredits),
    .NearLimit(NearWriteCredits),
    .NearRoom(NearWriteRoom)
  ) u_writes (
    .clk_i,
    .rst_ni,
    .share_i            (control_i.share),
    .age_cycles_i       (control_i.age_cycles),
    .near_least_i       (control_i.near_least),
    .limit_i            (control_i.write_limit),
    .host_valid_i       (host_w_valid),
    .host_ready_o       (host_w_ready),
    .host_i             (host_w),
    .near_valid_i       (near_w_valid),
    .near_ready_o       (near_w_ready),
    .near_i             (near_w),
    .memory_valid_o     (write_valid),
    .memory_ready_i     (write_ready),
    .memory_near_o      (write_near),
    .memory_o           (write),
    .answer_valid_i     (memory_i.b_valid),
    .answer_near_i      (memory_i.b.is_near),
    .answer_i           (memory_i.b.answer),
    .host_answer_valid_o(host_o.b_valid),
    .host_answer_ready_i(host_i.b_ready),
    .host_answer_o      (host_o.b),
    .near_answer_valid_o(near_b_valid_o),
    .near_answer_ready_i(near_b_ready_i),
    .near_answer_o      (near_b_o),
    .host_depth_o       (host_writes),
    .near_depth_o       (near_writes)
  );

  nkv_write_split u_split (
    .clk_i,
    .rst_ni,
    .valid_i   (write_valid),
    .ready_o   (write_ready),
    .aw_valid_o(memory_o.aw_valid),
    .aw_ready_i(memory_i.aw_ready),
    .w_valid_o (memory_o.w_valid),
    .w_ready_i (memory_i.w_ready)
  );
  assign memory_o.aw = '{is_near: write_near, access: '{id: write.id, addr: write.addr}};
  assign memory_o.w = '{strb: write.strb, poison: write.poison, data: write.data};

  // ---- What the host and the queues are told ----
  nkv_dev_load u_load (
    .clk_i,
    .rst_ni,
    .optimal_i    (control_i.optimal),
    .overload_i   (control_i.overload),
    .host_reads_i (host_reads),
    .host_writes_i(host_writes),
    .near_reads_i (near_reads),
    .near_writes_i(near_writes),
    .load_o
  );

  nkv_doorbells u_doorbells (
    .clk_i,
    .rst_ni,
    .control_i (doorbells_i),
    .write_i   (host_w_valid && host_w_ready),
    .address_i (host_w.addr),
    .strobes_i (host_w.strb[nkv_abi_pkg::DoorbellLineBytes-1:0]),
    .line_i    (host_w.data[8*nkv_abi_pkg::DoorbellLineBytes-1:0]),
    .poison_i  (host_w.poison),
    .doorbell_o
  );

  // ---- AXI's rules, at the host's port and at memory's ----
`ifndef SYNTHESIS
  nkv_axi_rules #(
    .IdBits(AxiIdBits),
    .RBits($bits(access_r_t)),
    .WBits($bits(access_w_t)),
    .BBits($bits(axi_b_t))
  ) u_host_rules (
    .clk_i,
    .rst_ni,
    .ar_valid_i(host_i.ar_valid),
    .ar_ready_i(host_o.ar_ready),
    .ar_id_i   (host_i.ar.id),
    .ar_addr_i (64'(host_i.ar.addr)),
    .ar_len_i  ('0),
    .r_valid_i (host_o.r_valid),
    .r_ready_i (host_i.r_ready),
    .r_id_i    (host_o.r.id),
    .r_last_i  (1'b1),
    .r_i       (host_o.r),
    .aw_valid_i(host_i.aw_valid),
    .aw_ready_i(host_o.aw_ready),
    .aw_id_i   (host_i.aw.id),
    .aw_addr_i (64'(host_i.aw.addr)),
    .aw_len_i  ('0),
    .w_valid_i (host_i.w_valid),
    .w_ready_i (host_o.w_ready),
    .w_last_i  (1'b1),
    .w_i       (host_i.w),
    .b_valid_i (host_o.b_valid),
    .b_ready_i (host_i.b_ready),
    .b_id_i    (host_o.b.id),
    .b_i       (host_o.b)
  );

  nkv_axi_rules #(
    .IdBits(AxiIdBits + 1),
    .RBits($bits(memory_r_t)),
    .WBits($bits(access_w_t)),
    .BBits($bits(memory_b_t))
  ) u_memory_rules (
    .clk_i,
    .rst_ni,
    .ar_valid_i(memory_o.ar_valid),
    .ar_ready_i(memory_i.ar_ready),
    .ar_id_i   ({memory_o.ar.is_near, memory_o.ar.access.id}),
    .ar_addr_i (64'(memory_o.ar.access.addr)),
    .ar_len_i  ('0),
    .r_valid_i (memory_i.r_valid),
    .r_ready_i (memory_o.r_ready),
    .r_id_i    ({memory_i.r.is_near, memory_i.r.answer.id}),
    .r_last_i  (1'b1),
    .r_i       (memory_i.r),
    .aw_valid_i(memory_o.aw_valid),
    .aw_ready_i(memory_i.aw_ready),
    .aw_id_i   ({memory_o.aw.is_near, memory_o.aw.access.id}),
    .aw_addr_i (64'(memory_o.aw.access.addr)),
    .aw_len_i  ('0),
    .w_valid_i (memory_o.w_valid),
    .w_ready_i (memory_i.w_ready),
    .w_last_i  (1'b1),
    .w_i       (memory_o.w),
    .b_valid_i (memory_i.b_valid),
    .b_ready_i (memory_o.b_ready),
    .b_id_i    ({memory_i.b.is_near, memory_i.b.answer.id}),
    .b_i       (memory_i.b)
  );
`endif

endmodule
