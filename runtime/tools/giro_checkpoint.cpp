// Inspects checkpoints and files of tensors from a shell: giro-checkpoint --help.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/tools/commands.h"

namespace tools = giro::tools;

int main(int argc, char** argv) {
  CLI::App app(
      "Inspects giro's checkpoints and safetensors files.\nCONTENTS is a safetensors file, a checkpoint, or a "
      "directory of checkpoints, whose newest undamaged one is used.\nExit code: 0, 1 if tensors differ or a "
      "checkpoint cannot be loaded, 2 on an error.",
      "giro-checkpoint");
  app.require_subcommand(1);
  std::string file, other;
  std::vector<std::string> only;
  auto dtype = giro::DType::f32;
  bool widen = false;
  std::function<int()> command;

  CLI::App* const list = app.add_subcommand("list", "Print a line for each checkpoint in a directory");
  list->add_option("DIR", file)->required();
  list->callback([&] { command = [&] { return tools::list(file); }; });

  CLI::App* const verify =
      app.add_subcommand("verify", "Load a checkpoint, or each one in a directory, and check all of it");
  verify->add_option("PATH", file, "a checkpoint, or a directory of checkpoints")->required();
  verify->callback([&] { command = [&] { return tools::verify(file); }; });

  CLI::App* const show = app.add_subcommand(
      "show", "Print the tree of tensors, with statistics; for a checkpoint, also what its run remembers");
  show->add_option("CONTENTS", file)->required();
  show->callback([&] { command = [&] { return tools::show(file); }; });

  CLI::App* const diff = app.add_subcommand("diff", "Compare the tensors of two CONTENTS");
  diff->add_option("A", file)->required();
  diff->add_option("B", other)->required();
  diff->callback([&] { command = [&] { return tools::diff(file, other); }; });

  CLI::App* const export_npz = app.add_subcommand("export", "Write the tensors as NumPy's NPZ");
  export_npz->add_option("CONTENTS", file)->required();
  export_npz->add_option("OUT", other, "the .npz file to write; replaced if it exists")->required();
  export_npz->add_flag("--widen", widen, "write bf16, which NumPy does not have, as f32");
  export_npz->callback([&] { command = [&] { return tools::export_npz(file, other, widen); }; });

  const std::map<std::string, giro::DType> precisions{
      {"f32", giro::DType::f32}, {"bf16", giro::DType::bf16}, {"f16", giro::DType::f16}};
  CLI::App* const convert = app.add_subcommand(
      "convert", "Write the tensors as a safetensors file in another precision; integers keep their dtype");
  convert->add_option("CONTENTS", file)->required();
  convert->add_option("OUT", other, "the safetensors file to write; replaced if it exists")->required();
  convert->add_option("--dtype", dtype, "f32, bf16 or f16")->required()->transform(CLI::CheckedTransformer(precisions));
  convert->add_option("--only", only, "paths or patterns of the tensors to write, e.g. params; default: all");
  convert->callback([&] { command = [&] { return tools::convert(file, other, dtype, only); }; });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tools::kGood : tools::kFailed;
  }
  try {
    const int code = command();
    if (std::fflush(stdout) == 0) return code;
    std::fputs("giro-checkpoint: cannot write to standard output\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "giro-checkpoint: %s\n", error.what());
  }
  return tools::kFailed;
}
