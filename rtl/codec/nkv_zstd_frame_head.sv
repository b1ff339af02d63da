// Reads a frame's head (RFC 8878, 3.1.1.1) from a window of bytes: magic, descriptor, window,
// content size. done_o stands for one cycle when its bytes have been taken; error_o does instead
// where it is no frame, or one with a checksum or a dictionary's id, or of another size than
// plain_i. The window may be anything up to 2^31 and more: content is small.

module nkv_zstd_frame_head
  import nkv_zstd_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       begin_i,
  input  logic       cancel_i,
  input  size_t      plain_i,              // Held.

  input  logic       valid_i,              // bytes_i are there.
  input  logic [7:0] bytes_i[9],
  output logic [3:0] take_o,
  output logic       done_o,
  output logic       error_o
);

  localparam logic [31:0] Magic = 32'hfd2fb528;
  localparam logic [4:0] MaxWindow = 5'd21;   // 2^(10 + this), and eighths of it.

  typedef enum logic [1:0] {Idle, Descriptor, Fields, Done} state_e;
  state_e state_q;
  logic [1:0] content_form_q;
  logic is_single_q;                       // No window; there is a content size.

  logic [3:0] content_bytes;
  logic [63:0] content;
  always_comb begin
    logic [7:0] field[8];
    for (int unsigned i = 0; i < 8; ++i) field[i] = is_single_q ? bytes_i[i] : bytes_i[i+1];
    unique case (content_form_q)
      2'd0: begin
        content_bytes = {3'd0, is_single_q};
        content = is_single_q ? 64'(field[0]) : 64'(plain_i);
      end
      2'd1: begin
        content_bytes = 4'd2;
        content = 64'({field[1], field[0]}) + 64'd256;
      end
      2'd2: begin
        content_bytes = 4'd4;
        content = 64'({field[3], field[2], field[1], field[0]});
      end
      default: begin
        content_bytes = 4'd8;
        content = {field[7], field[6], field[5], field[4], field[3], field[2], field[1], field[0]};
      end
    endcase
  end

  wire is_magic = {bytes_i[3], bytes_i[2], bytes_i[1], bytes_i[0]} == Magic;
  // A reserved bit, a checksum, a dictionary.
  wire has_refused = bytes_i[4][3:0] != '0;
  wire is_window_wrong = !is_single_q && bytes_i[0][7:3] > MaxWindow;

  assign done_o = state_q == Done;
  always_comb begin
    take_o = '0;
    error_o = 1'b0;
    if (state_q == Descriptor && valid_i) begin
      take_o = 4'd5;
      error_o = !is_magic || has_refused;
    end
    if (state_q == Fields && valid_i) begin
      take_o = content_bytes + {3'd0, !is_single_q};
      error_o = is_window_wrong || content != 64'(plain_i);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      content_form_q <= '0;
      is_single_q <= 1'b0;
    end else begin
      unique case (state_q)
        Idle: if (begin_i) state_q <= Descriptor;
        Descriptor: begin
          content_form_q <= bytes_i[4][7:6];
          is_single_q <= bytes_i[4][5];
          if (valid_i) state_q <= Fields;
        end
        Fields: if (valid_i) state_q <= Done;
        default: state_q <= Idle;
      endcase
      if (cancel_i || error_o) state_q <= Idle;
    end
  end

endmodule
