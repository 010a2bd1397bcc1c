// One Verilated NIC behind a C interface: everything of an instance lies in its own context, so instances may live in
// different threads.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "Vweft_nic.h"
#include "Vweft_nic___024root.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

namespace {

using Top = Vweft_nic;

#include "ports.inc"

// Clock cycles that reset is held.
constexpr int kResetCycles = 8;

// A clock cycle of 250 MHz in the unit of traces, picoseconds.
constexpr uint64_t kCyclePs = 4000;

struct Model {
  VerilatedContext context;
  std::unique_ptr<Top> top;
  std::string failure;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> trace;
#endif
};

// The instance that runs in this thread: what Verilator calls on a failed assertion does not say which one it is.
thread_local Model* running = nullptr;

void fail(const char* file, int line, const char* hierarchy, const char* what) {
  if (running != nullptr && running->failure.empty()) {
    running->failure = std::string(what) + " at " + file + ":" + std::to_string(line) + " in " + hierarchy;
  }
}

void edge(Model& model, uint64_t time) {
  model.top->clk_i = 0;
  model.top->eval();
#if VM_TRACE_FST
  if (model.trace) model.trace->dump(time);
#else
  (void)time;
#endif
}

void rise(Model& model, uint64_t time) {
  model.top->clk_i = 1;
  model.top->eval();
#if VM_TRACE_FST
  if (model.trace) model.trace->dump(time + kCyclePs / 2);
#else
  (void)time;
#endif
}

}  // namespace

// Overridden: a failed assertion is an error of one instance, and the caller decides what comes of it.
void vl_finish(const char* file, int line, const char* hierarchy) { fail(file, line, hierarchy, "$finish"); }
void vl_stop(const char* file, int line, const char* hierarchy) { fail(file, line, hierarchy, "an assertion failed"); }
void vl_fatal(const char* file, int line, const char* hierarchy, const char* message) {
  fail(file, line, hierarchy, message);
}

extern "C" {

// A NIC after reset. What reset leaves alone is zero, or, with a seed that is not zero, random.
Model* weft_model_new(uint32_t seed) {
  auto* model = new Model;
  model->context.randReset(seed == 0 ? 0 : 2);
  model->context.randSeed(static_cast<int>(seed & 0x7fffffff));
#if VM_TRACE_FST
  model->context.traceEverOn(true);
#endif
  model->top = std::make_unique<Top>(&model->context, "weft_nic");
  running = model;
  const Inputs quiet{};
  drive(*model->top, quiet);
  model->top->rst_ni = 0;
  for (int cycle = 0; cycle < kResetCycles; ++cycle) {
    edge(*model, 0);
    rise(*model, 0);
  }
  model->top->rst_ni = 1;
  running = nullptr;
  return model;
}

void weft_model_delete(Model* model) { delete model; }

// One clock cycle: the inputs take effect, the outputs are what they then are, and the clock rises. Returns whether an
// assertion failed.
bool weft_model_step(Model* model, const Inputs* in, Outputs* out, uint64_t time_ps) {
  running = model;
  drive(*model->top, *in);
  edge(*model, time_ps);
  sample(*model->top, *out);
  rise(*model, time_ps);
  running = nullptr;
  return !model->failure.empty();
}

// What failed first.
const char* weft_model_failure(const Model* model) { return model->failure.c_str(); }

// Begins a waveform file; false if it cannot be opened.
bool weft_model_trace(Model* model, const char* path) {
#if VM_TRACE_FST
  model->trace = std::make_unique<VerilatedFstC>();
  model->context.timeunit(-12);
  model->context.timeprecision(-12);
  model->top->trace(model->trace.get(), 99);
  model->trace->open(path);
  return model->trace->isOpen();
#else
  (void)model;
  (void)path;
  return false;
#endif
}

// The array behind the on-chip memory or the registers, and its size in bytes; null if the model has none.
uint8_t* weft_model_memory(Model* model, bool on_chip, size_t* bytes) {
  return on_chip ? on_chip_memory(*model->top, bytes) : register_memory(*model->top, bytes);
}

void weft_model_trace_end(Model* model) {
#if VM_TRACE_FST
  if (model->trace) model->trace->close();
  model->trace.reset();
#else
  (void)model;
#endif
}

}  // extern "C"
