// Reads of many bursts, answered in order. A request is cut into AXI bursts of up to 16 beats that
// do not cross 1 KiB; memory may answer them in any order, and a reorder buffer of `Slots` beats
// gives them out as they were asked for. A run may be issued per cycle, from two cycles after its
// request; one beat per cycle is given, from 7 cycles after its arrival.
//
// A request outside the window (`fault`) reads nothing: it gives one beat that says so, in its place, whose
// data are zeros, not what its slot held for a command before.
// `clear_i` forgets everything. What memory then still owes is counted and dropped, and nothing is asked
// for until all of it has come: an answer to a request before a clearing is never taken for one after it,
// however many clearings there are. When memory is known to have lost it, `forfeit_i` ends the wait; what
// comes even later is dropped by its epoch, which ids carry.

`include "nkv_assert.svh"

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
  input  logic          forfeit_i,   // With clear_i: what memory owes will not come.
  output logic          quiet_o,     // It owes nothing.

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

  logic [1:0] epoch_q;        // Of forfeits.
  logic       stale;          // Beats that memory owes are of no use any more.
  slot_t      alloc_q, give_q;
  logic [SlotBits:0] free_q;  // Slots that are not taken.

  // ---- Requests to runs ----
  logic          busy_q, first_q, fault_q;
  read_tag_t     tag_q;
  burst_count_t  bursts_q;
  address_t      address_q;

  // A run ends with its 1 KiB.
  wire beats_t to_boundary = beats_t'(MaxBeats) - {1'b0, address_q[9:6]};
  wire  is_last = fault_q || bursts_q <= burst_count_t'(to_boundary);
  wire beats_t beats = fault_q ? 5'd1 : is_last ? bursts_q[4:0] : to_boundary;

  // ---- Runs to AXI bursts, or to a fault ----
  logic     run_q_valid, moves, run_ready;
  run_t     run_q;
  address_t run_address_q;
  // So many that no beat of the burst before with this id is still to come.
  wire has_slots = free_q >= (SlotBits + 1)'(MaxBeats);
  wire can_issue = run_q_valid && has_slots && run_ready && !stale;
  wire issue = can_issue && (run_q.fault || ar_ready_i);

  assign moves = !run_q_valid || issue;
  assign ar_valid_o = can_issue && !run_q.fault;
  assign ar_o = '{
      id: axi_id_t'({Client, epoch_q, 7'(alloc_q)}),
      addr: run_address_q,
      len: 10'(run_q.beats) - 10'd1
  };
  assign request_ready_o = !busy_q || (moves && is_last);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) run_q_valid <= 1'b0;
    else if (clear_i) run_q_valid <= 1'b0;
    else if (moves) run_q_valid <= busy_q;
  end
  always_ff @(posedge clk_i) begin
    if (moves && busy_q) begin
      run_address_q <= address_q;
      run_q <= '{tag: tag_q, beats: beats, fault: fault_q, first: first_q, last: is_last};
    end
  end

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
    end else if (moves) begin
      busy_q <= busy_q && !is_last;
      first_q <= 1'b0;
      bursts_q <= bursts_q - burst_count_t'(beats);
      address_q <= address_q + address_t'({beats, 6'b0});
    end
  end

  // ---- Answers, counted by id, into their slots ----
  // A burst's last beat begins its id's count anew. Each issue turns its id's mark round: beats that
  // were counted with another mark were those of a burst that a clearing has cut off. Where each beat
  // comes as a burst of its own, with an id of its own (nkv_near_cut), there is nothing to count.
  typedef struct packed {
    logic       mark;
    logic [3:0] count;  // Beats that have come.
  } known_t;
  typedef struct packed {
    logic   poison;
    burst_t data;
  } stored_t;
  (* ram_style = "distributed" *) known_t known[Slots];
  (* ram_style = "distributed" *) logic marks[Slots];
  (* ram_style = "block" *) stored_t store[Slots];

  logic       arrived_q, counted_q, last_q;
  slot_t      base_q, slot_q;
  stored_t    arrived_data_q, counted_data_q;
  wire answers = r_valid_i && r_i.id[8:7] == epoch_q;
  wire take = answers && !stale;
  wire known_t known_last = known[base_q];
  wire        mark = marks[base_q];
  wire [3:0]  count = known_last.mark == mark ? known_last.count : '0;
  assign r_ready_o = 1'b1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {arrived_q, counted_q} <= '0;
    else {arrived_q, counted_q} <= {take && !clear_i, arrived_q && !clear_i};
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      base_q <= r_i.id[SlotBits-1:0];
      last_q <= r_i.last;
      arrived_data_q <= '{poison: r_i.poison || r_i.error, data: r_i.data};
    end
    if (arrived_q) begin
      known[base_q] <= '{mark: mark, count: last_q ? '0 : count + 4'd1};
      slot_q <= base_q + slot_t'(count);
      counted_data_q <= arrived_data_q;
    end
    if (issue) marks[alloc_q] <= !known[alloc_q].mark;
    if (counted_q) store[slot_q] <= counted_data_q;
  end

  // ---- What memory owes ----
  nkv_owed_beats #(
    .Most(Slots)
  ) u_owed (
    .clk_i,
    .rst_ni,
    .clear_i,
    .forfeit_i,
    .asked_i   (issue && !run_q.fault ? (SlotBits + 1)'(run_q.beats) : '0),
    .answered_i(answers),
    .quiet_o,
    .stale_o   (stale)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) epoch_q <= '0;
    else if (forfeit_i) epoch_q <= epoch_q + 2'd1;
  end

  // ---- Slots given out in order ----
  // In turn from each of eight banks, which have as many cycles to find their next one.
  localparam int unsigned Banks = 8;
  localparam int unsigned BankBits = $clog2(Banks);
  typedef logic [SlotBits-BankBits-1:0] place_t;
  logic [Slots/Banks-1:0] filled_q[Banks];
  logic [Banks-1:0] found_q;  // The next one is filled.
  place_t next_q[Banks];

  logic run_valid;
  logic [5:0] unused_runs;
  run_t run;
  beats_t given_q;  // Beats of the run that have been given.
  wire given_last = given_q + 5'd1 == run.beats;
  logic [3:0] out_used;
  logic reading_q;
  logic has_place_q;  // For a beat on its way out.
  wire [BankBits-1:0] bank = give_q[BankBits-1:0];
  wire give = run_valid && (run.fault || found_q[bank]) && has_place_q;

  nkv_fifo #(
    .T(run_t),
    .Depth(32)
  ) u_runs (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (issue),
    .in_ready_o (run_ready),
    .in_data_i  (run_q),
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
  label_t  label_q;
  stored_t stored_q;

  always_ff @(posedge clk_i) begin
    if (give) begin
      stored_q <= run.fault ? '0 : store[give_q];
      label_q <= '{
          fault: run.fault,
          first: run.first && given_q == '0,
          last: run.last && given_last,
          tag: run.tag
      };
    end
  end

  wire [SlotBits:0] issued = issue ? (SlotBits + 1)'(run_q.beats) : '0;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      alloc_q <= '0;
      give_q <= '0;
      free_q <= (SlotBits + 1)'(Slots);
      given_q <= '0;
      reading_q <= 1'b0;
    end else if (clear_i) begin
      alloc_q <= '0;
      give_q <= '0;
      free_q <= (SlotBits + 1)'(Slots);
      given_q <= '0;
      reading_q <= 1'b0;
    end else begin
      reading_q <= give;
      free_q <= free_q - issued + (SlotBits + 1)'(give);
      if (issue) alloc_q <= alloc_q + slot_t'(run_q.beats);
      if (give) begin
        give_q <= give_q + 1'b1;
        given_q <= given_last ? '0 : given_q + 5'd1;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      found_q <= '0;
      for (int unsigned i = 0; i < Banks; i++) {filled_q[i], next_q[i]} <= '0;
    end else if (clear_i) begin
      found_q <= '0;
      for (int unsigned i = 0; i < Banks; i++) {filled_q[i], next_q[i]} <= '0;
    end else begin
      for (int unsigned i = 0; i < Banks; i++) found_q[i] <= filled_q[i][next_q[i]];
      if (counted_q) filled_q[slot_q[BankBits-1:0]][slot_q[SlotBits-1:BankBits]] <= 1'b1;
      if (give) begin
        found_q[bank] <= 1'b0;
        filled_q[bank][next_q[bank]] <= 1'b0;
        next_q[bank] <= next_q[bank] + 1'b1;
      end
    end
  end

  logic out_ready;  // `has_place_q` keeps room.
  // Of the eight places three are for beats that have not been counted yet.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) has_place_q <= 1'b0;
    else has_place_q <= out_used < 4'd5;
  end
  nkv_fifo #(
    .T(read_beat_t),
    .Depth(8)
  ) u_out (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (reading_q),
    .in_ready_o (out_ready),
    .in_data_i  ('{
        fault: label_q.fault,
        poison: stored_q.poison,
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

  `NKV_ASSERT_STAYS(ArStays_A, ar_valid_o, ar_ready_i, ar_o, clear_i)
  `NKV_ASSERT_STAYS(BeatStays_A, beat_valid_o, beat_ready_i, beat_o, clear_i)
  `NKV_ASSERT_ROOM(OutHasRoom_A, reading_q, out_ready)
  `NKV_ASSERT(SlotsBounded_A, free_q <= (SlotBits + 1)'(Slots))
  `NKV_ASSERT(ArInPage_A, !ar_valid_o || 5'(ar_o.addr[9:6]) + run_q.beats <= beats_t'(MaxBeats))

endmodule
