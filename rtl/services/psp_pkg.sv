// Types of PSP in the gateware.
package psp_pkg;

  import weft_pkg::*;

  localparam int unsigned Associations = 32;
  typedef logic [$clog2(Associations)-1:0] association_t;

  // Header offsets in a frame, and the bytes that PSP adds: outer UDP header, PSP header, tag.
  localparam int unsigned EthernetBytes = 14;
  localparam int unsigned OverheadBytes = 40;
  localparam int unsigned UdpEnd = 42;
  localparam int unsigned TagBytes = 16;
  localparam logic [15:0] RocePort = 16'd4791;
  localparam logic [15:0] DatagramPort = 16'd4793;

  // Why a frame is dropped.
  typedef enum logic [2:0] {
    PspAccepted,
    PspPlaintext,
    PspMalformed,
    PspUnknownSpi,
    PspWrongPeer,
    PspWrongVersion,
    PspBadTag,
    PspReplayed
  } psp_cause_e;

  // Counted events; in each direction at most one pulses in a cycle.
  typedef struct packed {
    logic psp_sealed;
    logic psp_opened;
    logic psp_without_association;
    logic psp_key_used_up;
    logic psp_plaintext;
    logic psp_malformed;
    logic psp_unknown_spi;
    logic psp_wrong_peer;
    logic psp_wrong_version;
    logic psp_bad_tag;
    logic psp_replayed;
  } psp_events_t;

  // Registers that a driver writes: a word of the value, or a command that uses the value.
  typedef enum logic [2:0] {
    PspWord0   = 3'd0,
    PspWord1   = 3'd1,
    PspWord2   = 3'd2,
    PspWord3   = 3'd3,
    PspPort    = 3'd4,  // the UDP port of PSP
    PspCommand = 3'd5
  } psp_register_e;

  typedef struct packed {
    logic         configure;  // 1: configures an association; 0: writes a key
    logic         seal;       // direction: 1 to seal, 0 to open
    logic         enable;     // for configure: the association is enabled
    logic [4:0]   place;      // index of a key
    association_t index;
  } psp_command_t;

  // The cipher processes a frame in slots of 64 bytes, which hold the PSP header and the text (the encrypted part). A
  // frame has as many slots as its output has beats. Frames that are not sealed take the same path, beat by beat.
  typedef struct packed {
    logic                first;
    logic                last;
    logic                sealed;
    association_t        index;
    logic [7:0]          number;  // index of the slot in its frame
    logic [6:0]          used;    // bytes of header and text in this slot
    logic                ends;    // the text ends here
    logic                finish;  // the tag is known with this slot: the one where the text ends, or the next
    logic [5:0]          place;   // position of the tag's first byte
    logic [13:0]         text;    // bytes of the whole text
    logic [5:0]          empty;   // unused bytes of the output's last beat
    logic                error;   // valid with the last slot: the frame is invalid
    psp_cause_e          cause;   // cause of the error, if PSP found it
    logic [BeatBits-1:0] data;
  } psp_slot_t;

  // How a frame is processed.
  typedef struct packed {
    logic         sealed;
    psp_cause_e   cause;   // PspAccepted, or the reason for which the frame is marked as an error
    association_t index;
    logic [13:0]  bytes;   // of the input frame, without padding
  } psp_plan_t;

  // Masks of the tag's bytes in the beat where it starts, and in the next.
  function automatic logic [1:0][BeatBytes-1:0] tag_mask(logic [5:0] place);
    logic [1:0][BeatBytes-1:0] mask = '0;
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      if (6'(i) - place < 6'(TagBytes)) mask[place>6'd48&&i<TagBytes][i] = 1'b1;
    end
    return mask;
  endfunction

  function automatic logic [15:0] at16(logic [BeatBits-1:0] data, int unsigned place);
    return {data[8*place+:8], data[8*place+8+:8]};
  endfunction

endpackage
