// What is told of a folder that holds no usable ggml. The libraries in it are fakes of ours.
#include "bench/peer/ggml_library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "bench/fake_root.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

// The line that Open refuses a folder with; "" where it opens.
std::string Refusal(const std::string& folder) {
  try {
    GgmlLibrary::Open(folder);
  } catch (const PeerUnusable& error) {
    return error.what();
  }
  return "";
}

// One line that starts and ends like every message about bad input, with `what` in it.
void ExpectLine(const std::string& line, const std::string& what) {
  EXPECT_EQ(line.rfind("--ggml: ", 0), 0u) << line;
  EXPECT_NE(line.find(what), std::string::npos) << line << "\nlacks " << what;
  EXPECT_NE(line.find(", expected "), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

class GgmlFolder : public testing::Test {
 protected:
  // A fake library under the names that ggml's have.
  void Put(const char* fake, const std::string& file) {
    root_.Write(file, "");
    fs::copy_file(fake, root_.Path(file), fs::copy_options::overwrite_existing);
  }
  // In this process, and in the child that tries every operation.
  void ExpectRefused(const std::string& what) {
    ExpectLine(Refusal(root_.Path()), what);
    ExpectLine(CheckGgmlInChild(root_.Path()), what);
  }

  FakeRoot root_;
};

TEST_F(GgmlFolder, ThatIsEmpty) { ExpectRefused("no libggml-base.so in it"); }

TEST_F(GgmlFolder, ThatIsNotThere) {
  ExpectLine(Refusal(root_.Path("nowhere")), "no such folder");
  root_.Write("file", "text");
  ExpectLine(Refusal(root_.Path("file")), "no such folder");
}

TEST_F(GgmlFolder, WithTextForALibrary) {
  root_.Write("libggml-base.so", "These are words.\nAnd more of them.\n");
  root_.Write("libggml-cpu.so", "words");
  ExpectRefused("libggml-base.so: cannot be opened");
}

TEST_F(GgmlFolder, WithAnEmptyFileForALibrary) {
  root_.Write("libggml-base.so", "");
  ExpectRefused("cannot be opened");
}

TEST_F(GgmlFolder, WithoutALibraryForCpus) {
  Put(ROPELINE_FAKE_GGML, "libggml-base.so");
  ExpectRefused("no libggml-cpu*.so for this CPU");
}

TEST_F(GgmlFolder, WithTextForTheLibraryForCpus) {
  Put(ROPELINE_FAKE_GGML, "libggml-base.so");
  root_.Write("libggml-cpu-haswell.so", "words");
  ExpectRefused("libggml-cpu-haswell.so: cannot be opened");
}

TEST_F(GgmlFolder, WithVariantsForOtherCpusOnly) {
  Put(ROPELINE_FAKE_GGML, "libggml-base.so");
  Put(ROPELINE_FAKE_GGML_FOR_OTHERS, "libggml-cpu-zen9.so");
  ExpectRefused("no libggml-cpu*.so for this CPU");
}

TEST_F(GgmlFolder, WithFunctionsMissing) {
  Put(ROPELINE_FAKE_GGML_PART, "libggml-base.so");
  Put(ROPELINE_FAKE_GGML, "libggml-cpu.so");
  ExpectRefused("libggml-base.so: no function ggml_init");
}

TEST_F(GgmlFolder, WithFunctionsForCpusMissing) {
  Put(ROPELINE_FAKE_GGML, "libggml-base.so");
  Put(ROPELINE_FAKE_GGML_PART, "libggml-cpu.so");
  ExpectRefused("libggml-cpu.so: no function ggml_backend_cpu_init");
}

TEST_F(GgmlFolder, OfAnotherInterfaceVersion) {
  Put(ROPELINE_FAKE_GGML_OLD, "libggml-base.so");
  Put(ROPELINE_FAKE_GGML_OLD, "libggml-cpu.so");
  ExpectRefused("libggml-cpu.so: backend interface version 1, expected 2");
}

// It opens; the first operation that is tried ends the child and not us.
TEST_F(GgmlFolder, WithFunctionsThatEndTheProcess) {
  Put(ROPELINE_FAKE_GGML, "libggml-base.so");
  Put(ROPELINE_FAKE_GGML, "libggml-cpu.so");
  EXPECT_EQ(Refusal(root_.Path()), "");
  ExpectLine(CheckGgmlInChild(root_.Path()), "rope_ext ended the process (");
}

TEST_F(GgmlFolder, BelowTheGivenOneWithTheBestVariant) {
  const std::string bins = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/";
  Put(ROPELINE_FAKE_GGML, bins + "libggml-base.so");
  Put(ROPELINE_FAKE_GGML, bins + "libggml-cpu-a.so");
  Put(ROPELINE_FAKE_GGML_BETTER, bins + "libggml-cpu-b.so");
  Put(ROPELINE_FAKE_GGML_FOR_OTHERS, bins + "libggml-cpu-c.so");
  root_.Write(bins + "libggml-cpu-d.so", "words");
  const auto library = GgmlLibrary::Open(root_.Path());
  EXPECT_EQ(library->Variant(), "b");
  EXPECT_EQ(library->Version(), "0.0.1");
  EXPECT_EQ(library->Commit(), "fake");
  EXPECT_EQ(library->PeerName(), "ggml-0.0.1");
}

}  // namespace
}  // namespace ropeline
