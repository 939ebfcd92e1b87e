// SPDX-License-Identifier: Apache-2.0
// Reading labelled files into memory.
#pragma once

#include <span>

#include "data/labelled/labelled_set.h"
#include "data/records/source_list.h"

namespace gradmill {

// Classes are the labels in sorted order; whole numbers are sorted by value. Columns are chosen from the first records
// (see columns.h), and all files must have them. Throws a data_error that names file and line for bad records (unless
// they are skipped), and if there are no examples.
LabelledSet read_labelled(std::span<const SourceFile> files, const LabelledOptions& options);

}  // namespace gradmill
