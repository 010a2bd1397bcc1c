// Counted events of all blocks. Bit n of the struct, counted from the right, is counter n.
package events_pkg;

  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;

  typedef struct packed {
    receive_path_events_t       receive_path;
    responder_events_t          responder;
    responses_events_t          responses;
    request_side_events_t       request_side;
    placement_events_t          placement;
    memory_events_t             memory;
    transmit_path_events_t      transmit_path;
    arp_events_t                arp;
    icmp_echo_events_t          icmp_echo;
    udp_sockets_events_t        udp_sockets;
    datagram_transmit_events_t  datagram_transmit;
    host_frames_events_t        host_frames;
    transmit_merge_events_t     transmit_merge;
    sniffer_events_t            sniffer;
    datagram_receive_events_t   datagram_receive;
    queue_pair_calls_events_t   queue_pair_calls;
    queue_pair_replies_events_t queue_pair_replies;
    engine_slot_events_t        engine_slot;
    message_transmit_events_t   message_transmit;
    kv_events_t                 kv;
  } nic_events_t;

endpackage
