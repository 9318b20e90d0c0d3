// ropeline: what position encoding and long context cost on the CPU in front of you. Bad input of any kind is
// one line on stderr and exit code 2.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "model/bad_input.h"
#include "model/cli/commands.h"

namespace ropeline {
namespace {

int Refuse(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
  return kBadInputExit;
}

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// CLI11 takes an unknown sub-command for a stray argument, and misses the sub-command behind an unknown
// option: name what is wrong, and the sub-commands there are.
void RefuseUnknownCommand(const CLI::App& app, int argc, char** argv) {
  std::string expected = "a sub-command: one of ";
  const std::string first = argc < 2 ? "" : argv[1];
  const bool option = first.starts_with('-');
  bool known = option && app.get_option_no_throw(first) != nullptr;
  for (const CLI::App* command : Commands(app)) {
    expected += (command == Commands(app).front() ? "" : ", ") + command->get_name();
    known = known || command->get_name() == first;
  }
  if (argc < 2) throw BadInput({"command line", ""}, "nothing was asked for", expected);
  if (!known)
    throw BadInput({"command line", ""},
                   Quoted(first) + (option ? " is no option here" : " is no sub-command"), expected);
}

std::string FlushError() {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.flush();
  if (!failed) return "";
  return std::string("standard output: cannot be written: ") + std::strerror(errno) +
         ", expected room and permission";
}

int Run(int argc, char** argv) {
  CLI::App app("What position encoding and long context cost on the CPU in front of you.", "ropeline");
  app.set_version_flag("--version", "ropeline " ROPELINE_VERSION);
  app.require_subcommand(1);
  AddPredictCommand(app);
  AddInspectCommand(app);
  AddCompareCommand(app);
  AddRopeCommand(app);
  int exit_code = 0;  // of an answer that was given
  AddLintCommand(app, &exit_code);
  AddCalibrateCommand(app);
  AddValidateCommand(app, &exit_code);
  AddTopologyCommand(app);
  try {
    RefuseUnknownCommand(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) {
      const auto parsed = app.get_subcommands();
      const std::string command = parsed.empty() ? "ropeline" : "ropeline " + parsed.front()->get_name();
      return Refuse(BadInput({"command line", ""}, e.what(), "what `" + command + " --help` lists").what());
    }
    app.exit(e);  // --help, --version
  } catch (const BadInput& e) {
    return Refuse(e.what());
  }
  const std::string error = FlushError();
  return error.empty() ? exit_code : Refuse(error);
}

}  // namespace
}  // namespace ropeline

int main(int argc, char** argv) {
  try {
    return ropeline::Run(argc, argv);
  } catch (const std::exception& error) {  // out of memory and the like
    return ropeline::Refuse(std::string("ropeline: ") + error.what() +
                            ", expected a machine with room for it");
  }
}
