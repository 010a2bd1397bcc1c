// The data type project: employees who are assigned to projects.
// Elements: 70 Employee, 70 Project.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_project
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
  localparam logic [3:0] MethodAddEmployee = 4'd0;
  localparam logic [3:0] MethodAddProject = 4'd1;
  localparam logic [3:0] MethodDeleteProject = 4'd2;
  localparam logic [3:0] MethodAssign = 4'd3;
  localparam logic [3:0] QueryIsAssigned = 4'd0;

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
  // employees of Employee
  logic [69:0] employees_q, employees_d;
  // projects of Project
  logic [69:0] projects_q, projects_d;
  // assignments of Project, Employee: 70 rows in RAM
  logic [0:0] assignments_write;
  logic [0:0][69:0] assignments_row, assignments_d;
  logic assignments_busy, assignments_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = assignments_busy;
  assign clearing = assignments_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][6:0] assignments_address;
  always_comb begin
    assignments_address[0] = call_i.arguments[1][0+:7];
    case ({call_i.operation, call_i.selector}) inside
      {RdtUpdate, MethodDeleteProject}, {RdtApply, MethodDeleteProject}: assignments_address[0] = call_i.arguments[0][0+:7];
      default: ;
    endcase
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd70),
    .Ports(32'd1)
  ) i_assignments (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (assignments_address),
    .row_o     (assignments_row),
    .write_i   (changes ? assignments_write : '0),
    .row_i     (assignments_d),
    .busy_o    (assignments_busy),
    .clearing_o(assignments_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    employees_d = employees_q;
    projects_d = projects_q;
    assignments_d = assignments_row;
    assignments_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodAddEmployee}, {RdtApply, MethodAddEmployee}: begin : update_add_employee
        // addEmployee(employee)
        automatic logic [6:0] arg_employee;
        arg_employee = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // employees(employee) becomes true
        employees_d[arg_employee] = 1'b1;
      end
      {RdtAbsorb, MethodAddEmployee}: begin : absorb_add_employee
        // the summary of addEmployee(elements)
        automatic logic [63:0] arg_elements;
        if (call_q.arguments[0] > 64'd1) in_range = 1'b0;
        if ((call_q.summary[0] & ~call_q.arguments[1]) != '0) in_range = 1'b0;
        if (call_q.arguments[0] == 64'd1 && call_q.arguments[1][63:6] != '0) in_range = 1'b0;
        arg_elements = call_q.arguments[1];
        // its elements join employees
        if (call_q.arguments[0] == 64'd0) employees_d[0+:64] = employees_d[0+:64] | arg_elements[63:0];
        if (call_q.arguments[0] == 64'd1) employees_d[64+:6] = employees_d[64+:6] | arg_elements[5:0];
      end
      {RdtFold, MethodAddEmployee}: begin : fold_add_employee
        // added to the summary: addEmployee(employee)
        automatic logic [6:0] arg_employee;
        automatic logic [63:0] member;
        arg_employee = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        member = 64'(arg_employee);
        answer_d.value = member >> 6;
        answer_d.summary[0] = call_q.summary[0] | 64'd1 << member[5:0];
      end
      {RdtUpdate, MethodAddProject}, {RdtApply, MethodAddProject}: begin : update_add_project
        // addProject(project)
        automatic logic [6:0] arg_project;
        arg_project = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // projects(project) becomes true
        projects_d[arg_project] = 1'b1;
      end
      {RdtUpdate, MethodDeleteProject}, {RdtApply, MethodDeleteProject}: begin : update_delete_project
        // deleteProject(project)
        automatic logic [6:0] arg_project;
        automatic logic some_0;
        arg_project = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the project exists: projects(project)
        if (!projects_q[arg_project]) permissible = 1'b0;
        // nobody is assigned to the project: not some Employee e: assignments(project, e)
        some_0 = 1'b0;
        for (int unsigned any_e = 0; any_e < 70; any_e++) begin
          if (assignments_row[0][any_e]) some_0 = 1'b1;
        end
        if (!(!some_0)) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // projects(project) becomes false
        projects_d[arg_project] = 1'b0;
      end
      {RdtUpdate, MethodAssign}, {RdtApply, MethodAssign}: begin : update_assign
        // assign(employee, project)
        automatic logic [6:0] arg_employee;
        automatic logic [6:0] arg_project;
        arg_employee = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_project = call_q.arguments[1][6:0];
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // the employee exists: employees(employee)
        if (!employees_q[arg_employee]) permissible = 1'b0;
        // the project exists: projects(project)
        if (!projects_q[arg_project]) permissible = 1'b0;
        // the employee is not assigned yet: not assignments(project, employee)
        if (!(!assignments_row[0][arg_employee])) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // assignments(project, employee) becomes true
        assignments_d[0][arg_employee] = 1'b1;
        assignments_write[0] = 1'b1;
      end
      {RdtQuery, QueryIsAssigned}: begin : query_is_assigned
        // isAssigned(employee, project)
        automatic logic [6:0] arg_employee;
        arg_employee = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        answer_d.value = 64'(assignments_row[0][arg_employee]);
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
      employees_q <= '0;
      projects_q <= '0;
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
      if (changes) employees_q <= employees_d;
      if (changes) projects_q <= projects_d;
    end
  end

endmodule
