// The node's role and view, and the leaders of the partitions in it. Twin of the first fields of `Kv` in
// crates/engines/kv/src/engine.rs.
//
// Latency: 1 cycle from a change; 2 from the end of the lease to `serves_o`. After `fill_i` the leaders are valid
// when `filling_o` falls.
module kv_membership
  import weft_pkg::cycles_t;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_streams_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  cycles_t               now_i,
  input  engine_configuration_t configuration_i,
  // Planted bug: leases never expire.
  input  logic                  careless_i,
  input  membership_change_t    change_i,
  output membership_t           membership_o,
  // The node may answer reads and take requests.
  output logic                  serves_o,
  output engine_status_t        status_o,
  // Relation of the configuration's view to the node's view.
  output logic                  same_view_o,
  output logic                  older_view_o,
  output logic                  newer_view_o,
  input  logic                  fill_i,
  output logic                  filling_o,
  input  partition_t            partition_i,
  output stream_t               leader_o
);

  membership_t membership_q;
  cycles_t     lease_until_q;
  logic        serves_q;

  assign membership_o = membership_q;
  assign serves_o = serves_q;

  // As `may_serve` of the twin.
  always_ff @(posedge clk_i) begin
    serves_q <= membership_q.role == RoleFull && (now_i < lease_until_q || careless_i);
  end

  always_comb begin
    status_o.epoch = membership_q.epoch;
    unique case (membership_q.role)
      RoleJoining: status_o.state = membership_q.complete ? EngineSynced : EngineJoining;
      RoleSealed, RoleFull: status_o.state = EngineFull;
      RoleLost: status_o.state = EngineLost;
      default: status_o.state = EngineStarting;
    endcase
  end

  assign same_view_o = configuration_i.epoch == membership_q.epoch && configuration_i.full == membership_q.full
      && configuration_i.joining == membership_q.joining;
  assign older_view_o = configuration_i.epoch < membership_q.epoch;
  assign newer_view_o = configuration_i.epoch > membership_q.epoch;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      membership_q      <= '0;
      membership_q.role <= RoleOutside;
      lease_until_q     <= '0;
    end else begin
      membership_q.role     <= change_i.role;
      membership_q.complete <= change_i.complete;
      if (change_i.lease) begin
        membership_q.node <= configuration_i.node;
        lease_until_q     <= configuration_i.lease_until;
      end
      if (change_i.view) begin
        membership_q.epoch   <= configuration_i.epoch;
        membership_q.full    <= configuration_i.full;
        membership_q.joining <= configuration_i.joining;
      end
      if (change_i.base) begin
        membership_q.base         <= membership_q.epoch;
        membership_q.base_members <= membership_q.full | membership_q.joining;
      end
      if (change_i.nothing) membership_q.base <= '0;
      if (change_i.forgets) begin
        membership_q.node    <= '0;
        membership_q.epoch   <= '0;
        membership_q.full    <= '0;
        membership_q.joining <= '0;
        lease_until_q        <= '0;
      end
    end
  end

  kv_leaders i_leaders (
    .clk_i,
    .rst_ni,
    .fill_i,
    .full_i(membership_q.full),
    .busy_o(filling_o),
    .partition_i,
    .leader_o
  );

endmodule
