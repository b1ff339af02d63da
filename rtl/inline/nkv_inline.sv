// The inline path: near-data's one port and the host's Slices ports on one side, a memory controller
// per slice on the other. The IP divides the host's accesses among the slices by the rule of
// nkv_slice_map, and keeps device addresses; controllers get addresses in their own memory.
//
// Near-data reads are at memory four cycles after they were asked for, writes two, when nothing else
// is going on; answers take one. Near-data moves at most one burst of 64 bytes each way in a
// cycle, however many slices there are.

module nkv_inline
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1,          // 1, 2 or 4.
  parameter int unsigned GranuleBytes = 256
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  inline_control_t   control_i,    // Of every slice.
  input  doorbell_control_t doorbells_i,

  // The CXL IP.
  input  logic      [Slices-1:0] host_ar_valid_i,
  output logic      [Slices-1:0] host_ar_ready_o,
  input  access_t   [Slices-1:0] host_ar_i,
  output logic      [Slices-1:0] host_r_valid_o,
  input  logic      [Slices-1:0] host_r_ready_i,
  output access_r_t [Slices-1:0] host_r_o,
  input  logic      [Slices-1:0] host_aw_valid_i,
  output logic      [Slices-1:0] host_aw_ready_o,
  input  access_t   [Slices-1:0] host_aw_i,
  input  logic      [Slices-1:0] host_w_valid_i,
  output logic      [Slices-1:0] host_w_ready_o,
  input  access_w_t [Slices-1:0] host_w_i,
  output logic      [Slices-1:0] host_b_valid_o,
  input  logic      [Slices-1:0] host_b_ready_i,
  output axi_b_t    [Slices-1:0] host_b_o,
  output dev_load_e [Slices-1:0] load_o,
  output doorbell_t [Slices-1:0] doorbell_o,  // A queue's line lies in one slice.

  // The engine and the queues.
  input  logic    near_ar_valid_i,
  output logic    near_ar_ready_o,
  input  axi_ar_t near_ar_i,
  output logic    near_r_valid_o,             // Answers are taken at once.
  output axi_r_t  near_r_o,
  input  logic    near_w_valid_i,
  output logic    near_w_ready_o,
  input  axi_w_t  near_w_i,
  output logic    near_b_valid_o,
  output axi_b_t  near_b_o,

  // The memory controllers.
  output logic           [Slices-1:0] memory_ar_valid_o,
  input  logic           [Slices-1:0] memory_ar_ready_i,
  output memory_access_t [Slices-1:0] memory_ar_o,
  input  logic           [Slices-1:0] memory_r_valid_i,
  output logic           [Slices-1:0] memory_r_ready_o,
  input  memory_r_t      [Slices-1:0] memory_r_i,
  output logic           [Slices-1:0] memory_aw_valid_o,
  input  logic           [Slices-1:0] memory_aw_ready_i,
  output memory_access_t [Slices-1:0] memory_aw_o,
  output logic           [Slices-1:0] memory_w_valid_o,
  input  logic           [Slices-1:0] memory_w_ready_i,
  output access_w_t      [Slices-1:0] memory_w_o,
  input  logic           [Slices-1:0] memory_b_valid_i,
  output logic           [Slices-1:0] memory_b_ready_o,
  input  memory_b_t      [Slices-1:0] memory_b_i
);

  localparam int unsigned SliceBits = Slices > 1 ? $clog2(Slices) : 1;
  typedef logic [SliceBits-1:0] slice_t;

  // ---- Near-data to its slices ----
  logic access_valid, access_ready;
  access_t access;
  slice_t read_slice, write_slice;
  logic [Slices-1:0] read_valid, read_ready, r_valid, r_ready;
  logic [Slices-1:0] write_valid, write_ready, b_valid, b_ready;
  access_r_t r[Slices], near_r;
  axi_b_t b[Slices];
  address_t unused_read_local, unused_write_local;

  nkv_near_cut u_cut (
    .clk_i,
    .rst_ni,
    .ar_valid_i    (near_ar_valid_i),
    .ar_ready_o    (near_ar_ready_o),
    .ar_i          (near_ar_i),
    .access_valid_o(access_valid),
    .access_ready_i(access_ready),
    .access_o      (access)
  );
  nkv_slice_map #(
    .Slices(Slices),
    .GranuleBytes(GranuleBytes)
  ) u_read_slice (
    .address_i(access.addr),
    .slice_o  (read_slice),
    .local_o  (unused_read_local)
  );
  nkv_near_slices #(
    .Slices(Slices),
    .Answer(access_r_t)
  ) u_near_reads (
    .clk_i,
    .rst_ni,
    .valid_i       (access_valid),
    .ready_o       (access_ready),
    .slice_i       (read_slice),
    .valid_o       (read_valid),
    .ready_i       (read_ready),
    .answer_valid_i(r_valid),
    .answer_ready_o(r_ready),
    .answer_i      (r),
    .answer_valid_o(near_r_valid_o),
    .answer_o      (near_r)
  );
  assign near_r_o = '{
      id: near_r.id,
      error: near_r.error,
      poison: near_r.poison,
      last: 1'b1,
      data: near_r.data
  };

  nkv_slice_map #(
    .Slices(Slices),
    .GranuleBytes(GranuleBytes)
  ) u_write_slice (
    .address_i(near_w_i.addr),
    .slice_o  (write_slice),
    .local_o  (unused_write_local)
  );
  nkv_near_slices #(
    .Slices(Slices),
    .Answer(axi_b_t)
  ) u_near_writes (
    .clk_i,
    .rst_ni,
    .valid_i       (near_w_valid_i),
    .ready_o       (near_w_ready_o),
    .slice_i       (write_slice),
    .valid_o       (write_valid),
    .ready_i       (write_ready),
    .answer_valid_i(b_valid),
    .answer_ready_o(b_ready),
    .answer_i      (b),
    .answer_valid_o(near_b_valid_o),
    .answer_o      (near_b_o)
  );

  // ---- Slices ----
  for (genvar i = 0; i < int'(Slices); i++) begin : gen_slice
    memory_access_t ar, aw;
    slice_t unused_ar_slice, unused_aw_slice;

    nkv_inline_slice u_slice (
      .clk_i,
      .rst_ni,
      .control_i,
      .doorbells_i,
      .host_ar_valid_i  (host_ar_valid_i[i]),
      .host_ar_ready_o  (host_ar_ready_o[i]),
      .host_ar_i        (host_ar_i[i]),
      .host_r_valid_o   (host_r_valid_o[i]),
      .host_r_ready_i   (host_r_ready_i[i]),
      .host_r_o         (host_r_o[i]),
      .host_aw_valid_i  (host_aw_valid_i[i]),
      .host_aw_ready_o  (host_aw_ready_o[i]),
      .host_aw_i        (host_aw_i[i]),
      .host_w_valid_i   (host_w_valid_i[i]),
      .host_w_ready_o   (host_w_ready_o[i]),
      .host_w_i         (host_w_i[i]),
      .host_b_valid_o   (host_b_valid_o[i]),
      .host_b_ready_i   (host_b_ready_i[i]),
      .host_b_o         (host_b_o[i]),
      .load_o           (load_o[i]),
      .doorbell_o       (doorbell_o[i]),
      .near_ar_valid_i  (read_valid[i]),
      .near_ar_ready_o  (read_ready[i]),
      .near_ar_i        (access),
      .near_r_valid_o   (r_valid[i]),
      .near_r_ready_i   (r_ready[i]),
      .near_r_o         (r[i]),
      .near_w_valid_i   (write_valid[i]),
      .near_w_ready_o   (write_ready[i]),
      .near_w_i,
      .near_b_valid_o   (b_valid[i]),
      .near_b_ready_i   (b_ready[i]),
      .near_b_o         (b[i]),
      .memory_ar_valid_o(memory_ar_valid_o[i]),
      .memory_ar_ready_i(memory_ar_ready_i[i]),
      .memory_ar_o      (ar),
      .memory_r_valid_i (memory_r_valid_i[i]),
      .memory_r_ready_o (memory_r_ready_o[i]),
      .memory_r_i       (memory_r_i[i]),
      .memory_aw_valid_o(memory_aw_valid_o[i]),
      .memory_aw_ready_i(memory_aw_ready_i[i]),
      .memory_aw_o      (aw),
      .memory_w_valid_o (memory_w_valid_o[i]),
      .memory_w_ready_i (memory_w_ready_i[i]),
      .memory_w_o       (memory_w_o[i]),
      .memory_b_valid_i (memory_b_valid_i[i]),
      .memory_b_ready_o (memory_b_ready_o[i]),
      .memory_b_i       (memory_b_i[i])
    );

    assign memory_ar_o[i].is_near = ar.is_near;
    assign memory_ar_o[i].access.id = ar.access.id;
    nkv_slice_map #(
      .Slices(Slices),
      .GranuleBytes(GranuleBytes)
    ) u_ar_local (
      .address_i(ar.access.addr),
      .slice_o  (unused_ar_slice),
      .local_o  (memory_ar_o[i].access.addr)
    );
    assign memory_aw_o[i].is_near = aw.is_near;
    assign memory_aw_o[i].access.id = aw.access.id;
    nkv_slice_map #(
      .Slices(Slices),
      .GranuleBytes(GranuleBytes)
    ) u_aw_local (
      .address_i(aw.access.addr),
      .slice_o  (unused_aw_slice),
      .local_o  (memory_aw_o[i].access.addr)
    );
  end

endmodule
