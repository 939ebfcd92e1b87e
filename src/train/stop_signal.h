// SPDX-License-Identifier: Apache-2.0
// StopSignal: SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask a run to save and end. Whatever can take long polls it.
#pragma once

namespace gradmill {

class StopSignal {
 public:
  // From now on these signals set the flag; a second SIGINT ends the process at once (exit code 130). SIGHUP stays
  // ignored where it was, as under nohup, and SIGPIPE is ignored. Call it before other threads are started: earlier
  // ones can still be interrupted by a signal.
  static void install();
  static bool requested();
  // The name of the signal that came, or an empty text.
  static const char* name();
  static void clear();
};

}  // namespace gradmill
