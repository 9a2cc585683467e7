/*
 * The program of examples/apps/npb/cg: the same matrix on the same grid of ranks, the same conjugate gradients, so
 * that zeta is the same but for the order in which sums are taken.
 *
 * Vectors are cut into one piece for each rank. The rank in row i and column j of a grid of R x C has the block of
 * the matrix whose columns are the pieces j R, j R+1 ... and whose rows are the pieces i C, i C+1 ... It keeps piece
 * j R+i of each vector.
 */
#include "clock.h"
#include "nas.h"
#include "peer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INNER = 25 };

static struct problem {
	char class;
	int n, nonzero, steps;
	double shift, zeta;
} problem, problems[] = {
	{'S', 1400, 7, 15, 10, 8.5971775078648},
	{'W', 7000, 8, 15, 12, 10.362595087124},
	{'A', 14000, 11, 15, 20, 17.130235054029},
	{'B', 75000, 13, 75, 60, 22.712745482631},
};

static const double condition = 0.1;

static unsigned long state; /* of the random numbers */

static MPI_Comm grid, row, col; /* all ranks, and those of this one's row and column */
static int R, C, piece, begin;  /* lengths of the grid; of a piece, and where this rank's begins */
static int row0, row1, col0, col1, to, from;

static int least(int a, int b) { return a < b ? a : b; }

static void place(void)
{
	int dims[2] = {0, 0}, periods[2] = {0, 0}, at[2], self;
	MPI_Dims_create(ranks, 2, dims);
	R = dims[1];
	C = dims[0];
	int lengths[2] = {R, C}, keep_row[2] = {0, 1}, keep_col[2] = {1, 0};
	MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periods, 0, &grid);
	MPI_Cart_sub(grid, keep_row, &row);
	MPI_Cart_sub(grid, keep_col, &col);
	MPI_Comm_rank(grid, &self);
	MPI_Cart_coords(grid, self, 2, at);
	int i = at[0], j = at[1], n = problem.n, kept = j * R + i, added = i * C + j;
	piece = (n + ranks - 1) / ranks;
	begin = kept * piece;
	row0 = i * C * piece;
	row1 = least((i + 1) * C * piece, n);
	col0 = j * R * piece;
	col1 = least((j + 1) * R * piece, n);
	at[0] = added % R;
	at[1] = added / R;
	MPI_Cart_rank(grid, at, &to);
	at[0] = kept / C;
	at[1] = kept % C;
	MPI_Cart_rank(grid, at, &from);
}

/* The block in compressed rows. */
static int *start, *column;
static double *values;

struct element {
	int col;
	double v;
};

static struct element **parts; /* of each row */
static int *lengths, *rooms;

static void append(int r, int c, double v)
{
	int i = r - row0;
	if (lengths[i] == rooms[i]) {
		rooms[i] = 2 * rooms[i] + 8;
		parts[i] = realloc(parts[i], rooms[i] * sizeof *parts[i]);
	}
	parts[i][lengths[i]++] = (struct element){c - col0, v};
}

/* random_vector draws the places and values of a vector, and returns how many. The i-th of the i-th vector is 1/2. */
static int random_vector(int i, int *at, double *v)
{
	int places = 1, n = 0, found = -1;
	while (places < problem.n)
		places *= 2;
	while (n < problem.nonzero) {
		double value = random_next(&state);
		int where = (int)(places * random_next(&state)), known = where >= problem.n;
		for (int k = 0; k < n && !known; k++)
			known = at[k] == where;
		if (!known) {
			at[n] = where;
			v[n++] = value;
		}
	}
	for (int k = 0; k < n; k++)
		if (at[k] == i)
			found = k;
	if (found < 0) {
		at[n] = i;
		found = n++;
	}
	v[found] = 0.5;
	return n;
}

/* compress sorts each row, with equal columns in their order, and adds what lies in one place. */
static void compress(int rows, long entries)
{
	start = calloc(rows + 1, sizeof *start);
	column = malloc((entries + 1) * sizeof *column);
	values = malloc((entries + 1) * sizeof *values);
	int n = 0;
	for (int i = 0; i < rows; i++) {
		struct element *e = parts[i];
		for (int k = 1; k < lengths[i]; k++) {
			struct element x = e[k];
			int j = k;
			for (; j > 0 && e[j - 1].col > x.col; j--)
				e[j] = e[j - 1];
			e[j] = x;
		}
		for (int k = 0; k < lengths[i]; k++) {
			if (k > 0 && e[k].col == e[k - 1].col) {
				values[n - 1] += e[k].v;
				continue;
			}
			column[n] = e[k].col;
			values[n++] = e[k].v;
		}
		start[i + 1] = n;
		free(e);
	}
	free(parts);
	free(lengths);
	free(rooms);
}

static void new_matrix(void)
{
	int rows = row1 > row0 ? row1 - row0 : 0, at[32];
	double v[32], weight = 1, ratio = pow(condition, 1.0 / problem.n);
	long entries = 0;
	parts = calloc(rows + 1, sizeof *parts);
	lengths = calloc(rows + 1, sizeof *lengths);
	rooms = calloc(rows + 1, sizeof *rooms);
	state = random_after(1);
	for (int i = 0; i < problem.n; i++) {
		int n = random_vector(i, at, v);
		for (int j = 0; j < n; j++)
			for (int k = 0; k < n && col0 <= at[j] && at[j] < col1; k++)
				if (row0 <= at[k] && at[k] < row1)
					append(at[k], at[j], v[k] * (weight * v[j]));
		if (row0 <= i && i < row1 && col0 <= i && i < col1)
			append(i, i, condition - problem.shift);
		weight *= ratio;
	}
	for (int i = 0; i < rows; i++)
		entries += lengths[i];
	compress(rows, entries);
}

static double *x, *z, *r, *p, *q; /* pieces that the rank keeps */
static double *gathered, *products, *my; /* columns of the block, rows of it, and what is added up of them */
static int *counts;               /* of pieces in a row of the grid */

static void multiply(double *v, double *y)
{
	clock_leave();
	MPI_Allgather(v, piece, MPI_DOUBLE, gathered, piece, MPI_DOUBLE, col);
	clock_back();
	memset(products, 0, (size_t)C * piece * sizeof *products);
	for (int i = 0; i < row1 - row0; i++) {
		double sum = 0;
		for (int k = start[i]; k < start[i + 1]; k++)
			sum += values[k] * gathered[column[k]];
		products[i] = sum;
	}
	clock_leave();
	MPI_Reduce_scatter(products, my, counts, MPI_DOUBLE, MPI_SUM, row);
	MPI_Sendrecv(my, piece, MPI_DOUBLE, to, 0, y, piece, MPI_DOUBLE, from, 0, grid, MPI_STATUS_IGNORE);
	clock_back();
}

static double dot(const double *a, const double *b)
{
	double sum = 0;
	for (int i = 0; i < piece; i++)
		sum += a[i] * b[i];
	return sum;
}

static void add(double *mine, double *all, int n)
{
	clock_leave();
	MPI_Allreduce(mine, all, n, MPI_DOUBLE, MPI_SUM, grid);
	clock_back();
}

static double product(const double *a, const double *b)
{
	double mine = dot(a, b), all;
	add(&mine, &all, 1);
	return all;
}

static void solve(void)
{
	memset(z, 0, piece * sizeof *z);
	memcpy(r, x, piece * sizeof *r);
	memcpy(p, x, piece * sizeof *p);
	double rho = product(r, r);
	for (int k = 0; k < INNER; k++) {
		multiply(p, q);
		double alpha = rho / product(p, q), before = rho;
		for (int i = 0; i < piece; i++) {
			z[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		rho = product(r, r);
		double beta = rho / before;
		for (int i = 0; i < piece; i++)
			p[i] = r[i] + beta * p[i];
	}
}

static double *vector(int pieces) { return calloc((size_t)pieces * piece, sizeof(double)); }

/* cg returns 0 if there is no such class. */
int cg(char class)
{
	for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
		if (problems[i].class == class)
			problem = problems[i];
	if (problem.n == 0)
		return 0;
	place();
	new_matrix();
	x = vector(1);
	z = vector(1);
	r = vector(1);
	p = vector(1);
	q = vector(1);
	my = vector(1);
	gathered = vector(R);
	products = vector(C);
	counts = malloc(C * sizeof *counts);
	for (int i = 0; i < C; i++)
		counts[i] = piece;
	for (int i = 0; i < piece; i++)
		x[i] = begin + i < problem.n;
	double zeta = 0;
	clock_begin(grid);
	for (int step = 0; step < problem.steps; step++) {
		solve();
		double mine[2] = {dot(x, z), dot(z, z)}, sums[2];
		add(mine, sums, 2);
		zeta = problem.shift + 1 / sums[0];
		double norm = 1 / sqrt(sums[1]);
		for (int i = 0; i < piece; i++)
			x[i] = norm * z[i];
	}
	clock_end();
	verify("zeta", zeta, problem.zeta, 1e-10);
	verdict();
	return 1;
}
