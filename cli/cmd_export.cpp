// SPDX-License-Identifier: Apache-2.0
// gradmill export
#include <fmt/core.h>

#include <memory>

#include "commands.h"
#include "run/export_model.h"

namespace gradmill::cli {

Run add_export(CLI::App& app) {
  struct Options {
    ExportRequest request;
    std::string from, to;
    double shard_gb = 5;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("from", options->from, "a run folder, a checkpoint, a model folder or a .gguf file")->required();
  app.add_option("--to", options->to, "folder (gguf: file) to write; it must not exist yet")->required();
  app.add_option("--format", options->request.format,
                 "hf: a folder for transformers, with adapters merged; gguf: a file for llama.cpp; peft: only the "
                 "adapters of a run")
      ->capture_default_str()
      ->check(CLI::IsMember({"hf", "gguf", "peft"}));
  app.add_option("--dtype", options->request.dtype, "auto (as stored; gguf: f16), f32, bf16, f16, or q8_0 (gguf)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "f32", "bf16", "f16", "q8_0"}));
  app.add_option("--shard-gb", options->shard_gb, "hf: most gigabytes of weights per file")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1e6));
  add_allow_older(app, options->request.allow_older);
  return [options] {
    ExportRequest& request = options->request;
    request.from = options->from;
    request.to = options->to;
    request.shard_bytes = static_cast<uint64_t>(options->shard_gb * 1e9);
    fmt::print("{}\n", export_model_to(request));
    return 0;
  };
}

}  // namespace gradmill::cli
