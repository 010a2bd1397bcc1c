// Code that all Verilated models of a process share.

#include <string>

#include "verilated.h"

// Receives the message of a failed assertion of the instance that runs in this thread. The functions that
// Verilator calls on a failure do not tell which instance failed.
thread_local std::string* weft_failure = nullptr;

namespace {

void fail(const char* file, int line, const char* hierarchy, const char* what) {
  if (weft_failure != nullptr && weft_failure->empty()) {
    *weft_failure = std::string(what) + " at " + file + ":" + std::to_string(line) + " in " + hierarchy;
  }
}

}  // namespace

// Replacements of Verilator's functions: a failed assertion is an error of one instance, and the caller
// decides how to handle it.
void vl_finish(const char* file, int line, const char* hierarchy) { fail(file, line, hierarchy, "$finish"); }
void vl_stop(const char* file, int line, const char* hierarchy) { fail(file, line, hierarchy, "an assertion failed"); }
void vl_fatal(const char* file, int line, const char* hierarchy, const char* message) {
  fail(file, line, hierarchy, message);
}
