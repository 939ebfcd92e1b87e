// SPDX-License-Identifier: Apache-2.0
// StopSignal: SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask a run to save and end. Code that may take long polls it.
#pragma once

namespace gradmill {

class StopSignal {
 public:
  // From now on these signals set the flag; a second SIGINT ends the process at once (exit code 130). SIGHUP stays
  // ignored if it already was, as under nohup, and SIGPIPE is ignored. Call it before starting other threads: threads
  // started earlier can still be interrupted by a signal.
  static void install();
  static bool requested();
  // The name of the signal that arrived, or an empty text.
  static const char* name();
  static void clear();
};

}  // namespace gradmill
