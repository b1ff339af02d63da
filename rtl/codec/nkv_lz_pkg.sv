// What decoders of LZ formats share.

package nkv_lz_pkg;

  // Bytes of a match that nkv_lz_history copies in a cycle: 16, or the largest multiple of a
  // shorter offset that is not above 16.
  function automatic logic [4:0] stride_of(logic [15:0] offset);
    if (offset[15:4] != '0) return 5'd16;
    unique case (offset[3:0])
      4'd1, 4'd2, 4'd4, 4'd8: return 5'd16;
      4'd3, 4'd5, 4'd15: return 5'd15;
      4'd6, 4'd12: return 5'd12;
      4'd7, 4'd14: return 5'd14;
      4'd9: return 5'd9;
      4'd10: return 5'd10;
      4'd11: return 5'd11;
      4'd13: return 5'd13;
      default: return 5'd16;
    endcase
  endfunction

endpackage
