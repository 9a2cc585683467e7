/* How often a test is repeated, and what is made of the times. */
#include "clock.h"
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAXCOUNT = 1 << 24 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double quantile(const double *v, int n, double q)
{
	double at = q * (n - 1);
	int lo = (int)at, hi = lo + 1 < n ? lo + 1 : n - 1;
	return v[lo] + (at - lo) * (v[hi] - v[lo]);
}

/* batch runs n repetitions; rank 0 learns how long they took. */
static double batch(const struct test *t, int size, int n)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = seconds();
	t->run(size, n);
	double took = seconds() - start, slowest;
	if (t->pair)
		return took;
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return slowest;
}

/* lead tells the others the number of repetitions first. */
static double lead(const struct test *t, int size, int n)
{
	MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return batch(t, size, n);
}

static void follow(const struct test *t, int size)
{
	for (;;) {
		int n;
		MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (n == 0)
			return;
		batch(t, size, n);
	}
}

/* shorter returns what n repetitions take; if it is enough, the shorter of two
 * times: the machine may have done something else meanwhile. */
static double shorter(const struct test *t, int size, int n, double enough)
{
	double took = lead(t, size, n);
	if (took < enough)
		return took;
	double again = lead(t, size, n);
	return again < took ? again : took;
}

void measure(const struct test *t, int size, double total, int batches)
{
	if (rank != 0) {
		follow(t, size);
		return;
	}
	double each = total / batches, took;
	int count = 1, end = 0;
	while ((took = shorter(t, size, count, each / 4)) < each / 4 && count < MAXCOUNT) /* also warms up */
		count *= 2;
	double fit = count * each / took;
	count = fit < 1 ? 1 : fit > MAXCOUNT ? MAXCOUNT : (int)fit;
	double *v = malloc(batches * sizeof *v), spent = 0;
	int n = 0;
	while (n < batches && spent < 2 * total) { /* what is slow has fewer batches */
		took = lead(t, size, count);
		spent += took;
		v[n++] = took / ((double)count * t->legs);
	}
	MPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
	qsort(v, n, sizeof *v, ascending);
	printf("%s,%d,%.9g,%.9g,%.9g\n", t->name, size, quantile(v, n, .5), quantile(v, n, .25), quantile(v, n, .75));
	fflush(stdout);
	free(v);
}
