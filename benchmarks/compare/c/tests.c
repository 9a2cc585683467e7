/* The tests, as benchmarks/netpipe and benchmarks/collectives have them. */
#include "peer.h"
#include <stdlib.h>

enum { WINDOW = 64, LINE = 64, DATA = 1, DONE };

#define WORLD MPI_COMM_WORLD

static void send_one(int size) { MPI_Send(out, size, MPI_BYTE, 1 - rank, DATA, WORLD); }

static void recv_one(int size) { MPI_Recv(in, size, MPI_BYTE, 1 - rank, DATA, WORLD, MPI_STATUS_IGNORE); }

/* soil rewrites what a program would have computed anew since the last send. */
static void soil(int size)
{
	static char round;
	round++;
	for (int i = 0; i < size; i += LINE)
		((volatile char *)out)[i] = round;
}

/* arrived ends a test of one direction: rank 0 learns that all is there. */
static void arrived(void)
{
	if (rank == 0)
		MPI_Recv(NULL, 0, MPI_BYTE, 1, DONE, WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(NULL, 0, MPI_BYTE, 0, DONE, WORLD);
}

static void ping_pong(int size, int n, int dirty)
{
	for (int i = 0; i < n; i++) {
		if (rank == 1)
			recv_one(size);
		if (dirty)
			soil(size);
		send_one(size);
		if (rank == 0)
			recv_one(size);
	}
}

static void pingpong(int size, int n) { ping_pong(size, n, 0); }

static void dirty(int size, int n) { ping_pong(size, n, 1); }

static void stream(int size, int n)
{
	for (int i = 0; i < n; i++)
		if (rank == 0)
			send_one(size);
		else
			recv_one(size);
	arrived();
}

/* window keeps up to 64 messages under way, in one direction. */
static void window(int size, int n)
{
	MPI_Request r[WINDOW];
	while (n > 0) {
		int k = n < WINDOW ? n : WINDOW;
		for (int i = 0; i < k; i++)
			if (rank == 0)
				MPI_Isend(out, size, MPI_BYTE, 1, DATA, WORLD, &r[i]);
			else
				MPI_Irecv(in, size, MPI_BYTE, 0, DATA, WORLD, &r[i]);
		MPI_Waitall(k, r, MPI_STATUSES_IGNORE);
		n -= k;
	}
	arrived();
}

/* column sends the first column of a matrix that is 1024 numbers wide; the last one receives. */
static void column(int size, int n)
{
	enum { WIDTH = 1024 };
	static double *matrix;
	static MPI_Datatype type;
	static int made;
	if (made != size) {
		int rows = size / 8 > 1 ? size / 8 : 1;
		if (made) {
			MPI_Type_free(&type);
			free(matrix);
		}
		made = size;
		matrix = malloc(sizeof *matrix * rows * WIDTH);
		for (int i = 0; i < rows * WIDTH; i++)
			matrix[i] = i;
		MPI_Type_vector(rows, 1, WIDTH, MPI_DOUBLE, &type);
		MPI_Type_commit(&type);
	}
	for (int i = 0; i < 2 * n; i++)
		if (i % 2 == rank)
			MPI_Send(matrix, 1, type, 1 - rank, DATA, WORLD);
		else
			MPI_Recv(matrix + WIDTH - 1, 1, type, 1 - rank, DATA, WORLD, MPI_STATUS_IGNORE);
}

static void barrier(int size, int n)
{
	(void)size;
	for (int i = 0; i < n; i++)
		MPI_Barrier(WORLD);
}

static void allreduce(int size, int n)
{
	for (int i = 0; i < n; i++)
		MPI_Allreduce(out, in, size / 8, MPI_DOUBLE, MPI_SUM, WORLD);
}

/* bcast changes the root, so that no rank runs ahead of the others. */
static void bcast(int size, int n)
{
	for (int i = 0; i < n; i++)
		MPI_Bcast(in, size, MPI_BYTE, i % ranks, WORLD);
}

/* words is a rank's share, in words, of a buffer of so many bytes: one at least. */
static int words(int size) { return size / 8 < ranks ? 1 : size / 8 / ranks; }

static void alltoall(int size, int n)
{
	int k = words(size);
	for (int i = 0; i < n; i++)
		MPI_Alltoall(out, k, MPI_DOUBLE, in, k, MPI_DOUBLE, WORLD);
}

static void allgather(int size, int n)
{
	int k = words(size);
	for (int i = 0; i < n; i++)
		MPI_Allgather(out, k, MPI_DOUBLE, in, k, MPI_DOUBLE, WORLD);
}

static void reduce_scatter(int size, int n)
{
	int *counts = malloc(ranks * sizeof *counts); /* LAM/MPI has no MPI_Reduce_scatter_block */
	for (int i = 0; i < ranks; i++)
		counts[i] = words(size);
	for (int i = 0; i < n; i++)
		MPI_Reduce_scatter(out, in, counts, MPI_DOUBLE, MPI_SUM, WORLD);
	free(counts);
}

const struct test tests[] = {
	{"pingpong", pingpong, .pair = 1, .legs = 2},
	{"dirty", dirty, .pair = 1, .legs = 2},
	{"stream", stream, .pair = 1, .legs = 1},
	{"window", window, .pair = 1, .legs = 1},
	{"column", column, .pair = 1, .legs = 2},
	{"barrier", barrier, .legs = 1, .bare = 1},
	{"allreduce", allreduce, .legs = 1},
	{"bcast", bcast, .legs = 1},
	{"alltoall", alltoall, .legs = 1},
	{"allgather", allgather, .legs = 1},
	{"reduce_scatter", reduce_scatter, .legs = 1},
	{NULL, NULL, 0, 0, 0},
};
