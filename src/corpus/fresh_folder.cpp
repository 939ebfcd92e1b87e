// SPDX-License-Identifier: Apache-2.0
#include "corpus/fresh_folder.h"

#include <unistd.h>

#include "core/error.h"

namespace gradmill {

namespace fs = std::filesystem;

FreshFolder::FreshFolder(const fs::path& target, FileOps& ops)
    : ops_(ops), target_(fs::absolute(target).lexically_normal()) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "folder/"
  std::error_code error;
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    throw usage_error(fmt::format("'{}' exists", target.string()), "name another folder, or remove it");
  }
  fs::create_directories(target_.parent_path(), error);
  if (error) throw FileError(target_.parent_path(), "make the folder", error.value());
  path_ = target_.parent_path() / fmt::format(".tmp-{}-{}", target_.filename().string(), ::getpid());
  remove_tree(ops_, path_);
  ops_.make_folder(path_);
}

FreshFolder::~FreshFolder() {
  if (!published_) try_remove_tree(ops_, path_);
}

void FreshFolder::publish() {
  ops_.sync_folder(path_);
  ops_.rename(path_, target_);
  published_ = true;
  ops_.sync_folder(target_.parent_path());
}

}  // namespace gradmill
