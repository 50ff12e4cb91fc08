/* Preloaded into a process whose wall clock is to be wrong by the nanoseconds in the file that SKEWED_CLOCK names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*true_time)(clockid_t, struct timespec *);
static volatile int64_t *skew;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SKEWED_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  true_time = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  if (file >= 0) {
    void *page = mmap(0, sizeof *skew, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) skew = page;
    close(file);
  }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!true_time) true_time = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = true_time(clock, now);
  if (result == 0 && skew && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t total = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *skew;
    now->tv_sec = total / INT64_C(1000000000);
    now->tv_nsec = total % INT64_C(1000000000);
  }
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t *where) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (where) *where = precise.tv_sec;
  return precise.tv_sec;
}
