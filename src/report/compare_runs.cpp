// SPDX-License-Identifier: Apache-2.0
#include "report/compare_runs.h"

#include "config/loader.h"
#include "metrics/compare.h"
#include "run/run_folder.h"

namespace gradmill {
namespace {

ComparedRun load(const std::filesystem::path& folder) {
  ConfigRequest request;
  request.files = {folder / kConfigFile};
  RunConfig config = load_config(request).config;
  std::map<std::string, std::string> settings;
  const FieldList list = fields_of(config);
  for (const Field& field : list.fields()) settings[field.name()] = value_text(field);
  return load_compared_run(folder, std::move(settings));
}

}  // namespace

std::string compare_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  return compare_runs(load(a), load(b));
}

}  // namespace gradmill
