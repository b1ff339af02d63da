// Asks for what a plane scan reads of accepted pages: the digest of each page, then the planes of the
// page two before it, so that a page's weights and tables are made while planes of others pass
// (nkv_scan). The last planes follow when `flush_i` says that no page comes any more. A scan of no planes
// reads digests alone.

module nkv_scan_stream
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  logic [2:0]    planes_i,         // 0 to KeyPlanes.
  input  list_index_t   first_index_i,
  input  logic          flush_i,

  input  logic          record_valid_i,   // Pages whose verdict is OK.
  output logic          record_ready_o,
  input  page_record_t  record_i,
  output logic          begun_o,          // The record's body has been announced.
  output logic          idle_o,           // No planes are left to be asked for.
  output logic [31:0]   bursts_o,         // Of headers, digests and planes, since clear_i.

  output logic          body_valid_o,
  input  logic          body_ready_i,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,

  output logic          expect_valid_o,
  input  logic          expect_ready_i,
  output logic [31:0]   expect_crc_o,
  output list_index_t   expect_index_o
);

  // What planes that are still to be read need.
  typedef struct packed {
    page_index_t                page;
    logic [63:0]                address;  // Of the first plane.
    logic [KeyPlanes-1:0][31:0] crc;
    logic [31:0]                bytes;   // Of each.
  } due_t;

  typedef enum logic [1:0] {
    StAnnounce,
    StDigest,
    StPlanes   // Of the oldest page.
  } state_e;

  state_e     state_q;
  due_t       oldest;  // The oldest page whose planes are due.
  logic [2:0] due_q;   // How many there are.
  logic [2:0] plane_q;
  logic [31:0] plane_offset_q;  // Of that plane, from the first one.

  wire page_header_t header = record_i.header;
  wire in_planes = state_q == StPlanes;
  wire last_plane = plane_q + 3'd1 == planes_i;
  wire [31:0] digest_rest = record_i.bytes[PageArrayKDigest] % BurstBytes;
  wire [31:0] bytes = in_planes ? oldest.bytes : record_i.bytes[PageArrayKDigest];

  assign body_valid_o = state_q == StAnnounce && record_valid_i;
  assign begun_o = state_q != StAnnounce;
  assign idle_o = due_q == '0 && state_q == StAnnounce;

  // A new page makes room for itself; the last ones go by themselves.
  wire planes_now = record_valid_i ? due_q == 3'd2 : due_q != '0;
  wire needed = (state_q == StDigest && record_valid_i) || (in_planes && planes_now);
  assign request_valid_o = needed && expect_ready_i;
  assign expect_valid_o = needed && request_ready_i;
  wire step = needed && request_ready_i && expect_ready_i;

  wire due_t now = '{
      page: record_i.visit.page,
      address: record_i.address + 64'(record_i.offset[PageArrayKPlane0]),
      crc: header.crc_k_plane,
      bytes: record_i.bytes[PageArrayKPlane0]
  };

  assign expect_crc_o = in_planes ? oldest.crc[plane_q[1:0]] : header.crc_k_digest;
  assign expect_index_o = first_index_i + list_index_t'(request_o.tag.page);
  assign request_o = '{
      tag: '{
          sink: SinkArray,
          array: in_planes ? 4'(PageArrayKPlane0) + 4'(plane_q) : 4'(PageArrayKDigest),
          whole: 1'b1,
          page: in_planes ? oldest.page : record_i.visit.page,
          page_last: in_planes && last_plane,
          keys_too: 1'b0,
          token: '0,
          last_bytes: in_planes || digest_rest == '0 ? 7'(BurstBytes) : 7'(digest_rest)
      },
      bursts: bursts_of(bytes),
      address: in_planes ? oldest.address + 64'(plane_offset_q) : record_i.address +
          64'(record_i.offset[PageArrayKDigest])
  };

  // The record stays until then.
  wire planes_end = in_planes && (!planes_now || (step && last_plane));
  wire planes_come = planes_end && record_valid_i;
  wire digest_ends = state_q == StDigest && step && planes_i == '0;
  assign record_ready_o = planes_come || digest_ends;

  logic unused_due_valid, unused_due_ready;
  logic [2:0] unused_due;
  nkv_fifo #(
    .T(due_t),
    .Depth(4)
  ) u_due (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (planes_come),
    .in_ready_o (unused_due_ready),
    .in_data_i  (now),
    .out_valid_o(unused_due_valid),
    .out_ready_i(planes_end && planes_now),
    .out_data_o (oldest),
    .used_o     (unused_due)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StAnnounce;
      due_q <= '0;
      plane_q <= '0;
      plane_offset_q <= '0;
      bursts_o <= '0;
    end else if (clear_i) begin
      state_q <= StAnnounce;
      due_q <= '0;
      plane_q <= '0;
      plane_offset_q <= '0;
      bursts_o <= '0;
    end else begin
      // A scan reads the first half of each header.
      if (body_valid_o && body_ready_i) bursts_o <= bursts_o + 32'd1;
      due_q <= due_q + 3'(planes_come) - 3'(planes_end && planes_now);
      if (step) bursts_o <= bursts_o + 32'(request_o.bursts);
      if (step && in_planes) begin
        plane_q <= last_plane ? '0 : plane_q + 3'd1;
        plane_offset_q <= last_plane ? '0 : plane_offset_q + oldest.bytes;
      end
      unique case (state_q)
        StAnnounce: begin
          if (body_valid_o && body_ready_i) state_q <= StDigest;
          else if (flush_i && due_q != '0 && !record_valid_i) state_q <= StPlanes;
        end
        StDigest: if (step) state_q <= digest_ends ? StAnnounce : StPlanes;
        StPlanes: if (planes_end) state_q <= StAnnounce;
        default: state_q <= StAnnounce;
      endcase
    end
  end

  wire unused = ^{record_i, header};

endmodule
