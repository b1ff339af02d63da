// Reads of many bursts, answered in order. A request is cut into AXI bursts of up to 16 beats that
// do not cross 4 KiB; memory may answer them in any order, and a reorder buffer of `Slots` beats
// gives them out as they were asked for. One beat per cycle, from 4 cycles after its arrival.
//
// A request outside the window (`fault`) reads nothing: it gives one beat that says so, in its place.
// `clear_i` forgets everything; what memory still answers to earlier requests is dropped, because
// each clearing takes the next of four epochs, which ids carry.

module nkv_reader
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned Slots = Outstanding,  // A power of two, at most 128.
  parameter logic [2:0] Client = '0            // Upper bits of the ids.
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  // Guarded requests: `address_i` is where `request_i.address` lies in device memory.
  input  logic          request_valid_i,
  output logic          request_ready_o,
  input  read_request_t request_i,
  input  logic          fault_i,
  input  address_t      address_i,

  output logic          beat_valid_o,
  input  logic          beat_ready_i,
  output read_beat_t    beat_o,

  output logic          ar_valid_o,
  input  logic          ar_ready_i,
  output axi_ar_t       ar_o,
  input  logic          r_valid_i,
  output logic          r_ready_o,
  input  axi_r_t        r_i
);

  localparam int unsigned SlotBits = $clog2(Slots);
  localparam int unsigned MaxBeats = 16;
  typedef logic [SlotBits-1:0] slot_t;
  typedef logic [4:0] beats_t;

  // A run of beats with one tag: what one AXI burst reads.
  typedef struct packed {
    read_tag_t tag;
    beats_t    beats;
    logic      fault;
    logic      first;
    logic      last;
  } run_t;

  logic [1:0] epoch_q;
  slot_t      alloc_q, give_q;
  logic [SlotBits:0] held_q;  // Slots that are taken.

  // ---- Requests to AXI bursts ----
  logic          busy_q, first_q, fault_q;
  read_tag_t     tag_q;
  burst_count_t  bursts_q;
  address_t      address_q;

  wire [6:0] to_boundary = 7'd64 - {1'b0, address_q[11:6]};
  beats_t beats;
  always_comb begin
    beats = beats_t'(MaxBeats);
    if (to_boundary < 7'(MaxBeats)) beats = to_boundary[4:0];
    if (bursts_q < burst_count_t'(beats)) beats = bursts_q[4:0];
    if (fault_q) beats = 5'd1;
  end

  logic run_ready;
  wire has_slots = held_q + (SlotBits + 1)'(beats) <= (SlotBits + 1)'(Slots);
  wire can_issue = busy_q && has_slots && run_ready;
  wire issue = can_issue && (fault_q || ar_ready_i);
  wire last_run = fault_q || bursts_q == burst_count_t'(beats);

  assign ar_valid_o = can_issue && !fault_q;
  assign ar_o = '{
      id: axi_id_t'({Client, epoch_q, 7'(alloc_q)}),
      addr: address_q,
      len: 10'(beats) - 10'd1
  };
  assign request_ready_o = !busy_q || (issue && last_run);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      first_q <= 1'b0;
      fault_q <= 1'b0;
      tag_q <= '0;
      bursts_q <= '0;
      address_q <= '0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
    end else if (request_valid_i && request_ready_o) begin
      busy_q <= 1'b1;
      first_q <= 1'b1;
      fault_q <= fault_i;
      tag_q <= request_i.tag;
      bursts_q <= request_i.bursts;
      address_q <= address_i;
    end else if (issue) begin
      busy_q <= !last_run;
      first_q <= 1'b0;
      bursts_q <= bursts_q - burst_count_t'(beats);
      address_q <= address_q + address_t'({beats, 6'b0});
    end
  end

  // ---- Answers into their slots ----
  slot_t       r_base;
  logic [Slots-1:0][3:0] r_count_q;  // Beats of each id that have come.
  assign r_base = r_i.id[SlotBits-1:0];
  wire slot_t r_slot = r_base + slot_t'(r_count_q[r_base]);
  wire take = r_valid_i && r_i.id[8:7] == epoch_q;
  assign r_ready_o = 1'b1;

  typedef struct packed {
    logic   poison;
    burst_t data;
  } stored_t;
  (* ram_style = "block" *) stored_t store[Slots];
  logic [Slots-1:0] filled_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      r_count_q <= '0;
    end else if (clear_i) begin
      r_count_q <= '0;
    end else if (take) begin
      r_count_q[r_base] <= r_i.last ? '0 : r_count_q[r_base] + 4'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) store[r_slot] <= '{poison: r_i.poison || r_i.error, data: r_i.data};
  end

  // ---- Slots given out in order ----
  logic run_valid;
  logic [5:0] unused_runs;
  run_t run;
  beats_t given_q;  // Beats of the run that have been given.
  wire given_last = given_q + 5'd1 == run.beats;
  logic [2:0] waiting;  // Beats on their way out.
  wire give = run_valid && (run.fault || filled_q[give_q]) && waiting < 3'd4;

  nkv_fifo #(
    .T(run_t),
    .Depth(32)
  ) u_runs (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (issue),
    .in_ready_o (run_ready),
    .in_data_i  ('{
        tag: tag_q,
        beats: beats,
        fault: fault_q,
        first: first_q,
        last: last_run
    }),
    .out_valid_o(run_valid),
    .out_ready_i(give && given_last),
    .out_data_o (run),
    .used_o     (unused_runs)
  );

  typedef struct packed {
    logic      fault;
    logic      first;
    logic      last;
    read_tag_t tag;
  } label_t;
  logic    reading_q;
  label_t  label_q;
  stored_t stored_q;

  always_ff @(posedge clk_i) begin
    if (give) begin
      stored_q <= store[give_q];
      label_q <= '{
          fault: run.fault,
          first: run.first && given_q == '0,
          last: run.last && given_last,
          tag: run.tag
      };
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      epoch_q <= '0;
      alloc_q <= '0;
      give_q <= '0;
      held_q <= '0;
      given_q <= '0;
      reading_q <= 1'b0;
      filled_q <= '0;
    end else if (clear_i) begin
      epoch_q <= epoch_q + 2'd1;
      alloc_q <= '0;
      give_q <= '0;
      held_q <= '0;
      given_q <= '0;
      reading_q <= 1'b0;
      filled_q <= '0;
    end else begin
      reading_q <= give;
      held_q <= held_q + (issue ? (SlotBits + 1)'(beats) : '0) - (SlotBits + 1)'(give);
      if (issue) alloc_q <= alloc_q + slot_t'(beats);
      if (give) begin
        give_q <= give_q + 1'b1;
        given_q <= given_last ? '0 : given_q + 5'd1;
        filled_q[give_q] <= 1'b0;
      end
      if (take) filled_q[r_slot] <= 1'b1;
    end
  end

  logic [2:0] out_used;
  logic unused_out_ready;  // `waiting` keeps room.
  assign waiting = out_used + 3'(reading_q);
  nkv_fifo #(
    .T(read_beat_t),
    .Depth(4)
  ) u_out (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (reading_q),
    .in_ready_o (unused_out_ready),
    .in_data_i  ('{
        fault: label_q.fault,
        poison: stored_q.poison && !label_q.fault,
        first: label_q.first,
        last: label_q.last,
        tag: label_q.tag,
        data: stored_q.data
    }),
    .out_valid_o(beat_valid_o),
    .out_ready_i(beat_ready_i),
    .out_data_o (beat_o),
    .used_o     (out_used)
  );

  // The guard has made an address of it.
  wire unused_offset = ^request_i.address;

endmodule
