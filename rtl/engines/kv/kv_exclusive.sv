// Operations that run alone: a new configuration, a view change, a state transfer, reset. Twin of `configure`,
// `leave`, `join`, `begin_epoch`, `seal`, `sealed`, `try_cut`, `cut`, `state_requested` and `state_arrived` in
// crates/engines/kv/src/engine.rs; comments at the states name the function.
//
// First all operations in progress end (Drain). Then this block has kv_control execute the commands of the operation,
// and updates the node's role, view and lengths in between.
//
// Latency: some ten cycles, plus the time of kv_control, of a sweep or of clearing tables. Throughput: one operation
// at a time; `valid_i` is held until `done_o`. Stalls: when one of the blocks that it uses does.
module kv_exclusive
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_streams_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  valid_i,
  output logic                  done_o,
  // The operation. An OpTimer is TimerSeal or TimerTransfer. An operation with a payload is no longer valid after
  // `takes_o`; `kind_i` and `from_i` stay.
  /* verilator lint_off UNUSEDSIGNAL */
  input  op_t                   op_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  op_kind_e              kind_i,
  input  node_t                 from_i,
  input  logic                  older_i,                // the epoch of the operation is older
  input  logic                  newer_i,
  output logic                  takes_o,
  input  logic                  taken_i,
  input  engine_configuration_t configuration_i,
  // Planted bugs: entries that a cut decides are not committed; a cut below the committed length is accepted.
  input  logic                  forgets_cut_i,
  input  logic                  believes_cut_i,
  // Nothing is in progress, except commits that kv_committer has not seen yet.
  input  logic                  quiet_i,
  input  logic                  committer_idle_i,
  // And all its applies are in the table.
  input  logic                  drained_i,
  input  membership_t           membership_i,
  output membership_change_t    change_o,
  output logic                  fill_o,
  input  logic                  filling_i,
  // `stops_o` drops pending messages and gaps; `begins_o` restarts the streams; `clears_o` sets their lengths to 0.
  output logic                  stops_o,
  output logic                  begins_o,
  output logic                  clears_o,
  // Lengths of `stream_o`.
  output stream_t               stream_o,
  input  number_t               accepted_i,
  input  number_t               committed_i,
  output lengths_change_t       lengths_change_o,
  output logic                  pace_valid_o,
  input  logic                  pace_ready_i,
  output pace_command_t         pace_o,
  // To kv_sweep.
  output logic                  sweep_valid_o,
  output logic                  sweep_drops_o,
  input  logic                  sweep_done_i,
  // Clearing of tables.
  output logic                  window_clear_valid_o,
  input  logic                  window_clear_ready_i,
  input  logic                  window_clear_done_i,
  output logic                  session_clear_valid_o,
  input  logic                  session_clear_ready_i,
  input  logic                  session_clear_done_i,
  output logic                  table_clear_valid_o,
  input  logic                  table_clear_ready_i,
  input  logic                  table_clear_done_i,
  // To kv_control, which receives the payload of the operation directly.
  output logic                  value_controlled_o,
  output logic                  command_valid_o,
  output control_command_t      command_o,
  input  logic                  answer_valid_i,
  input  control_answer_t       answer_i,
  input  lengths_t              cut_lengths_i,
  input  node_set_t             missing_i,
  input  logic                  transferred_i,
  input  stream_t               control_stream_i,
  input  logic                  control_idle_i,
  input  logic                  commit_valid_i,
  input  stream_t               commit_stream_i,
  input  number_t               commit_i,
  output logic                  commit_done_o,
  output kv_events_t            events_o
);

  // One-hot states.
  typedef enum logic [31:0] {
    Idle = 32'd1 << 0,
    Done = 32'd1 << 1,
    Drain = 32'd1 << 2,
    Control = 32'd1 << 3,
    ControlIdle = 32'd1 << 4,
    ControlCommit = 32'd1 << 5,
    ControlCommits = 32'd1 << 6,
    ControlCommitted = 32'd1 << 7,
    Sweep = 32'd1 << 8,
    Clear = 32'd1 << 9,
    ClearWait = 32'd1 << 10,
    ViewSet = 32'd1 << 11,
    ViewFill = 32'd1 << 12,
    LeaveStop = 32'd1 << 13,
    LeaveForget = 32'd1 << 14,
    Forget = 32'd1 << 15,
    ForgetSessions = 32'd1 << 16,
    ForgetTable = 32'd1 << 17,
    ForgetCuts = 32'd1 << 18,
    Enter = 32'd1 << 19,
    Joined = 32'd1 << 20,
    SealTell = 32'd1 << 21,
    SealPace = 32'd1 << 22,
    Decide = 32'd1 << 23,
    Decided = 32'd1 << 24,
    Undecided = 32'd1 << 25,
    Lose = 32'd1 << 26,
    Cut = 32'd1 << 27,
    CutRemembered = 32'd1 << 28,
    Heard = 32'd1 << 29,
    HeardTell = 32'd1 << 30,
    Taken = 32'd1 << 31
  } state_e;

  state_e state_d;
  // The initial value is for simulators, which would otherwise see several states active before reset.
  /* verilator lint_off PROCASSINIT */
  state_e state_q = Idle;
  /* verilator lint_on PROCASSINIT */
  // The states that follow Drain, a command of kv_control, a sweep, and Clear.
  state_e drained_q, drained_d;
  state_e controlled_q, controlled_d;
  state_e swept_q, swept_d;
  state_e cleared_q, cleared_d;

  function automatic logic at(state_e state);
    return |(state_q & state);
  endfunction

  role_e role;
  assign role = membership_i.role;

  role_e leave_role_q, leave_role_d;
  logic filled_q, filled_d;
  logic drops_q, drops_d;
  logic [1:0] quiet_q;  // cycles for which nothing has been in progress; saturated
  control_command_t command_q, command_d;
  control_answer_t answer_q;
  // A clear was accepted and has not finished.
  logic clearing_q, clearing_d;
  // The stream that is being cut.
  stream_t cut_stream_q, cut_stream_d;
  number_t cut_length;
  assign cut_length = cut_lengths_i[cut_stream_q];
  // Result for a chunk: it needs no entries to be committed; or all of them are.
  logic commits_nothing_q, commits_all_q;

  always_comb begin
    stream_o = control_stream_i;
    if (at(ControlCommit)) stream_o = commit_stream_i;
    if (at(Cut)) stream_o = cut_stream_q;
  end

  assign done_o = at(Done);
  assign sweep_valid_o = at(Sweep);
  assign sweep_drops_o = drops_q;
  assign window_clear_valid_o = at(Clear);
  assign session_clear_valid_o = at(ForgetSessions) && !clearing_q;
  assign table_clear_valid_o = at(ForgetTable) && !clearing_q;

  assign command_valid_o = at(Control) || at(ControlCommit) || at(ControlCommits) || at(ControlCommitted);
  assign command_o = command_q;
  logic controls_value;
  assign controls_value = command_q.command == ViewHear || command_q.command == TransferTake;
  assign value_controlled_o = command_valid_o && controls_value;
  // All applies must have finished, because the values of the last entry and of the chunk use the same port to the
  // table.
  assign commit_done_o = at(ControlCommitted) && drained_i;

  always_comb begin
    state_d = state_q;
    drained_d = drained_q;
    controlled_d = controlled_q;
    swept_d = swept_q;
    cleared_d = cleared_q;
    leave_role_d = leave_role_q;
    filled_d = filled_q;
    drops_d = drops_q;
    command_d = command_q;
    clearing_d = clearing_q;
    cut_stream_d = cut_stream_q;

    takes_o = 1'b0;
    change_o = '0;
    change_o.role = role;
    change_o.complete = membership_i.complete;
    fill_o = 1'b0;
    stops_o = 1'b0;
    begins_o = 1'b0;
    clears_o = 1'b0;
    lengths_change_o = '0;
    lengths_change_o.stream = commit_stream_i;
    lengths_change_o.committed = commit_i;
    pace_valid_o = 1'b0;
    pace_o = '{pace: PaceSeal, default: '0};
    events_o = '0;

    unique case (1'b1)
      |(state_q & Idle): begin
        drops_d = 1'b0;
        unique case (kind_i)
          // `configure`: a new configuration.
          OpConfigure: begin
            swept_d   = ViewSet;
            drained_d = Sweep;
          end

          OpSealed: begin
            command_d = '{
                command: ViewHear,
                take: !older_i && !newer_i && role == RoleSealed && membership_i.full[from_i],
                from : from_i,
                default: '0
            };
            controlled_d = Heard;
            drained_d = Control;
          end

          // `state_requested`: a joining node requests a part of the table or of the sessions.
          OpStateRequest: begin
            command_d = '{
                command: TransferGive,
                from : from_i,
                attempt: op_i.attempt,
                sessions: op_i.sessions,
                position: op_i.position,
                default: '0
            };
            controlled_d = Done;
            drained_d = Control;
          end

          // `state_arrived`: a chunk of a state transfer.
          OpStateChunk: begin
            command_d = '{
                command: TransferTake,
                take: !older_i && !newer_i && role == RoleJoining,
                from : from_i,
                default: '0
            };
            controlled_d = Taken;
            drained_d = Control;
          end

          // `timer`: Sealed, or the request for state, is sent again.
          OpTimer: begin
            command_d = '{command: op_i.timer == TimerSeal ? ViewTell : TransferAsk, to: missing_i, default: '0};
            controlled_d = Done;
            drained_d = Control;
          end

          default: drained_d = Forget;
        endcase
        if (valid_i) state_d = Drain;
      end

      |(state_q & Done): state_d = Idle;

      |(state_q & Drain): if (quiet_q == '1) state_d = drained_q;

      // The command stays until it is answered. Its payload follows once the operation has been taken.
      |(state_q & Control): begin
        takes_o = controls_value && !taken_i;
        if (answer_valid_i) state_d = ControlIdle;
        else if (commit_valid_i) state_d = ControlCommit;
      end

      // Messages that the command has produced must leave before any others.
      |(state_q & ControlIdle): if (control_idle_i) state_d = controlled_q;

      // Commits the stream up to the chunk's tag.
      |(state_q & ControlCommit): state_d = ControlCommits;

      |(state_q & ControlCommits): begin
        pace_o.pace = {1'b0, commit_stream_i};
        pace_o.progress = 1'b1;
        pace_o.arm = !commits_all_q;
        pace_valid_o = !commits_nothing_q;
        lengths_change_o.commits = pace_valid_o && pace_ready_i;
        if (!pace_valid_o || pace_ready_i) state_d = ControlCommitted;
      end

      |(state_q & ControlCommitted): if (drained_i) state_d = Control;

      |(state_q & Sweep): if (sweep_done_i) state_d = swept_q;

      // All windows are empty and all streams at 0.
      |(state_q & Clear): if (window_clear_ready_i) state_d = ClearWait;

      |(state_q & ClearWait): begin
        if (window_clear_done_i) begin
          clears_o = 1'b1;
          state_d  = cleared_q;
        end
      end

      // `configure`, once no read waits: sets the new view, and the node's role in it.
      |(state_q & ViewSet): begin
        change_o.lease = 1'b1;
        change_o.view = 1'b1;
        stops_o = 1'b1;
        drops_d = 1'b1;
        swept_d = Clear;
        cleared_d = LeaveStop;
        if (configuration_i.joining[configuration_i.node]) begin
          change_o.role = RoleJoining;
          change_o.complete = 1'b0;
        end else if (!configuration_i.full[configuration_i.node]) begin
          change_o.role = RoleOutside;
          change_o.complete = 1'b0;
        end else if (membership_i.base == '0 && configuration_i.epoch == 32'd1) begin
          change_o.role = RoleFull;
        end else if (membership_i.base != '0 && membership_i.complete && configuration_i.epoch[31:24] == '0) begin
          change_o.role = RoleSealed;
        end else begin
          change_o.role = RoleLost;
          change_o.complete = 1'b0;
        end
        leave_role_d = change_o.role;
        filled_d = 1'b0;
        state_d = ViewFill;
      end

      |(state_q & ViewFill): begin
        fill_o = !filled_q;
        filled_d = 1'b1;
        command_d = '{command: ViewBegin, default: '0};
        controlled_d = SealTell;
        if (!fill_o && !filling_i) begin
          unique case (role)
            RoleFull: state_d = Enter;
            RoleSealed: state_d = Control;
            default: state_d = Sweep;
          endcase
        end
      end

      // `leave`, once no entry is undecided: the node leaves its epoch.
      |(state_q & LeaveStop): begin
        change_o.nothing = 1'b1;
        change_o.forgets = kind_i == OpReset;
        change_o.role = leave_role_q;
        change_o.complete = 1'b0;
        command_d = '{command: TransferStop, take: kind_i == OpReset, default: '0};
        controlled_d = LeaveForget;
        state_d = Control;
      end

      |(state_q & LeaveForget): begin
        command_d = '{command: ViewForget, default: '0};
        controlled_d = role == RoleJoining || kind_i == OpReset ? ForgetSessions : Done;
        state_d = Control;
      end

      // Reset enters here.
      |(state_q & Forget): begin
        leave_role_d = RoleOutside;
        stops_o = 1'b1;
        cleared_d = LeaveStop;
        state_d = Clear;
      end

      |(state_q & ForgetSessions): begin
        if (session_clear_ready_i) clearing_d = 1'b1;
        if (clearing_q && session_clear_done_i) begin
          clearing_d = 1'b0;
          state_d = ForgetTable;
        end
      end

      |(state_q & ForgetTable): begin
        if (table_clear_ready_i) clearing_d = 1'b1;
        if (clearing_q && table_clear_done_i) begin
          clearing_d = 1'b0;
          state_d = ForgetCuts;
        end
      end

      |(state_q & ForgetCuts): begin
        command_d = '{command: CutForget, default: '0};
        controlled_d = kind_i == OpReset ? Done : Enter;
        state_d = Control;
      end

      // `begin_epoch`: the node acts in the new epoch from now on.
      |(state_q & Enter): begin
        change_o.base = 1'b1;
        begins_o = 1'b1;
        command_d = '{command: TransferBegin, default: '0};
        controlled_d = Joined;
        if (role == RoleJoining) begin
          state_d = Control;
        end else begin
          change_o.role = RoleFull;
          change_o.complete = 1'b1;
          state_d = Done;
        end
      end

      // `request_state`: starts the timer if kv_control has requested state.
      |(state_q & Joined): begin
        pace_o.pace = PaceTransfer;
        pace_o.progress = 1'b1;
        pace_o.arm = 1'b1;
        pace_valid_o = answer_q.asked;
        if (!pace_valid_o || pace_ready_i) state_d = Done;
      end

      // `seal`: sends the accepted lengths to all other full members.
      |(state_q & SealTell): begin
        command_d = '{command: ViewTell, to: membership_i.full & ~(16'd1 << membership_i.node), default: '0};
        controlled_d = SealPace;
        state_d = Control;
      end

      |(state_q & SealPace): begin
        pace_o.progress = 1'b1;
        pace_valid_o = 1'b1;
        if (pace_ready_i) state_d = Decide;
      end

      // `try_cut`: lets kv_control decide whether the streams can be cut.
      |(state_q & Decide): begin
        command_d = '{command: ViewDecide, default: '0};
        controlled_d = Decided;
        state_d = Control;
      end

      |(state_q & Decided): begin
        cut_stream_d = '0;
        drops_d = 1'b1;
        swept_d = Clear;
        unique case (answer_q.verdict)
          ControlDone: state_d = Cut;
          ControlUndecided: state_d = Undecided;
          default: state_d = Lose;
        endcase
      end

      |(state_q & Undecided): begin
        pace_o.arm   = 1'b1;
        pace_valid_o = 1'b1;
        if (pace_ready_i) state_d = Done;
      end

      |(state_q & Lose): begin
        change_o.role = RoleLost;
        change_o.complete = 1'b0;
        leave_role_d = RoleLost;
        cleared_d = LeaveStop;
        drained_d = Sweep;
        state_d = Drain;
      end

      // `cut`: ends the streams of the closed epoch, one after the other.
      |(state_q & Cut): begin
        lengths_change_o.stream = cut_stream_q;
        lengths_change_o.committed = cut_length;
        cleared_d = CutRemembered;
        drained_d = Sweep;
        // Streams are cut in ascending order, as in the twin, because the order determines the order of sessions.
        if (committer_idle_i) begin
          cut_stream_d = cut_stream_q + 1'b1;
          if (cut_length < committed_i && !believes_cut_i) begin
            // A member no longer has entries that it had acknowledged, so no state can be trusted.
            state_d = Lose;
          end else begin
            lengths_change_o.commits = cut_length > committed_i && !forgets_cut_i;
            if (cut_stream_q == '1) state_d = Drain;
          end
        end
      end

      |(state_q & CutRemembered): begin
        events_o.view_changes = 1'b1;
        command_d = '{command: CutRemember, default: '0};
        controlled_d = Enter;
        state_d = Control;
      end

      // `sealed`: kv_control has processed a Sealed message.
      |(state_q & Heard): begin
        pace_o.progress = 1'b1;
        if (answer_q.verdict == ControlMalformed) begin
          events_o.dropped_malformed = 2'd1;
          state_d = Done;
        end else if (older_i || newer_i) begin
          events_o.dropped_old_epoch = older_i;
          events_o.dropped_future_epoch = newer_i;
          state_d = Done;
        end else if (role != RoleSealed && role != RoleFull || !membership_i.full[from_i]) begin
          events_o.dropped_wrong_role = 2'd1;
          state_d = Done;
        end else begin
          pace_valid_o = role == RoleSealed;
          if (!pace_valid_o || pace_ready_i) state_d = HeardTell;
        end
      end

      |(state_q & HeardTell): begin
        command_d = '{command: ViewTell, to: 16'd1 << from_i, default: '0};
        controlled_d = role == RoleSealed ? Decide : Done;
        state_d = answer_q.heard[membership_i.node] ? controlled_d : Control;
      end

      |(state_q & Taken): begin
        pace_o.pace = PaceTransfer;
        pace_o.progress = 1'b1;
        pace_o.arm = answer_q.asked;
        pace_valid_o = answer_q.verdict == ControlDone && (answer_q.asked || answer_q.moved);
        if (!pace_valid_o || pace_ready_i) begin
          events_o.dropped_malformed = 2'(answer_q.verdict == ControlMalformed);
          if (answer_q.verdict == ControlDone) begin
            events_o.dropped_old_epoch = older_i;
            events_o.dropped_future_epoch = newer_i;
            events_o.dropped_wrong_role = 2'(!older_i && !newer_i && role != RoleJoining);
          end
          if (role == RoleJoining && transferred_i) change_o.complete = 1'b1;
          state_d = Done;
        end
      end

      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    drained_q    <= drained_d;
    controlled_q <= controlled_d;
    swept_q      <= swept_d;
    cleared_q    <= cleared_d;
    leave_role_q <= leave_role_d;
    filled_q     <= filled_d;
    drops_q      <= drops_d;
    command_q    <= command_d;
    cut_stream_q <= cut_stream_d;
    if (answer_valid_i) answer_q <= answer_i;
    if (at(ControlCommit)) begin
      commits_nothing_q <= commit_i == committed_i;
      commits_all_q     <= commit_i == accepted_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q    <= Idle;
      clearing_q <= 1'b0;
      quiet_q    <= '0;
    end else begin
      state_q    <= state_d;
      clearing_q <= clearing_d;
      if (at(Drain) && quiet_i) quiet_q <= quiet_q + 2'(quiet_q != '1);
      else quiet_q <= '0;
    end
  end

endmodule
