// For tests: a directory that stands for "/", removed at the end.
#ifndef ROPELINE_BENCH_FAKE_ROOT_H_
#define ROPELINE_BENCH_FAKE_ROOT_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ropeline {

class FakeRoot {
 public:
  FakeRoot() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("ropeline_root_" + std::to_string(getpid()) + "_" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  ~FakeRoot() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  // `file` without a leading slash; its folders are made.
  FakeRoot& Write(const std::string& file, std::string_view text) {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream stream(path_ / file, std::ios::binary);
    stream << text;
    EXPECT_TRUE(stream.good()) << file;
    return *this;
  }

  std::string Path() const { return path_.string(); }
  std::string Path(const std::string& file) const { return (path_ / file).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_FAKE_ROOT_H_
