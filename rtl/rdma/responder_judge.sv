// Judges a packet that has the expected PSN, before the grant arrives. The checks have the order of the soft twin.
//
// Combinational: a stage of the responder. The outcome is OutcomeNone if the decision depends on the grant.
module responder_judge
  import weft_pkg::*;
  import responder_pkg::*;
(
  /* verilator lint_off UNUSEDSIGNAL */  // fields that other stages need
  input  work_t    work_i,
  input  facts_t   facts_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output outcome_e outcome_o,
  // The outcome depends on the grant.
  output logic     check_o,
  // The request is invalid, which is reported only if the access is granted.
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
