/*
 * The program of examples/solver -poisson EDGE -tol 0 -iters ITERATIONS: the
 * same partition, the same conjugate gradients, the same exact sums, so that
 * every bit of the solution is the same.
 */
#include "clock.h"
#include "exact.h"
#include "peer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALO = 1, SOLUTION };

static int edge, first, rows; /* own rows of the matrix */
static int *starts;           /* first rows of all ranks, and their number */

/* The matrix: columns are positions in the local vector, own entries first. */
static int *ptr, *col;
static double *val;
static int *inner, *outer, inners, outers; /* rows that need nothing of others, and those that do */

static struct neighbour {
	int rank, from, to; /* where its entries are in the local vector */
	int *give, gives;   /* own entries it needs */
	double *buffer;
} *peers;
static int npeers;
static MPI_Request *requests;

static double *vector(int n) { return calloc(n, sizeof(double)); }

/* each calls f for the columns of a row, ascending, and returns their number. */
static int each(int row, void (*f)(int row, int column))
{
	int x = row % edge, y = row / edge % edge, z = row / (edge * edge), count = 0;
	for (int k = z - 1; k <= z + 1; k++)
		for (int j = y - 1; j <= y + 1; j++)
			for (int i = x - 1; i <= x + 1; i++) {
				if (i < 0 || j < 0 || k < 0 || i >= edge || j >= edge || k >= edge)
					continue;
				count++;
				if (f)
					f(row, (k * edge + j) * edge + i);
			}
	return count;
}

/* partition gives every rank about the same number of entries. */
static void partition(void)
{
	long n = (long)edge * edge * edge, total = 0, seen = 0;
	for (long i = 0; i < n; i++)
		total += each(i, NULL);
	starts = calloc(ranks + 1, sizeof *starts);
	int row = 0;
	for (int r = 1; r < ranks; r++) {
		while (row < n - (ranks - r) && (row <= starts[r - 1] || seen < total / ranks * r + total % ranks * r / ranks))
			seen += each(row++, NULL);
		starts[r] = row;
	}
	starts[ranks] = n;
	first = starts[rank];
	rows = starts[rank + 1] - first;
}

static int *position; /* of each column in the local vector; -1: not there */

static int owns(int column) { return column >= first && column < first + rows; }

static void mark(int row, int column)
{
	(void)row;
	if (!owns(column))
		position[column] = 0;
}

/* meet numbers the entries of others that own rows need, ascending. */
static void meet(void)
{
	int n = edge * edge * edge, at = rows;
	position = malloc(n * sizeof *position);
	for (int j = 0; j < n; j++)
		position[j] = owns(j) ? j - first : -1;
	for (int i = 0; i < rows; i++)
		each(first + i, mark);
	peers = calloc(ranks, sizeof *peers);
	for (int r = 0; r < ranks; r++) {
		int from = at;
		for (int j = starts[r]; r != rank && j < starts[r + 1]; j++)
			if (position[j] == 0)
				position[j] = at++;
		if (at > from)
			peers[npeers++] = (struct neighbour){.rank = r, .from = from, .to = at, .give = malloc(rows * sizeof(int))};
	}
}

static int entries, needs;

static void fill(int row, int column)
{
	int i = row - first, at = position[column];
	col[entries] = at;
	val[entries++] = column == row ? 26 : -1;
	if (at < rows)
		return;
	needs = 1;
	struct neighbour *p = peers;
	while (at >= p->to)
		p++;
	if (p->gives == 0 || p->give[p->gives - 1] != i)
		p->give[p->gives++] = i;
}

static void new_operator(void)
{
	ptr = calloc(rows + 1, sizeof *ptr);
	col = malloc((size_t)rows * 27 * sizeof *col);
	val = malloc((size_t)rows * 27 * sizeof *val);
	inner = malloc(rows * sizeof *inner);
	outer = malloc(rows * sizeof *outer);
	for (int i = 0; i < rows; i++) {
		needs = 0;
		each(first + i, fill);
		ptr[i + 1] = entries;
		if (needs)
			outer[outers++] = i;
		else
			inner[inners++] = i;
	}
	for (int i = 0; i < npeers; i++)
		peers[i].buffer = vector(peers[i].gives);
	requests = malloc((2 * npeers + 1) * sizeof *requests);
}

static void multiply(double *y, const double *x, const int *which, int n)
{
	for (int k = 0; k < n; k++) {
		int i = which[k];
		double sum = 0;
		for (int j = ptr[i]; j < ptr[i + 1]; j++)
			sum += val[j] * x[col[j]];
		y[i] = sum;
	}
}

/* apply sets y = A x; rows that need nothing of others are computed while the messages travel. */
static void apply(double *y, double *x)
{
	clock_leave();
	int n = 0;
	for (int i = 0; i < npeers; i++) {
		struct neighbour *p = &peers[i];
		MPI_Irecv(x + p->from, p->to - p->from, MPI_DOUBLE, p->rank, HALO, MPI_COMM_WORLD, &requests[n++]);
	}
	for (int i = 0; i < npeers; i++) {
		struct neighbour *p = &peers[i];
		for (int k = 0; k < p->gives; k++)
			p->buffer[k] = x[p->give[k]];
		MPI_Isend(p->buffer, p->gives, MPI_DOUBLE, p->rank, HALO, MPI_COMM_WORLD, &requests[n++]);
	}
	clock_back();
	multiply(y, x, inner, inners);
	clock_leave();
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	clock_back();
	multiply(y, x, outer, outers);
}

static void sums(const accumulator *a, double *v, int n)
{
	accumulator all[2]; /* MPI_IN_PLACE and MPI_INT64_T are younger than LAM/MPI */
	clock_leave();
	MPI_Allreduce((void *)a, all, n * (int)(sizeof *a / sizeof(long)), MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	clock_back();
	for (int i = 0; i < n; i++)
		v[i] = value(&all[i]);
}

static double dot(const double *x, const double *y)
{
	accumulator a = {{0}};
	double v;
	add_dot(&a, x, y, rows);
	sums(&a, &v, 1);
	return v;
}

static double *x, *r, *p, *b, *w; /* as in examples/solver/cg/cg.go */
static double bb, bz, rz, rr;

/* The diagonal is the same in every row. */
static void precondition(const double *r)
{
	for (int i = 0; i < rows; i++)
		w[i] = r[i] / 26;
}

static void reset(void)
{
	memset(x, 0, rows * sizeof *x);
	memcpy(r, b, rows * sizeof *r);
	precondition(r);
	memcpy(p, w, rows * sizeof *p);
	rr = bb;
	rz = bz;
}

static void start(void)
{
	int n = npeers ? peers[npeers - 1].to : rows;
	x = vector(n);
	r = vector(rows);
	p = vector(n);
	b = vector(rows);
	w = vector(rows);
	for (int i = 0; i < rows; i++)
		x[i] = 1;
	apply(b, x);
	bb = dot(b, b);
	precondition(b);
	bz = dot(b, w);
	reset();
}

static void step(void)
{
	if (sqrt(rr / bb) < 0x1p-60)
		reset();
	apply(w, p);
	double alpha = rz / dot(p, w);
	for (int i = 0; i < rows; i++) {
		x[i] += alpha * p[i];
		r[i] -= alpha * w[i];
	}
	precondition(r);
	accumulator a[2] = {{{0}}};
	double v[2];
	add_dot(&a[0], r, w, rows);
	add_dot(&a[1], r, r, rows);
	sums(a, v, 2);
	double beta = v[0] / rz;
	rz = v[0];
	rr = v[1];
	for (int i = 0; i < rows; i++)
		p[i] = w[i] + beta * p[i];
}

/* finish computes the true residual and prints the result on rank 0. */
static void finish(int iters)
{
	apply(w, x);
	for (int i = 0; i < rows; i++)
		w[i] = b[i] - w[i];
	double residual = sqrt(dot(w, w) / bb);
	if (rank != 0) {
		MPI_Send(x, rows, MPI_DOUBLE, 0, SOLUTION, MPI_COMM_WORLD);
		return;
	}
	digest_add(x, rows * sizeof *x);
	for (int from = 1; from < ranks; from++) {
		int n = starts[from + 1] - starts[from];
		double *part = vector(n);
		MPI_Recv(part, n, MPI_DOUBLE, from, SOLUTION, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		digest_add(part, n * sizeof *part);
		free(part);
	}
	printf("result solver n=%d iters=%d residual=%.3e ", edge * edge * edge, iters, residual);
	digest_print();
}

void solver(int n, int iters)
{
	edge = n;
	partition();
	meet();
	new_operator();
	start();
	clock_begin(MPI_COMM_WORLD);
	for (int i = 0; i < iters; i++)
		step();
	clock_end();
	finish(iters);
}
