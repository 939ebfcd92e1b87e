// SPDX-License-Identifier: Apache-2.0
// StopSignal: SIGINT, SIGTERM and SIGUSR1 ask a run to save and end. Whatever can take long polls it.
#pragma once

namespace gradmill {

class StopSignal {
 public:
  // From here on the three signals set the flag; a second SIGINT ends the process at once (exit code 130). Call it
  // before other threads are started: those of before can still be struck by a signal.
  static void install();
  static bool requested();
  // The name of the signal that came, or an empty text.
  static const char* name();
  static void clear();
};

}  // namespace gradmill
