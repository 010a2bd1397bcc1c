// The data type courseware: students who are enrolled in courses.
// Elements: 70 Student, 70 Course.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_courseware
  import rdt_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [ 3:0] replica_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic        call_valid_i,
  output logic        call_ready_o,
  input  rdt_call_t   call_i,
  output logic        answer_valid_o,
  input  logic        answer_ready_i,
  output rdt_answer_t answer_o,
  output logic        idle_o
);

  // Selectors.
  localparam logic [3:0] MethodAddStudent = 4'd0;
  localparam logic [3:0] MethodAddCourse = 4'd1;
  localparam logic [3:0] MethodDeleteCourse = 4'd2;
  localparam logic [3:0] MethodEnroll = 4'd3;
  localparam logic [3:0] QueryIsEnrolled = 4'd0;

  // Wide enough for every sum and difference of this type.
  typedef logic signed [65:0] number_t;

  function automatic number_t number(logic [63:0] word);
    return number_t'($signed(word));
  endfunction

  // Whether a number fits a word.
  function automatic logic fits(number_t value);
    return value == number(value[63:0]);
  endfunction

  // The state, and the state after the call in the second stage.
  // students of Student
  logic [69:0] students_q, students_d;
  // courses of Course
  logic [69:0] courses_q, courses_d;
  // enrolments of Course, Student: 70 rows in RAM
  logic [0:0] enrolments_write;
  logic [0:0][69:0] enrolments_row, enrolments_d;
  logic enrolments_busy, enrolments_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = enrolments_busy;
  assign clearing = enrolments_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][6:0] enrolments_address;
  always_comb begin
    enrolments_address[0] = call_i.arguments[1][0+:7];
    case ({call_i.operation, call_i.selector}) inside
      {RdtUpdate, MethodDeleteCourse}, {RdtApply, MethodDeleteCourse}: enrolments_address[0] = call_i.arguments[0][0+:7];
      default: ;
    endcase
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd70),
    .Ports(32'd1)
  ) i_enrolments (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (enrolments_address),
    .row_o     (enrolments_row),
    .write_i   (changes ? enrolments_write : '0),
    .row_i     (enrolments_d),
    .busy_o    (enrolments_busy),
    .clearing_o(enrolments_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    students_d = students_q;
    courses_d = courses_q;
    enrolments_d = enrolments_row;
    enrolments_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodAddStudent}, {RdtApply, MethodAddStudent}: begin : update_add_student
        // addStudent(student)
        automatic logic [6:0] arg_student;
        arg_student = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // students(student) becomes true
        students_d[arg_student] = 1'b1;
      end
      {RdtAbsorb, MethodAddStudent}: begin : absorb_add_student
        // the summary of addStudent(elements)
        automatic logic [63:0] arg_elements;
        if (call_q.arguments[0] > 64'd1) in_range = 1'b0;
        if ((call_q.summary[0] & ~call_q.arguments[1]) != '0) in_range = 1'b0;
        if (call_q.arguments[0] == 64'd1 && call_q.arguments[1][63:6] != '0) in_range = 1'b0;
        arg_elements = call_q.arguments[1];
        // its elements join students
        if (call_q.arguments[0] == 64'd0) students_d[0+:64] = students_d[0+:64] | arg_elements[63:0];
        if (call_q.arguments[0] == 64'd1) students_d[64+:6] = students_d[64+:6] | arg_elements[5:0];
      end
      {RdtFold, MethodAddStudent}: begin : fold_add_student
        // added to the summary: addStudent(student)
        automatic logic [6:0] arg_student;
        automatic logic [63:0] member;
        arg_student = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        member = 64'(arg_student);
        answer_d.value = member >> 6;
        answer_d.summary[0] = call_q.summary[0] | 64'd1 << member[5:0];
      end
      {RdtUpdate, MethodAddCourse}, {RdtApply, MethodAddCourse}: begin : update_add_course
        // addCourse(course)
        automatic logic [6:0] arg_course;
        arg_course = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // courses(course) becomes true
        courses_d[arg_course] = 1'b1;
      end
      {RdtUpdate, MethodDeleteCourse}, {RdtApply, MethodDeleteCourse}: begin : update_delete_course
        // deleteCourse(course)
        automatic logic [6:0] arg_course;
        automatic logic some_0;
        arg_course = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the course exists: courses(course)
        if (!courses_q[arg_course]) permissible = 1'b0;
        // nobody is enrolled in the course: not some Student s: enrolments(course, s)
        some_0 = 1'b0;
        for (int unsigned any_s = 0; any_s < 70; any_s++) begin
          if (enrolments_row[0][any_s]) some_0 = 1'b1;
        end
        if (!(!some_0)) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // courses(course) becomes false
        courses_d[arg_course] = 1'b0;
      end
      {RdtUpdate, MethodEnroll}, {RdtApply, MethodEnroll}: begin : update_enroll
        // enroll(student, course)
        automatic logic [6:0] arg_student;
        automatic logic [6:0] arg_course;
        arg_student = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_course = call_q.arguments[1][6:0];
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // the student exists: students(student)
        if (!students_q[arg_student]) permissible = 1'b0;
        // the course exists: courses(course)
        if (!courses_q[arg_course]) permissible = 1'b0;
        // the student is not enrolled yet: not enrolments(course, student)
        if (!(!enrolments_row[0][arg_student])) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // enrolments(course, student) becomes true
        enrolments_d[0][arg_student] = 1'b1;
        enrolments_write[0] = 1'b1;
      end
      {RdtQuery, QueryIsEnrolled}: begin : query_is_enrolled
        // isEnrolled(student, course)
        automatic logic [6:0] arg_student;
        arg_student = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        answer_d.value = 64'(enrolments_row[0][arg_student]);
      end
      default: in_range = 1'b0;
    endcase
    if (!in_range) answer_d.outcome = RdtOutOfRange;
    else if (!permissible) answer_d.outcome = RdtRefused;
    else if (!exact) answer_d.outcome = RdtOverflow;
    else answer_d.outcome = RdtDone;
  end

  always_ff @(posedge clk_i) begin
    if (accept) call_q <= call_i;
    if (execute) answer_q <= answer_d;
    if (!rst_ni) begin
      valid_q <= 1'b0;
      answer_valid_q <= 1'b0;
      students_q <= '0;
      courses_q <= '0;
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
      if (changes) students_q <= students_d;
      if (changes) courses_q <= courses_d;
    end
  end

endmodule
