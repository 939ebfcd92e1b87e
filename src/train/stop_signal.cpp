// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/error.h"

namespace gradmill {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int signal) {
  if (signal == SIGINT && received.load() == SIGINT) _exit(static_cast<int>(ExitCode::interrupted));
  received.store(signal);
}

}  // namespace

void StopSignal::install() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool StopSignal::requested() { return received.load() != 0; }

const char* StopSignal::name() {
  switch (received.load()) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "";
  }
}

void StopSignal::clear() { received.store(0); }

}  // namespace gradmill
