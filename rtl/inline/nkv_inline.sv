// The inline path: near-data's ports, one an engine, and the host's Slices ports on one side, a memory
// controller per slice on the other. The IP divides the host's accesses among the slices by the rule
// of nkv_slice_map, and keeps device addresses; controllers get addresses in their own memory.
//
// Near-data reads are at memory four cycles after they were asked for, writes two, when nothing else
// is going on; answers take one. With several ports each takes a cycle more. A port moves at most one
// burst of 64 bytes each way in a cycle, however many slices there are; what several ports ask of one
// slice, nkv_near_ports brings in order.

module nkv_inline
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1,  // 1, 2 or 4.
  parameter int unsigned Ports = 1    // Near-data's: 1, 2 or 4.
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  inline_control_t   control_i,    // Of every slice.
  input  doorbell_control_t doorbells_i,

  // The CXL IP.
  input  host_request_t   [Slices-1:0] host_i,
  output host_answer_t    [Slices-1:0] host_o,
  output dev_load_e       [Slices-1:0] load_o,
  output doorbell_t       [Slices-1:0] doorbell_o,  // A queue's line lies in one slice.

  // Engines and queues. A port's ids have its number in their bits PortBit and up.
  input  logic    [Ports-1:0] near_ar_valid_i,
  output logic    [Ports-1:0] near_ar_ready_o,
  input  axi_ar_t [Ports-1:0] near_ar_i,
  output logic    [Ports-1:0] near_r_valid_o,  // Answers are taken at once.
  output axi_r_t  [Ports-1:0] near_r_o,
  input  logic    [Ports-1:0] near_w_valid_i,
  output logic    [Ports-1:0] near_w_ready_o,
  input  axi_w_t  [Ports-1:0] near_w_i,
  output logic    [Ports-1:0] near_b_valid_o,
  output axi_b_t  [Ports-1:0] near_b_o,

  // The memory controllers.
  output memory_request_t [Slices-1:0] memory_o,
  input  memory_answer_t  [Slices-1:0] memory_i
);

  localparam int unsigned SliceBits = Slices > 1 ? $clog2(Slices) : 1;
  typedef logic [SliceBits-1:0] slice_t;

  localparam int unsigned PortBits = Ports > 1 ? $clog2(Ports) : 1;
  typedef logic [PortBits-1:0] port_t;

  // ---- Near-data's ports to the slices ----
  logic [Ports-1:0][Slices-1:0] read_valid, read_ready, r_valid, r_ready;
  logic [Ports-1:0][Slices-1:0] write_valid, write_ready, b_valid, b_ready;
  access_t   access[Ports];
  axi_w_t    write[Ports];
  access_r_t r[Slices][Ports];
  axi_b_t    b[Slices][Ports];

  for (genvar i = 0; i < int'(Ports); i++) begin : gen_port
    logic access_valid, access_ready;
    slice_t read_slice, write_slice;
    address_t unused_read_local, unused_write_local;
    access_r_t port_r[Slices], near_r;
    axi_b_t port_b[Slices];

    nkv_near_cut u_cut (
      .clk_i,
      .rst_ni,
      .ar_valid_i    (near_ar_valid_i[i]),
      .ar_ready_o    (near_ar_ready_o[i]),
      .ar_i          (near_ar_i[i]),
      .access_valid_o(access_valid),
      .access_ready_i(access_ready),
      .access_o      (access[i])
    );
    nkv_slice_map #(
      .Slices(Slices)
    ) u_read_slice (
      .address_i(access[i].addr),
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
      .valid_o       (read_valid[i]),
      .ready_i       (read_ready[i]),
      .answer_valid_i(r_valid[i]),
      .answer_ready_o(r_ready[i]),
      .answer_i      (port_r),
      .answer_valid_o(near_r_valid_o[i]),
      .answer_o      (near_r)
    );
    assign near_r_o[i] = '{
        id: near_r.id,
        error: near_r.error,
        poison: near_r.poison,
        last: 1'b1,
        data: near_r.data
    };

    assign write[i] = near_w_i[i];
    nkv_slice_map #(
      .Slices(Slices)
    ) u_write_slice (
      .address_i(write[i].addr),
      .slice_o  (write_slice),
      .local_o  (unused_write_local)
    );
    nkv_near_slices #(
      .Slices(Slices),
      .Answer(axi_b_t)
    ) u_near_writes (
      .clk_i,
      .rst_ni,
      .valid_i       (near_w_valid_i[i]),
      .ready_o       (near_w_ready_o[i]),
      .slice_i       (write_slice),
      .valid_o       (write_valid[i]),
      .ready_i       (write_ready[i]),
      .answer_valid_i(b_valid[i]),
      .answer_ready_o(b_ready[i]),
      .answer_i      (port_b),
      .answer_valid_o(near_b_valid_o[i]),
      .answer_o      (near_b_o[i])
    );
    for (genvar j = 0; j < int'(Slices); j++) begin : gen_answer
      assign port_r[j] = r[j][i];
      assign port_b[j] = b[j][i];
    end
  end

  // ---- Slices ----
  for (genvar i = 0; i < int'(Slices); i++) begin : gen_slice
    memory_request_t asked;  // At device addresses.
    address_t ar_local, aw_local;
    slice_t unused_ar_slice, unused_aw_slice;

    // What the ports ask here, and what they are told.
    logic [Ports-1:0] reads, reads_ready, answers, answers_ready;
    logic [Ports-1:0] writes, writes_ready, settled, settled_ready;
    logic near_ar_valid, near_ar_ready, near_r_valid, near_r_ready;
    logic near_w_valid, near_w_ready, near_b_valid, near_b_ready;
    access_t   near_ar;
    access_r_t near_r;
    axi_w_t    near_w;
    axi_b_t    near_b;

    for (genvar j = 0; j < int'(Ports); j++) begin : gen_port
      assign reads[j] = read_valid[j][i];
      assign read_ready[j][i] = reads_ready[j];
      assign r_valid[j][i] = answers[j];
      assign answers_ready[j] = r_ready[j][i];
      assign writes[j] = write_valid[j][i];
      assign write_ready[j][i] = writes_ready[j];
      assign b_valid[j][i] = settled[j];
      assign settled_ready[j] = b_ready[j][i];
    end

    nkv_near_ports #(
      .Ports(Ports),
      .Request(access_t),
      .Answer(access_r_t),
      .Queued(NearPortReads),
      .Credits(NearReadCredits / Ports)
    ) u_near_reads (
      .clk_i,
      .rst_ni,
      .valid_i       (reads),
      .ready_o       (reads_ready),
      .request_i     (access),
      .answer_valid_o(answers),
      .answer_ready_i(answers_ready),
      .answer_o      (r[i]),
      .valid_o       (near_ar_valid),
      .ready_i       (near_ar_ready),
      .request_o     (near_ar),
      .answer_valid_i(near_r_valid),
      .answer_ready_o(near_r_ready),
      .answer_port_i (port_t'(near_r.id[AxiIdBits-1:PortBit])),
      .answer_i      (near_r)
    );
    nkv_near_ports #(
      .Ports(Ports),
      .Request(axi_w_t),
      .Answer(axi_b_t),
      .Queued(NearPortWrites),
      .Credits(NearWriteCredits / Ports)
    ) u_near_writes (
      .clk_i,
      .rst_ni,
      .valid_i       (writes),
      .ready_o       (writes_ready),
      .request_i     (write),
      .answer_valid_o(settled),
      .answer_ready_i(settled_ready),
      .answer_o      (b[i]),
      .valid_o       (near_w_valid),
      .ready_i       (near_w_ready),
      .request_o     (near_w),
      .answer_valid_i(near_b_valid),
      .answer_ready_o(near_b_ready),
      .answer_port_i (port_t'(near_b.id[AxiIdBits-1:PortBit])),
      .answer_i      (near_b)
    );

    nkv_inline_slice #(
      .NearReadRoom(Ports == 1 ? NearReadCredits : 2),
      .NearWriteRoom(Ports == 1 ? NearWriteCredits : 2)
    ) u_slice (
      .clk_i,
      .rst_ni,
      .control_i,
      .doorbells_i,
      .host_i         (host_i[i]),
      .host_o         (host_o[i]),
      .load_o         (load_o[i]),
      .doorbell_o     (doorbell_o[i]),
      .near_ar_valid_i(near_ar_valid),
      .near_ar_ready_o(near_ar_ready),
      .near_ar_i      (near_ar),
      .near_r_valid_o (near_r_valid),
      .near_r_ready_i (near_r_ready),
      .near_r_o       (near_r),
      .near_w_valid_i (near_w_valid),
      .near_w_ready_o (near_w_ready),
      .near_w_i       (near_w),
      .near_b_valid_o (near_b_valid),
      .near_b_ready_i (near_b_ready),
      .near_b_o       (near_b),
      .memory_o       (asked),
      .memory_i       (memory_i[i])
    );

    always_comb begin
      memory_o[i] = asked;
      memory_o[i].ar.access.addr = ar_local;
      memory_o[i].aw.access.addr = aw_local;
    end
    nkv_slice_map #(
      .Slices(Slices)
    ) u_ar_local (
      .address_i(asked.ar.access.addr),
      .slice_o  (unused_ar_slice),
      .local_o  (ar_local)
    );
    nkv_slice_map #(
      .Slices(Slices)
    ) u_aw_local (
      .address_i(asked.aw.access.addr),
      .slice_o  (unused_aw_slice),
      .local_o  (aw_local)
    );
  end

endmodule
