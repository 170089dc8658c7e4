/* Each fdatasync and fsync takes KEYP_BENCH_SYNC_DELAY microseconds longer. For
 * LD_PRELOAD: it gives a server without such an option the slow disk of another. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_longer(void) {
	const char *text = getenv("KEYP_BENCH_SYNC_DELAY");
	long us = text ? atol(text) : 0;
	struct timespec left = {us / 1000000, us % 1000000 * 1000};
	while (nanosleep(&left, &left) == -1 && errno == EINTR) {
	}
}

int fdatasync(int fd) {
	wait_longer();
	return syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
	wait_longer();
	return syscall(SYS_fsync, fd);
}
