// Does a library do what ggml_api.h says? Each operation on small tensors against its plain formula, in a
// child process, because a function with other parameters may do anything.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/peer/ggml_fill.h"
#include "bench/peer/ggml_library.h"
#include "bench/peer/ggml_session.h"
#include "kernels/hash.h"

namespace ropeline {

namespace {

using ggml::Type;

constexpr double kTolerance = 0.05;  // 4-bit rounding of both operands; a wrong formula is off by more

void Expect(double actual, double expected, const char* what) {
  if (!(std::fabs(actual - expected) <= kTolerance * (1 + std::fabs(expected)))) {
    throw PeerUnusable(fmt::format("{} gives {:.4g}, expected {:.4g}", what, actual, expected));
  }
}

double Number(size_t i, size_t seed) { return static_cast<double>(HashToFloat(i, seed)); }

void CheckRope(const std::shared_ptr<const GgmlLibrary>& library) {
  GgmlSession session(library, {});
  ggml::Tensor* x = session.New(Type::kF32, 4, 2, 3);
  ggml::Tensor* positions = session.New(Type::kI32, 3);
  for (int t = 0; t < 3; ++t) static_cast<int32_t*>(session.Data(positions))[t] = 7 * t;
  FillRows(*library, Type::kF32, 4, 6, 1, session.Data(x));
  session.RopeInPlace(x, positions, {.d_rot = 4, .base = 100});
  session.Compute();
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < 2; ++i) {
      const double angle = 7.0 * static_cast<double>(t) * std::pow(100.0, -0.5 * static_cast<double>(i));
      const double a = Number(8 * t + i, 1), b = Number(8 * t + i + 2, 1);
      const float* const out = session.Floats(x) + 8 * t;
      Expect(static_cast<double>(out[i]), a * std::cos(angle) - b * std::sin(angle), "rope_ext");
      Expect(static_cast<double>(out[i + 2]), b * std::cos(angle) + a * std::sin(angle), "rope_ext");
    }
  }
}

void CheckGatherAndAdd(const std::shared_ptr<const GgmlLibrary>& library) {
  GgmlSession session(library, {});
  ggml::Tensor* table = session.New(Type::kF32, 8, 4);
  ggml::Tensor* rows = session.New(Type::kI32, 2);
  ggml::Tensor* bias = session.New(Type::kF32, 8, 2);
  FillRows(*library, Type::kF32, 8, 4, 1, session.Data(table));
  FillRows(*library, Type::kF32, 8, 2, 2, session.Data(bias));
  static_cast<int32_t*>(session.Data(rows))[0] = 3;
  static_cast<int32_t*>(session.Data(rows))[1] = 1;
  ggml::Tensor* sum = session.AddInPlace(session.GetRows(table, rows), bias);
  session.Compute();
  for (size_t i = 0; i < 8; ++i) {
    Expect(static_cast<double>(session.Floats(sum)[i]), Number(24 + i, 1) + Number(i, 2), "get_rows and add");
  }
}

void CheckSoftMax(const std::shared_ptr<const GgmlLibrary>& library) {
  GgmlSession session(library, {});
  constexpr size_t kN = 16, kHeads = 2;
  ggml::Tensor* scores = session.New(Type::kF32, kN, 1, kHeads);
  ggml::Tensor* mask = session.New(Type::kF32, kN, 1);
  FillRows(*library, Type::kF32, kN, kHeads, 1, session.Data(scores));
  for (size_t k = 0; k < kN; ++k) session.Floats(mask)[k] = -static_cast<float>(kN - 1 - k);
  ggml::Tensor* out = session.SoftMax(scores, mask, 2, 8);
  session.Compute();
  const double slopes[] = {1.0 / 16, 1.0 / 256};
  for (size_t h = 0; h < kHeads; ++h) {
    std::vector<double> weight(kN);
    double sum = 0;
    for (size_t k = 0; k < kN; ++k) {
      sum += weight[k] = std::exp(2 * Number(h * kN + k, 1) - slopes[h] * static_cast<double>(kN - 1 - k));
    }
    for (size_t k = 0; k < kN; ++k) {
      Expect(static_cast<double>(session.Floats(out)[h * kN + k]), weight[k] / sum, "soft_max_ext");
    }
  }
}

void CheckAttention(const std::shared_ptr<const GgmlLibrary>& library, Type type) {
  GgmlSession session(library, {});
  constexpr size_t kD = 64, kN = 32;
  ggml::Tensor* q = session.New(Type::kF32, kD, 2, 1);
  ggml::Tensor* k = session.New(type, kD, 1, kN);
  ggml::Tensor* v = session.New(type, kD, 1, kN);
  FillRows(*library, Type::kF32, kD, 2, 1, session.Data(q));
  FillRows(*library, type, kD, kN, 2, session.Data(k));
  FillRows(*library, type, kD, kN, 3, session.Data(v));
  ggml::Tensor* out = session.Attend(q, k, v, nullptr, {.scale = 0.125f});
  session.Compute();
  std::vector<double> sums(kD);
  double total = 0;
  for (size_t t = 0; t < kN; ++t) {
    double score = 0;
    for (size_t i = 0; i < kD; ++i) score += Number(i, 1) * Number(t * kD + i, 2);
    const double weight = std::exp(0.125 * score);
    total += weight;
    for (size_t i = 0; i < kD; ++i) sums[i] += weight * Number(t * kD + i, 3);
  }
  for (size_t i = 0; i < kD; ++i) {
    Expect(static_cast<double>(session.Floats(out)[i]), sums[i] / total, "flash_attn_ext");
  }
}

void CheckProduct(const std::shared_ptr<const GgmlLibrary>& library, Type type) {
  GgmlSession session(library, {});
  constexpr size_t kColumns = 256, kRows = 16;
  ggml::Tensor* matrix = session.New(type, kColumns, kRows);
  ggml::Tensor* x = session.New(Type::kF32, kColumns);
  FillRows(*library, type, kColumns, kRows, 1, session.Data(matrix));
  for (size_t i = 0; i < kColumns; ++i) session.Floats(x)[i] = HashToFloat(i, 2) / 16;
  ggml::Tensor* out = session.MulMat(matrix, x);
  session.Compute();
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t i = 0; i < kColumns; ++i) sum += Number(row * kColumns + i, 1) * Number(i, 2) / 16;
    Expect(static_cast<double>(session.Floats(out)[row]), sum, "mul_mat");
  }
}

using Check = std::pair<std::string, std::function<void(const std::shared_ptr<const GgmlLibrary>&)>>;

std::vector<Check> Checks() {
  std::vector<Check> checks = {
      {"rope_ext", CheckRope}, {"get_rows and add", CheckGatherAndAdd}, {"soft_max_ext", CheckSoftMax}};
  for (const Type type : {Type::kF32, Type::kF16, Type::kQ8_0, Type::kQ4_0}) {
    checks.push_back({"flash_attn_ext", [type](const auto& library) { CheckAttention(library, type); }});
  }
  for (const Type type :
       {Type::kF32, Type::kF16, Type::kBf16, Type::kQ8_0, Type::kQ4_0, Type::kQ4_K, Type::kQ6_K}) {
    checks.push_back({"mul_mat", [type](const auto& library) { CheckProduct(library, type); }});
  }
  return checks;
}

// In the child: writes what it is about to do, one line each, and the last line says how it went.
void RunChecks(const std::string& folder, int out) {
  const auto say = [out](const std::string& line) {
    const std::string text = line + "\n";
    if (write(out, text.data(), text.size()) < 0) _exit(3);
  };
  try {
    say("opening it");
    const auto library = GgmlLibrary::Open(folder);
    for (const auto& [name, check] : Checks()) {
      say(name);
      try {
        check(library);
      } catch (const PeerUnusable& error) {
        const std::string what = error.what();
        throw what.rfind("--ggml", 0) == 0
            ? error
            : PeerUnusable(
                  fmt::format("--ggml: {}: {}, another interface than this suite knows", folder, what));
      }
    }
    say("=");
  } catch (const std::exception& error) {
    say(fmt::format("!{}", error.what()));
  }
}

std::string ReadAll(int from) {
  std::string text;
  char piece[512];
  for (ssize_t got; (got = read(from, piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<size_t>(got));
  return text;
}

}  // namespace

std::string CheckGgmlInChild(const std::string& folder) {
  int ends[2];
  if (pipe(ends) != 0) return "--ggml: cannot make a pipe, expected a free file descriptor";
  const pid_t child = fork();
  if (child < 0) return "--ggml: cannot start a process to try the library in, expected room for one";
  if (child == 0) {
    close(ends[0]);
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    setenv("GGML_NO_BACKTRACE", "1", 1);
    for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
    alarm(60);
    RunChecks(folder, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::string last = text.substr(text.rfind('\n') + 1);
  if (last == "=") return "";
  if (!last.empty() && last[0] == '!') return last.substr(1);
  const bool killed = WIFSIGNALED(status);
  return fmt::format("--ggml: {}: {} ended the process ({} {}), expected a llama.cpp of 2025 or later",
                     folder, last, killed ? "signal" : "exit code",
                     killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace ropeline
