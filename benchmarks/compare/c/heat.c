/* The program of examples/heat; names and order of the steps are those there. */
#include "clock.h"
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>

enum { NORTH, SOUTH, WEST, EAST, FIELD };

static const double hot = 100, diffusion = 0.2;

static int n, grid_rows, grid_cols;
static int row, col, rows, cols; /* own points: the first one, and how many */
static double *now, *next;
static int neighbour[4];
static double *sends[4], *recvs[4]; /* columns, packed */

static void arrange(void)
{
	for (int r = 1; r * r <= ranks; r++)
		if (ranks % r == 0) {
			grid_rows = r;
			grid_cols = ranks / r;
		}
}

static void place(int of, int *r0, int *c0, int *nr, int *nc)
{
	int r = of / grid_cols, k = of % grid_cols;
	*r0 = r * n / grid_rows;
	*c0 = k * n / grid_cols;
	*nr = (r + 1) * n / grid_rows - *r0;
	*nc = (k + 1) * n / grid_cols - *c0;
}

static int at(int r, int k) { return r < 0 || r >= grid_rows || k < 0 || k >= grid_cols ? MPI_PROC_NULL : r * grid_cols + k; }

static void new_plate(void)
{
	arrange();
	place(rank, &row, &col, &rows, &cols);
	now = calloc((rows + 2) * (cols + 2), sizeof *now);
	next = calloc((rows + 2) * (cols + 2), sizeof *next);
	int r = rank / grid_cols, k = rank % grid_cols;
	neighbour[NORTH] = at(r - 1, k);
	neighbour[SOUTH] = at(r + 1, k);
	neighbour[WEST] = at(r, k - 1);
	neighbour[EAST] = at(r, k + 1);
	for (int d = WEST; d <= EAST; d++) {
		sends[d] = malloc(rows * sizeof(double));
		recvs[d] = malloc(rows * sizeof(double));
	}
	if (r == 0)
		for (int j = 1; j <= cols; j++)
			now[j] = next[j] = hot;
}

static double *line(int i) { return now + i * (cols + 2) + 1; }

/* pack and fill copy column j from now and to it. */
static double *pack(double *to, int j)
{
	for (int i = 0; i < rows; i++)
		to[i] = now[(i + 1) * (cols + 2) + j];
	return to;
}

static void fill(int j, const double *from)
{
	for (int i = 0; i < rows; i++)
		now[(i + 1) * (cols + 2) + j] = from[i];
}

/* edge is what the neighbour in a direction needs, frame where what it has belongs. */
static double *edge(int d)
{
	switch (d) {
	case NORTH: return line(1);
	case SOUTH: return line(rows);
	case WEST: return pack(sends[d], 1);
	default: return pack(sends[d], cols);
	}
}

static double *frame(int d) { return d == NORTH ? line(0) : d == SOUTH ? line(rows + 1) : recvs[d]; }

static void exchange(void)
{
	MPI_Request r[8];
	int n = 0;
	for (int d = NORTH; d <= EAST; d++)
		if (neighbour[d] != MPI_PROC_NULL)
			MPI_Irecv(frame(d), d <= SOUTH ? cols : rows, MPI_DOUBLE, neighbour[d], d ^ 1, MPI_COMM_WORLD, &r[n++]);
	for (int d = NORTH; d <= EAST; d++)
		if (neighbour[d] != MPI_PROC_NULL)
			MPI_Isend(edge(d), d <= SOUTH ? cols : rows, MPI_DOUBLE, neighbour[d], d, MPI_COMM_WORLD, &r[n++]);
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	if (neighbour[WEST] != MPI_PROC_NULL)
		fill(0, recvs[WEST]);
	if (neighbour[EAST] != MPI_PROC_NULL)
		fill(cols + 1, recvs[EAST]);
}

static void step(void)
{
	int w = cols + 2;
	for (int i = 1; i <= rows; i++) {
		const double *up = now + (i - 1) * w, *here = now + i * w, *down = now + (i + 1) * w;
		double *restrict to = next + i * w;
		for (int j = 1; j <= cols; j++) {
			double around = (up[j] + down[j]) + (here[j - 1] + here[j + 1]);
			to[j] = here[j] + diffusion * (around - 4 * here[j]);
		}
	}
	double *last = now;
	now = next;
	next = last;
}

/* gather brings the parts together on rank 0, which prints the result. */
static void gather(int steps)
{
	double *own = malloc((size_t)rows * cols * sizeof *own);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++)
			own[i * cols + j] = line(i + 1)[j];
	if (rank != 0) {
		MPI_Send(own, rows * cols, MPI_DOUBLE, 0, FIELD, MPI_COMM_WORLD);
		free(own);
		return;
	}
	double *field = malloc((size_t)n * n * sizeof *field);
	for (int from = 0; from < ranks; from++) {
		int r0, c0, nr, nc;
		place(from, &r0, &c0, &nr, &nc);
		if (from > 0) {
			own = realloc(own, (size_t)nr * nc * sizeof *own);
			MPI_Recv(own, nr * nc, MPI_DOUBLE, from, FIELD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		for (int i = 0; i < nr; i++)
			for (int j = 0; j < nc; j++)
				field[(size_t)(r0 + i) * n + c0 + j] = own[i * nc + j];
	}
	digest_add(field, (size_t)n * n * sizeof *field);
	printf("result heat n=%d steps=%d ", n, steps);
	digest_print();
	free(own);
	free(field);
}

void heat(int size, int steps)
{
	n = size;
	new_plate();
	clock_begin(MPI_COMM_WORLD);
	for (int i = 0; i < steps; i++) {
		clock_leave();
		exchange();
		clock_back();
		step();
	}
	clock_end();
	gather(steps);
}
