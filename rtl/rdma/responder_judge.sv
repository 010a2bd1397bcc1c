// What can be said about a packet whose turn it is before the grant is there, in the order in which the soft twin asks.
//
// Combinational: a stage of the responder. The outcome is none if the grant must decide.
module responder_judge
  import weft_pkg::*;
  import responder_pkg::*;
(
  /* verilator lint_off UNUSEDSIGNAL */  // what other stages need
  input  work_t    work_i,
  input  facts_t   facts_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output outcome_e outcome_o,
  // The grant counts.
  output logic     check_o,
  // An invalid request, if the access is granted.
  output logic     refuse_after_o
);

  logic not_fit;

  always_comb begin
    outcome_o = work_i.outcome;
    check_o = 1'b1;
    refuse_after_o = 1'b0;
    not_fit = work_i.meaning.ends ? !facts_i.is_rest : !facts_i.short_of_rest;
    if (work_i.turn) begin
      if (facts_i.invalid_order) begin
        outcome_o = OutcomeInvalid;
      end else if (work_i.meaning.send) begin
        check_o = facts_i.has_payload;
        if (facts_i.invalid_payload) outcome_o = OutcomeInvalid;
        else if (work_i.empty) outcome_o = OutcomeNotReady;
        else if (facts_i.beyond_rest) outcome_o = OutcomeLength;
        else if (facts_i.has_payload && facts_i.overflow) outcome_o = OutcomeProtection;
      end else if (work_i.meaning.write && work_i.meaning.starts) begin
        refuse_after_o = facts_i.invalid_payload || not_fit || facts_i.too_long;
        if (!facts_i.length_zero && !work_i.allowed) outcome_o = OutcomeForbidden;
      end else if (work_i.meaning.write) begin
        if (facts_i.invalid_payload || not_fit) outcome_o = OutcomeInvalid;
        else if (!work_i.allowed) outcome_o = OutcomeForbidden;
      end else if (work_i.meaning.read) begin
        check_o = !facts_i.length_zero;
        if (facts_i.no_resource || facts_i.too_long) outcome_o = OutcomeInvalid;
        else if (!facts_i.length_zero && !work_i.allowed) outcome_o = OutcomeForbidden;
      end else begin
        if (facts_i.no_resource) outcome_o = OutcomeInvalid;
        else if (!work_i.allowed) outcome_o = OutcomeForbidden;
        else if (facts_i.misaligned) outcome_o = OutcomeInvalid;
      end
    end
  end

endmodule
