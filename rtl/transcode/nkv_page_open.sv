// Source pages to plain pages, one after the other, into one of two stores while the other one is used.
// What cannot be opened says why in place of its rows; so does every page behind `stop_i`.

module nkv_page_open
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,
  input  logic         codec_rst_ni,
  input  logic         stop_i,         // Bodies are only taken.

  input  logic         page_valid_i,   // Pages whose bodies come, in order.
  output logic         page_ready_o,
  input  moving_page_t page_i,

  input  logic         beat_valid_i,   // Beats for SinkArray.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output plain_write_t write_o,
  output logic         opened_o,       // For one cycle: page_i is plain, or failed.
  output status_e      status_o,
  input  logic         room_i          // There is a store for a page.
);

  typedef enum logic [2:0] {
    StIdle,
    StHot,
    StCold,
    StPlanes,
    StDrop
  } state_e;

  state_e  state_q;
  logic    taken_q;      // The body's last burst has been.
  status_e status_q;

  wire is_hot = page_i.header.codec == CodecNone;
  wire is_planes = page_i.header.codec inside {CodecPlanesLz4, CodecPlanesZstd};
  wire begins = state_q == StIdle && page_valid_i && room_i;
  wire drops = stop_i || page_i.empty || !is_offered(page_i.header);
  // What comes behind is the next page's.
  wire comes = beat_valid_i && !taken_q;
  wire last = comes && beat_ready_o && beat_i.last && beat_i.tag.array == page_i.last_array;

  logic hot_done, hot_ready, cold_done, cold_ready, cold_failed;
  logic planes_done, planes_ready, planes_failed, planes_clk;
  plain_write_t hot_write, cold_write, planes_write;

  nkv_hot_open u_hot (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i     (begins && !drops && is_hot),
    .header_i    (page_i.header),
    .done_o      (hot_done),
    .beat_valid_i(comes && state_q == StHot),
    .beat_ready_o(hot_ready),
    .beat_i,
    .write_o     (hot_write)
  );

  nkv_cold_open u_cold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .codec_rst_ni,
    .start_i     (begins && !drops && !is_hot && !is_planes),
    .header_i    (page_i.header),
    .done_o      (cold_done),
    .failed_o    (cold_failed),
    .beat_valid_i(comes && state_q == StCold),
    .beat_ready_o(cold_ready),
    .beat_i,
    .write_o     (cold_write)
  );

  wire opens_planes = (page_valid_i && is_planes) || state_q == StPlanes;
  nkv_idle_clock u_planes_clock (
    .clk_i,
    .rst_ni,
    .busy_i(opens_planes || clear_i),
    .clk_o (planes_clk)
  );

  nkv_planes_open u_planes (
    .clk_i       (planes_clk),
    .rst_ni,
    .clear_i,
    .codec_rst_ni,
    .start_i     (begins && !drops && is_planes),
    .header_i    (opens_planes ? page_i.header : '0),  // So that nothing moves while its clock stands.
    .done_o      (planes_done),
    .failed_o    (planes_failed),
    .beat_valid_i(comes && state_q == StPlanes),
    .beat_ready_o(planes_ready),
    .beat_i      (opens_planes ? beat_i : '0),
    .write_o     (planes_write)
  );

  always_comb begin
    unique case (state_q)
      StHot: beat_ready_o = hot_ready && !taken_q;
      StCold: beat_ready_o = cold_ready && !taken_q;
      StPlanes: beat_ready_o = planes_ready && !taken_q;
      StDrop: beat_ready_o = !taken_q;
      default: beat_ready_o = 1'b0;
    endcase
    unique case (state_q)
      StHot: opened_o = taken_q && hot_done;
      StCold: opened_o = taken_q && cold_done;
      StPlanes: opened_o = taken_q && planes_done;
      StDrop: opened_o = taken_q;
      default: opened_o = 1'b0;
    endcase
  end
  assign write_o = state_q == StPlanes ? planes_write : state_q == StCold ? cold_write : hot_write;
  wire fails = (state_q == StCold && cold_failed) || (state_q == StPlanes && planes_failed);
  assign status_o = fails ? StatusCorrupt : status_q;
  assign page_ready_o = opened_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, taken_q} <= '0;
      status_q <= StatusOk;
    end else if (clear_i) begin
      {state_q, taken_q} <= '0;
    end else begin
      if (last) taken_q <= 1'b1;
      if (begins) begin
        taken_q <= page_i.empty;
        state_q <= drops ? StDrop : is_hot ? StHot : is_planes ? StPlanes : StCold;
        status_q <= !is_offered(page_i.header) ? StatusUnsupported
            : page_i.empty ? StatusCorrupt : StatusOk;
      end
      if (opened_o) state_q <= StIdle;
    end
  end

  wire unused = ^{page_i, beat_i};

endmodule
