/* How much of a program's loop is not computation; see clock.h. */
#include "clock.h"
#include "peer.h"
#include <stdio.h>
#include <time.h>

static double began, left, outside;
static double times[2]; /* of the loop that has ended, and of what was outside */

/* seconds is the same clock for all libraries: LAM's MPI_Wtime counts microseconds. */
double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

void clock_begin(MPI_Comm all)
{
	MPI_Barrier(all);
	outside = 0;
	began = seconds();
}

void clock_end(void)
{
	times[0] = seconds() - began;
	times[1] = outside;
}

void clock_leave(void) { left = seconds(); }

void clock_back(void) { outside += seconds() - left; }

void clock_print(void)
{
	double sum[2];
	MPI_Reduce(times, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("time loop %.9f\ntime outside %.9f\n", sum[0] / ranks, sum[1] / ranks);
}
