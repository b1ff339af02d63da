// Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit.
//
// Structures lie in the processor's memory: what is here are offsets of fields.

package nkv_firmware_pkg;

  // verilator lint_off UNUSEDPARAM

  // Limits
  // [bytes] Largest payload of the firmware's mailbox.
  localparam int unsigned MailboxBytes = 2048;
  // [bytes] Where the firmware's processor sees its memory; its image begins there.
  localparam int unsigned ProcessorRamAt = 1048576;
  // [bytes] That memory: the image in its lower half, what it works on above. It ends with a
  // `firmware_share`.
  localparam int unsigned ProcessorRamBytes = 131072;
  // [bytes] Where in it.
  localparam int unsigned ProcessorShareAt = 126976;
  // [bytes] Where it sees what it cannot write, right behind: the loader, at which it starts, and
  // the firmware that is built in.
  localparam int unsigned ProcessorRomAt = 1179648;
  // [bytes] Both of them.
  localparam int unsigned ProcessorRomBytes = 65536;
  // [bytes] Where it sees the cycles since reset, in two words, read as one from here on to 8 bytes
  // behind: the lower one keeps the upper one still.
  localparam int unsigned ProcessorTimerAt = 2097152;
  // [bytes] A word that the firmware writes: 0 resets the core at once, anything else says that it
  // is alive.
  localparam int unsigned ProcessorWatchdogAt = 2097160;
  // [cycles] After so many without, the core is reset. Its memory stays as it is.
  localparam int unsigned ProcessorWatchdogCycles = 8388608;
  // [bytes] Where in its memory a `firmware_boot` lies.
  localparam int unsigned ProcessorBootAt = 126912;
  // [bytes] Where in its memory a `firmware_panic` lies.
  localparam int unsigned ProcessorPanicAt = 126944;
  // [bytes] Where in its memory that lies which outlives a restart, up to PROCESSOR_BOOT_AT: who
  // has which dynamic capacity, the tenants' limits, and how the hotness monitors were set.
  localparam int unsigned ProcessorKeptAt = 125632;
  // The firmware runs: 'NKVF'.
  localparam int unsigned FirmwareMagic = 1180060494;

  // What the firmware asks of the logic around its processor.
  typedef enum logic [7:0] {
    // The line at `operation_at` answers with poison.
    FirmwareOperationPoison = 8'd1,
    // It becomes `line`.
    FirmwareOperationWrite = 8'd2,
    // `operation_bytes` of device memory from `operation_at` on are read; `operation_at` is then
    // the first line that is poisoned, or where they end.
    FirmwareOperationCheck = 8'd3,
    // `operation_bytes` of device memory from `operation_at` on become zero.
    FirmwareOperationWipe = 8'd4,
    // `line` begins with the engine's register at `operation_at`.
    FirmwareOperationReadRegister = 8'd5,
    // It becomes the 8 bytes that `line` begins with.
    FirmwareOperationWriteRegister = 8'd6,
    // `line` is that of flash memory at `operation_at`.
    FirmwareOperationReadFlash = 8'd7,
    // Bits of that line that are 0 in `line` become 0.
    FirmwareOperationWriteFlash = 8'd8,
    // Bits of the block of flash memory at `operation_at` become 1.
    FirmwareOperationEraseFlash = 8'd9
  } firmware_operation_e;

  // What the firmware shares with the logic around its processor. Who wants something fills it in,
  // then counts up; who did it writes down the same count.
  // FIRMWARE_MAGIC, written last when the firmware starts.
  localparam int unsigned FirmwareShareMagic = 0;
  // Of the card, two's complement.
  localparam int unsigned FirmwareShareTemperatureCelsius = 4;
  // Device memory; there before the firmware starts.
  localparam int unsigned FirmwareShareMemoryBytes = 8;
  // Serial number of the card; so too.
  localparam int unsigned FirmwareShareSerial = 16;
  // How much of the memory, at its end, is dynamic capacity; so too.
  localparam int unsigned FirmwareShareDynamicBytes = 24;
  // Commands that the mailbox was given.
  localparam int unsigned FirmwareShareRequest = 32;
  // Commands that it answered.
  localparam int unsigned FirmwareShareAnswer = 36;
  // The command. [a value of cci_opcode]
  localparam int unsigned FirmwareShareOpcode = 40;
  // How it ended. [a value of cci_status]
  localparam int unsigned FirmwareShareStatus = 42;
  // Of the command, then of its answer.
  localparam int unsigned FirmwareSharePayloadBytes = 44;
  // Errors that the memory controller found.
  localparam int unsigned FirmwareShareErrors = 48;
  // Errors that the firmware took; the next may then be written.
  localparam int unsigned FirmwareShareErrorsTaken = 52;
  // The line.
  localparam int unsigned FirmwareShareErrorAddress = 56;
  // 1: by ECC. 0: it is poisoned.
  localparam int unsigned FirmwareShareErrorCorrected = 64;
  // Interrupts of the mailbox that the firmware raised.
  localparam int unsigned FirmwareShareInterrupts = 68;
  // The last one's message.
  localparam int unsigned FirmwareShareInterruptMessage = 72;
  // A `firmware_operation`.
  localparam int unsigned FirmwareShareOperation = 76;
  // Operations that the firmware asked for.
  localparam int unsigned FirmwareShareOperations = 80;
  // Operations that ended.
  localparam int unsigned FirmwareShareOperationsDone = 84;
  // 1: the last one did.
  localparam int unsigned FirmwareShareOperationFailed = 88;
  // How much, where an operation says so.
  localparam int unsigned FirmwareShareOperationBytes = 92;
  // Where: of lines, their address in device memory.
  localparam int unsigned FirmwareShareOperationAt = 96;
  // Logs that hold events: a bit each.
  localparam int unsigned FirmwareShareEventLogs = 104;
  // 1: an operation in the background does.
  localparam int unsigned FirmwareShareBackgroundRuns = 108;
  // The mailbox's background command status register.
  localparam int unsigned FirmwareShareBackground = 112;
  // What is written, or was read.
  localparam int unsigned FirmwareShareLine = 120;
  // Of the mailbox: MAILBOX_BYTES.
  localparam int unsigned FirmwareSharePayload = 184;
  localparam int unsigned FirmwareShareBytes = 2232;

  // What the firmware's last exception was, kept over resets of the core: the vendor's debug log.
  // Exceptions since the image was loaded.
  localparam int unsigned FirmwarePanicPanics = 0;
  // Starts of the firmware since then.
  localparam int unsigned FirmwarePanicStarts = 4;
  // Register mcause.
  localparam int unsigned FirmwarePanicCause = 8;
  // Register mepc: where.
  localparam int unsigned FirmwarePanicAddress = 12;
  // Register mtval: of what, as the cause says.
  localparam int unsigned FirmwarePanicValue = 16;
  // Register ra.
  localparam int unsigned FirmwarePanicReturnAddress = 20;
  // Register sp.
  localparam int unsigned FirmwarePanicStackPointer = 24;
  // Zero.
  localparam int unsigned FirmwarePanicReserved = 28;
  localparam int unsigned FirmwarePanicBytes = 32;

  // verilator lint_on UNUSEDPARAM

endpackage
