/*
 * The measurements of benchmarks/netpipe in C, for other MPI libraries, so that
 * they are compared with the same patterns, the same choice of repetitions and
 * the same statistics:
 *
 *     pingpong MODE SECONDS BATCHES SIZE...
 *
 * MODE is pingpong, dirty (the same, a word of each cache line is rewritten
 * before a send), window (64 messages under way, one direction) or stream
 * (blocking sends, one direction). Rank 0 prints lines of
 *
 *     mode,bytes,seconds,low,high
 *
 * the median time of a message over the batches, and the quartiles.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LINE = 64, MAXCOUNT = 1 << 24, DATA = 1, COUNT, READY, DONE };

static int rank, peer;
static char *out, *in;

static void soil(size_t size)
{
	static char round;
	round++;
	for (size_t i = 0; i < size; i += LINE)
		((volatile char *)out)[i] = round;
}

static void send_one(int size, int dirty)
{
	if (dirty)
		soil(size);
	MPI_Send(out, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD);
}

static void recv_one(int size)
{
	MPI_Recv(in, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void arrived(void)
{
	if (rank == 0)
		MPI_Recv(NULL, 0, MPI_BYTE, peer, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(NULL, 0, MPI_BYTE, peer, DONE, MPI_COMM_WORLD);
}

static void run(const char *mode, int size, int n)
{
	int dirty = strcmp(mode, "dirty") == 0;
	if (dirty || strcmp(mode, "pingpong") == 0) {
		for (int i = 0; i < n; i++) {
			if (rank == 0) {
				send_one(size, dirty);
				recv_one(size);
			} else {
				recv_one(size);
				send_one(size, dirty);
			}
		}
		return;
	}
	if (strcmp(mode, "stream") == 0) {
		for (int i = 0; i < n; i++) {
			if (rank == 0)
				send_one(size, 0);
			else
				recv_one(size);
		}
		arrived();
		return;
	}
	MPI_Request r[WINDOW];
	while (n > 0) {
		int k = n < WINDOW ? n : WINDOW;
		for (int i = 0; i < k; i++) {
			if (rank == 0)
				MPI_Isend(out, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, &r[i]);
			else
				MPI_Irecv(in, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, &r[i]);
		}
		MPI_Waitall(k, r, MPI_STATUSES_IGNORE);
		n -= k;
	}
	arrived();
}

/* Rank 0 tells the number of repetitions and waits until rank 1 is ready. */
static double lead(const char *mode, int size, int n)
{
	MPI_Send(&n, 1, MPI_INT, peer, COUNT, MPI_COMM_WORLD);
	MPI_Recv(NULL, 0, MPI_BYTE, peer, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	double start = MPI_Wtime();
	run(mode, size, n);
	return MPI_Wtime() - start;
}

static void follow(const char *mode, int size)
{
	for (;;) {
		int n;
		MPI_Recv(&n, 1, MPI_INT, peer, COUNT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (n == 0)
			return;
		MPI_Send(NULL, 0, MPI_BYTE, peer, READY, MPI_COMM_WORLD);
		run(mode, size, n);
	}
}

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

static void measure(const char *mode, int size, double seconds, int batches)
{
	double batch = seconds / batches, took;
	int legs = strcmp(mode, "pingpong") == 0 || strcmp(mode, "dirty") == 0 ? 2 : 1;
	int count = 1, zero = 0;
	while ((took = lead(mode, size, count)) < batch / 4 && count < MAXCOUNT)
		count *= 2;
	double fit = count * batch / took;
	count = fit < 1 ? 1 : fit > MAXCOUNT ? MAXCOUNT : (int)fit;
	double *t = malloc(batches * sizeof *t);
	for (int i = 0; i < batches; i++)
		t[i] = lead(mode, size, count) / ((double)count * legs);
	qsort(t, batches, sizeof *t, ascending);
	printf("%s,%d,%.9g,%.9g,%.9g\n", mode, size, quantile(t, batches, .5), quantile(t, batches, .25), quantile(t, batches, .75));
	fflush(stdout);
	free(t);
	MPI_Send(&zero, 1, MPI_INT, peer, COUNT, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int size;
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (size != 2 || argc < 5) {
		fprintf(stderr, "usage, on 2 ranks: pingpong MODE SECONDS BATCHES SIZE...\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	peer = 1 - rank;
	int largest = 1;
	for (int i = 4; i < argc; i++)
		if (atoi(argv[i]) > largest)
			largest = atoi(argv[i]);
	out = malloc(largest);
	in = malloc(largest);
	memset(out, 7, largest);
	memset(in, 1, largest);
	if (rank == 0)
		printf("mode,bytes,seconds,low,high\n");
	for (int i = 4; i < argc; i++) {
		if (rank == 0)
			measure(argv[1], atoi(argv[i]), atof(argv[2]), atoi(argv[3]));
		else
			follow(argv[1], atoi(argv[i]));
	}
	MPI_Finalize();
	return 0;
}
