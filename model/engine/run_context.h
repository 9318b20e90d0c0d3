// What the text around a table says of the run: the command, sweep-bench's own preamble, the loader's log, a
// heading.
#ifndef ROPELINE_MODEL_ENGINE_RUN_CONTEXT_H_
#define ROPELINE_MODEL_ENGINE_RUN_CONTEXT_H_

#include <string>
#include <string_view>

#include "model/engine/bench_record.h"

namespace ropeline {

class RunContext {
 public:
  // Every line of the text in turn, but those of tables.
  void Read(std::string_view line);

  // A table's header: a preamble describes the first table behind it alone.
  void BeginTable();

  // Fills in what the record does not say itself.
  void Describe(BenchRecord* record) const;

 private:
  bool ReadCommandLine(std::string_view line);
  void ReadCommand(std::string_view flags);
  void ReadPreamble(std::string_view line);
  void ReadLog(std::string_view line);

  BenchRecord known_{};  // from the command and the log
  BenchRecord preamble_{};
  bool preamble_used_ = false;
  std::string title_{};
  std::string command_{};       // so far, of one that goes on in the next line
  std::string command_path_{};  // what stands before its flags
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_RUN_CONTEXT_H_
