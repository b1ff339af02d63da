// Kinds of commands: opcodes that share a layout of fields.

package nkv_command_pkg;

  import nkv_abi_pkg::*;

  typedef enum logic [2:0] {
    KindNone,     // No opcode of the contract.
    KindNop,
    KindPages,
    KindAppend,
    KindRead,
    KindGather,
    KindTopk,
    KindAttend
  } kind_e;

  function automatic kind_e kind_of(opcode_e opcode);
    unique case (opcode)
      OpcodeNop: return KindNop;
      OpcodeScrub, OpcodeErase, OpcodeCopy, OpcodeTranscode: return KindPages;
      OpcodeAppend: return KindAppend;
      OpcodeRead: return KindRead;
      OpcodeGather: return KindGather;
      OpcodeTopk: return KindTopk;
      OpcodeAttend: return KindAttend;
      default: return KindNone;
    endcase
  endfunction

endpackage
