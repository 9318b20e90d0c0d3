#include "model/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace ropeline {
namespace {

const Where kWhere{"command line", "--x"};

// The message of the BadInput that the call throws; "" where it throws none.
std::string Refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(UnitsTest, CountsUseBinarySuffixes) {
  EXPECT_EQ(ParseCount("1", kWhere), 1u);
  EXPECT_EQ(ParseCount("32768", kWhere), 32768u);
  EXPECT_EQ(ParseCount("32k", kWhere), 32768u);
  EXPECT_EQ(ParseCount("128K", kWhere), 131072u);
  EXPECT_EQ(ParseCount("1m", kWhere), 1048576u);
  EXPECT_EQ(ParseCount("3.5k", kWhere), 3584u);
  EXPECT_EQ(ParseCount("8", kWhere, 8), 8u);
}

TEST(UnitsTest, CountsThatAreNoneAreRefused) {
  for (const char* text : {"0",    "-1",    "3.5.2k",  "99999999999k",
                           "",     "1e400", "1e3",     "32kb",
                           "k",    "0.5",   "3.3333k", "32k ",
                           " 32k", "+5",    ".5k",     "5.",
                           "0x10", "nan",   "inf",     "123456789012345678901234567890",
                           "32\n"}) {
    const std::string message = Refusal([&] { ParseCount(text, kWhere); });
    EXPECT_EQ(message.find("command line: --x: \""), 0u) << text;
    EXPECT_NE(message.find(", expected a whole number from 1 to 268,435,456"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  }
  EXPECT_NE(Refusal([&] { ParseCount("9", kWhere, 8); }).find("\"9\" is too large"), std::string::npos);
}

TEST(UnitsTest, ListsOfCounts) {
  EXPECT_EQ(ParseCountList("512,4k,32k", kWhere), (std::vector<uint64_t>{512, 4096, 32768}));
  EXPECT_EQ(ParseCountList("7", kWhere), (std::vector<uint64_t>{7}));
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "1;2"}) {
    EXPECT_NE(Refusal([&] { ParseCountList(text, kWhere); }), "") << text;
  }
}

TEST(UnitsTest, SizesAndRates) {
  EXPECT_EQ(ParseSizeBytes("3.5GiB", kWhere), 3758096384.0);
  EXPECT_EQ(ParseSizeBytes("20GB", kWhere), 20e9);
  EXPECT_EQ(ParseSizeBytes("512B", kWhere), 512.0);
  EXPECT_EQ(ParseBytesPerSecond("20GB/s", kWhere), 20e9);
  EXPECT_EQ(ParseBytesPerSecond("20 GB/s", kWhere), 20e9);
  EXPECT_EQ(ParseBytesPerSecond("33.5GiB/s", kWhere), 33.5 * 1073741824.0);
  EXPECT_EQ(ParseFlopsPerSecond("50GFLOP/s", kWhere), 50e9);
  EXPECT_EQ(ParseFlopsPerSecond("50GFLOPS", kWhere), 50e9);
  EXPECT_EQ(ParseFlopsPerSecond("1.2TFLOP/s", kWhere), 1.2e12);
}

TEST(UnitsTest, ABareNumberIsRefusedWithTheExpectedForm) {
  EXPECT_EQ(Refusal([&] { ParseBytesPerSecond("20", kWhere); }),
            "command line: --x: \"20\" has no unit, expected a bandwidth such as 20GB/s or 33.5GiB/s");
  EXPECT_EQ(Refusal([&] { ParseFlopsPerSecond("50", kWhere); }),
            "command line: --x: \"50\" has no unit, expected a rate such as 50GFLOP/s or 1.2TFLOP/s");
  EXPECT_NE(Refusal([&] { ParseSizeBytes("20", kWhere); }), "");
}

TEST(UnitsTest, RatesThatAreNoneAreRefused) {
  for (const char* text : {"", "GB/s", "20GB", "20Gb/s", "20gb/s", "-20GB/s", "0GB/s", "20GB/s/s", "20GB/sx",
                           "1e9B/s", "20  GB/s", "999999999999TB/s", "nanGB/s"}) {
    EXPECT_NE(Refusal([&] { ParseBytesPerSecond(text, kWhere); }), "") << text;
  }
  for (const char* text : {"50G", "50GFLOP", "50GFLOPs", "50GF/s", "0GFLOP/s", "50 GFLOP / s"}) {
    EXPECT_NE(Refusal([&] { ParseFlopsPerSecond(text, kWhere); }), "") << text;
  }
}

TEST(UnitsTest, LongAndHostileTextStaysOneShortLine) {
  const std::string message = Refusal([&] { ParseCount(std::string(10000, 'x') + "\n\x1b[31m", kWhere); });
  EXPECT_LT(message.size(), 250u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(Quoted("a\nb\x1b"), "\"a?b?\"");
}

TEST(UnitsTest, Formats) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(114688), "114,688");
  EXPECT_EQ(FormatCount(3212749824), "3,212,749,824");
  EXPECT_EQ(FormatBytes(3758096384.0), "3.50 GiB");
  EXPECT_EQ(FormatBytes(114688), "112.0 KiB");
  EXPECT_EQ(FormatBytes(640), "640 B");
  EXPECT_EQ(FormatBytesPerSecond(20e9), "20.0 GB/s");
  EXPECT_EQ(FormatFlops(1.966e14), "196.6 TFLOP");
  EXPECT_EQ(FormatFlopsPerSecond(50e9), "50.0 GFLOP/s");
  EXPECT_EQ(FormatMilliseconds(187.9048), "187.9 ms");
  EXPECT_EQ(FormatMilliseconds(84.375), "84.4 ms");
  EXPECT_EQ(FormatMilliseconds(0.0123), "12.3 µs");
  EXPECT_EQ(FormatMilliseconds(0.001), "1.00 µs");
  EXPECT_EQ(FormatMilliseconds(0.00025), "250.0 ns");
  EXPECT_EQ(FormatMilliseconds(3932.16), "3.93 s");
  EXPECT_EQ(FormatMilliseconds(3932160), "3,932 s");
  EXPECT_EQ(FormatMilliseconds(1e30), "1e+27 s");
  EXPECT_EQ(FormatSeconds(1e27), "1e+27 s");
  EXPECT_EQ(FormatSeconds(3932.16), "3,932 s (1 h 6 min)");
  EXPECT_EQ(FormatSeconds(8.214), "8.21 s");
  EXPECT_EQ(FormatSeconds(0.5), "500.0 ms");
  EXPECT_EQ(FormatPercent(0.1234), "12.3 %");
  EXPECT_EQ(FormatPercent(0.00004), "0.004 %");
  EXPECT_EQ(FormatPercent(1e-9), "< 0.001 %");
  EXPECT_EQ(FormatRate(3.4712), "3.47");
  EXPECT_EQ(FormatRate(12.345), "12.3");
  EXPECT_EQ(FormatRate(1234.5), "1,235");
  EXPECT_EQ(FormatRate(1e20), "1e+20");
  EXPECT_EQ(FormatRate(0.00123), "0.0012");
}

TEST(UnitsTest, TokensMayBeAnything) {
  EXPECT_EQ(FormatTokens(32768), "32,768");
  EXPECT_EQ(FormatTokens(4095.875), "4,096");
  EXPECT_EQ(FormatTokens(-3), "0");
  EXPECT_EQ(FormatTokens(1e300), "1e+300");
  EXPECT_EQ(FormatTokens(HUGE_VAL), "inf");
}

}  // namespace
}  // namespace ropeline
