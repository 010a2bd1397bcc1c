// One Verilated module behind a C interface. All state of an instance is in its own context, so instances may
// be in different threads. Compiled once for each top: WEFT_TOP is the module, WEFT_CLASS the class that
// Verilator generated.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include WEFT_HEADER
#include WEFT_ROOT_HEADER
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

namespace {

using Top = WEFT_CLASS;

#include "ports.inc"

// Clock cycles for which reset is active.
constexpr int kResetCycles = 8;

// Period of the 250 MHz clock in the time unit of traces, picoseconds.
constexpr uint64_t kCyclePs = 4000;

struct Model {
  VerilatedContext context;
  std::unique_ptr<Top> top;
  std::string failure;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> trace;
#endif
};

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

#define WEFT_JOIN2(a, b) a##_model_##b
#define WEFT_JOIN(a, b) WEFT_JOIN2(a, b)
#define WEFT_STRING2(a) #a
#define WEFT_STRING(a) WEFT_STRING2(a)
#define FUNCTION(name) WEFT_JOIN(WEFT_TOP, name)

}  // namespace

// Defined in runtime.cpp: receives the message of a failed assertion of the instance that runs in this
// thread.
extern thread_local std::string* weft_failure;

extern "C" {

// Creates an instance and resets it. Storage that reset does not clear is zero, or, with a seed other than
// zero, random.
Model* FUNCTION(new)(uint32_t seed) {
  auto* model = new Model;
  model->context.randReset(seed == 0 ? 0 : 2);
  model->context.randSeed(static_cast<int>(seed & 0x7fffffff));
#if VM_TRACE_FST
  model->context.traceEverOn(true);
#endif
  model->top = std::make_unique<Top>(&model->context, WEFT_STRING(WEFT_TOP));
  weft_failure = &model->failure;
  const Inputs quiet{};
  drive(*model->top, quiet);
  model->top->rst_ni = 0;
  for (int cycle = 0; cycle < kResetCycles; ++cycle) {
    edge(*model, 0);
    rise(*model, 0);
  }
  model->top->rst_ni = 1;
  weft_failure = nullptr;
  return model;
}

void FUNCTION(delete)(Model* model) { delete model; }

// One clock cycle: applies the inputs, samples the outputs, and then raises the clock. Returns whether an
// assertion failed.
bool FUNCTION(step)(Model* model, const Inputs* in, Outputs* out, uint64_t time_ps) {
  weft_failure = &model->failure;
  drive(*model->top, *in);
  edge(*model, time_ps);
  sample(*model->top, *out);
  rise(*model, time_ps);
  weft_failure = nullptr;
  return !model->failure.empty();
}

// The message of the first failed assertion.
const char* FUNCTION(failure)(const Model* model) { return model->failure.c_str(); }

// Starts a waveform file. Returns false if it cannot be opened.
bool FUNCTION(trace)(Model* model, const char* path) {
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

// The array of the on-chip memory or of the registers, and its size in bytes; null if the module has none.
uint8_t* FUNCTION(memory)(Model* model, bool on_chip, size_t* bytes) {
  return on_chip ? on_chip_memory(*model->top, bytes) : register_memory(*model->top, bytes);
}

void FUNCTION(trace_end)(Model* model) {
#if VM_TRACE_FST
  if (model->trace) model->trace->close();
  model->trace.reset();
#else
  (void)model;
#endif
}

}  // extern "C"
