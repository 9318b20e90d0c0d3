// For tests that give the same inputs to a llama.cpp build and to our kernels. Run with
//   ROPELINE_GGML=FOLDER build/peer_test
// where FOLDER is what `bench_all --ggml` takes; without it these tests are skipped.
#ifndef ROPELINE_BENCH_PEER_CROSS_CHECK_H_
#define ROPELINE_BENCH_PEER_CROSS_CHECK_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/build_info.h"
#include "bench/peer/ggml_library.h"
#include "kernels/hash.h"

namespace ropeline {

// Opened once for the process.
inline std::shared_ptr<const GgmlLibrary> CrossCheckLibrary() {
  static const auto* const library = [] {
    auto* opened = new std::shared_ptr<const GgmlLibrary>(GgmlLibrary::Open(std::getenv("ROPELINE_GGML")));
    std::printf("ropeline %s beside ggml %s (%s), variant %s\n", BuildGitHash(), (*opened)->Version().c_str(),
                (*opened)->Commit().c_str(), (*opened)->Variant().c_str());
    return opened;
  }();
  return *library;
}

class CrossCheck : public testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("ROPELINE_GGML");
    if (folder == nullptr || *folder == '\0') {
      GTEST_SKIP() << "ROPELINE_GGML is not set, expected the folder of a llama.cpp build";
    }
    library_ = CrossCheckLibrary();
  }

  std::shared_ptr<const GgmlLibrary> library_;
};

// The comparison of a test that came closest to its limit, or furthest beyond it.
class Worst {
 public:
  explicit Worst(std::string what) : what_(std::move(what)) {}

  // `where` makes the text, and is called for a new worst one only. An error that is no number is worst.
  template <class Where>
  void Note(double error, double allowed, const Where& where) {
    ++count_;
    if (error <= allowed * share_) return;
    share_ = error / allowed;
    error_ = error;
    allowed_ = allowed;
    where_ = where();
    if (!(share_ <= 1)) bad_ = true;
  }

  double Share() const { return share_; }  // of what is allowed; −1 before any

  // One line of the log; fails the test where an error is above its limit.
  void Report() const {
    const std::string line = count_ == 0  ? fmt::format("{}: nothing compared", what_)
                             : share_ < 0 ? fmt::format("{}: {} compared", what_, count_)
                                          : fmt::format("{}: {} compared, worst {:.3g} of {:.3g} allowed: {}",
                                                        what_, count_, error_, allowed_, where_);
    std::printf("  %s\n", line.c_str());
    EXPECT_GT(count_, 0u) << what_;
    EXPECT_FALSE(bad_) << line;
  }

 private:
  std::string what_, where_;
  size_t count_ = 0;
  double share_ = -1, error_ = 0, allowed_ = 0;
  bool bad_ = false;
};

// In [−size, size).
inline std::vector<float> Numbers(size_t count, size_t seed, float size = 1) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = size * HashToFloat(i, seed);
  return numbers;
}

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_CROSS_CHECK_H_
