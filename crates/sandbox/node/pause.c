/* The first process of a pod: keeps the namespaces of the pod and reaps its zombies until a signal
   ends it. In C, because its memory is charged to each pod. */
#include <signal.h>
#include <sys/wait.h>

int main(void) {
  sigset_t set;
  int received;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  /* Blocked signals wait for sigwait; the first process would ignore others without a handler. */
  sigprocmask(SIG_BLOCK, &set, 0);
  for (;;) {
    if (sigwait(&set, &received) == 0 && received != SIGCHLD) return 0;
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
  }
}
