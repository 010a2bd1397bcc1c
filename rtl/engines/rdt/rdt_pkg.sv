// Calls and answers of replicated data types in gates. They are the same for all types, so what holds one type can hold
// any other. The operations are those of `Object` and `Type` in crates/engines/rdt/src/object.rs.
package rdt_pkg;

  // Most parameters of a method or query (PARAMETERS_MAX), and most words of a summary (SUMMARY_WORDS_MAX).
  localparam int unsigned RdtArguments = 4;
  localparam int unsigned RdtSummaryWords = 2;

  typedef enum logic [2:0] {
    // Checks a call at its own replica: fills in stamps and observed numbers, evaluates the guards, and applies the
    // call if they hold (`Object::prepare`, `permissible`, `apply`).
    RdtUpdate,
    // Applies a call that another replica has checked (`Object::apply`).
    RdtApply,
    // Applies the difference between two cumulative summaries of a slot (`Type::extends`, `Object::absorb`). The
    // arguments are the slot's number and the new words; `summary` has the old words.
    RdtAbsorb,
    // Adds a call to the cumulative summary of its slot, `summary` (`Type::slot`, `Type::fold`). Leaves the state.
    RdtFold,
    // Answers a query (`Object::query`).
    RdtQuery
  } rdt_operation_t;

  typedef enum logic [1:0] {
    RdtDone,
    // No such method, query or slot, or an argument out of range.
    RdtOutOfRange,
    // A guard does not hold.
    RdtRefused,
    // A number does not fit its word. The object cannot go on with a right state: its replica must stop.
    RdtOverflow
  } rdt_outcome_t;

  // `selector` is the number of the method or query. Numbers are signed.
  typedef struct packed {
    rdt_operation_t operation;
    logic [3:0] selector;
    logic [RdtSummaryWords-1:0][63:0] summary;
    logic [RdtArguments-1:0][63:0] arguments;
  } rdt_call_t;

  // Only a call that is done has changed the state, and has a `value` (a query's answer, a fold's slot) or `summary` (a
  // fold's new words). `arguments` are those of the call, with what was filled in, unless they are out of range.
  typedef struct packed {
    rdt_outcome_t outcome;
    logic [63:0] value;
    logic [RdtSummaryWords-1:0][63:0] summary;
    logic [RdtArguments-1:0][63:0] arguments;
  } rdt_answer_t;

endpackage
