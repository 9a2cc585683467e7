/*
 * What gorun is compared with: the same measurements as benchmarks/netpipe and
 * benchmarks/collectives, and the programs of examples/heat, examples/solver,
 * examples/apps/npb (cg, is and mg) and examples/apps/prk/stencil, in C, for any
 * MPI library.
 *
 *     peer TEST[,TEST...] SECONDS BATCHES SIZE...
 *     peer heat N STEPS
 *     peer solver EDGE ITERATIONS
 *     peer cg|is|mg CLASS
 *     peer stencil N ITERATIONS
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
#include "clock.h"
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank, ranks;
char *out, *in;

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

static const struct program {
	const char *name;
	void (*run)(int size, int count);
	int (*nas)(char class);
} programs[] = {
	{"heat", heat, NULL}, {"solver", solver, NULL}, {"stencil", stencil, NULL},
	{"cg", NULL, cg}, {"is", NULL, is}, {"mg", NULL, mg},
};

/* run_program returns 0 if the arguments are none of a program. */
static int run_program(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		const struct program *p = &programs[i];
		if (strcmp(argv[1], p->name) != 0 || argc != (p->run ? 4 : 3))
			continue;
		if (p->run)
			p->run(atoi(argv[2]), atoi(argv[3]));
		else if (!p->nas(argv[2][0]))
			fail("no such class for so many ranks");
		clock_print();
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	int done = argc > 1 && (run_program(argc, argv) || strcmp(argv[1], "empty") == 0);
	if (!done && argc >= 5)
		run_tests(argv[1], atof(argv[2]), atoi(argv[3]), argv + 4, argc - 4);
	else if (!done)
		fail("see main.c for the arguments");
	MPI_Finalize();
	return 0;
}
