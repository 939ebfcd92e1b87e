// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "core/error.h"

namespace gradmill {
namespace {

std::atomic<int> received{0};

// nohup starts a program with SIGHUP ignored, so that it continues without its terminal.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

[[noreturn]] void wait_for_signals() {
  const sigset_t signals = stop_signals();
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == SIGINT && received.load() == SIGINT) _exit(static_cast<int>(ExitCode::interrupted));
    received.store(signal);
  }
}

}  // namespace

// One thread waits for the signals, and all others block them. A handler would not work: it runs on the stack of an
// arbitrary thread, but oneDNN's kernels use the stack register for other purposes, so the frame of a signal would
// overwrite the heap.
void StopSignal::install() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads started from now on inherit it
  ::signal(SIGPIPE, SIG_IGN);                     // the reader of a run's output may end before the run
  static std::once_flag started;
  std::call_once(started, [] { std::thread(wait_for_signals).detach(); });
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
    case SIGHUP:
      return "SIGHUP";
    default:
      return "";
  }
}

void StopSignal::clear() { received.store(0); }

}  // namespace gradmill
