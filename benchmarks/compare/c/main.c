/*
 * What gorun is compared with: the same measurements as benchmarks/netpipe and
 * benchmarks/collectives, and the programs of examples/heat, examples/solver and
 * examples/apps/npb/cg, in C, for any MPI library.
 *
 *     peer TEST[,TEST...] SECONDS BATCHES SIZE...
 *     peer heat N STEPS
 *     peer solver EDGE ITERATIONS
 *     peer cg ROWS
 *     peer empty
 *
 * The tests are listed in tests.c. Rank 0 prints lines of
 *
 *     mode,bytes,seconds,low,high
 *
 * the median time of a message or collective over the batches, and the
 * quartiles. The programs print their result, which is that of their Go twin, and
 * the mean times of the ranks.
 */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank, ranks;
char *out, *in;
double outside, loop;

static void fail(const char *why)
{
	if (rank == 0)
		fprintf(stderr, "peer: %s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static void run_tests(char *names, double total, int batches, char **sizes, int n)
{
	int largest = 8 * ranks;
	for (int i = 0; i < n; i++)
		if (atoi(sizes[i]) > largest)
			largest = atoi(sizes[i]);
	out = malloc(largest);
	in = malloc(largest);
	memset(out, 7, largest); /* pages that were never written would all be the same one */
	memset(in, 1, largest);
	if (rank == 0)
		printf("mode,bytes,seconds,low,high\n");
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		const struct test *t = tests;
		while (t->name && strcmp(t->name, name) != 0)
			t++;
		if (!t->name || (t->pair && ranks != 2))
			fail("no such test for so many ranks");
		for (int i = 0; i < (t->bare ? 1 : n); i++)
			measure(t, t->bare ? 0 : atoi(sizes[i]), total, batches);
	}
}

static void print_times(void)
{
	double mine[2] = {loop, outside}, sum[2];
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("time loop %.9f\ntime outside %.9f\n", sum[0] / ranks, sum[1] / ranks);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "heat") == 0 && argc == 4) {
		heat(atoi(argv[2]), atoi(argv[3]));
		print_times();
	} else if (strcmp(what, "solver") == 0 && argc == 4) {
		solver(atoi(argv[2]), atoi(argv[3]));
		print_times();
	} else if (strcmp(what, "cg") == 0 && argc == 3) {
		if (!cg(atoi(argv[2])))
			fail("no class of CG has so many rows");
		print_times();
	} else if (argc >= 5) {
		run_tests(argv[1], atof(argv[2]), atoi(argv[3]), argv + 4, argc - 4);
	} else if (strcmp(what, "empty") != 0) {
		fail("see main.c for the arguments");
	}
	MPI_Finalize();
	return 0;
}
