/*
 * The program of examples/apps/prk/stencil: a star-shaped stencil that reaches two points far is applied to the field
 * x+y again and again, which gives 2 everywhere.
 */
#include "clock.h"
#include "nas.h"
#include "peer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RADIUS = 2 };

static MPI_Comm grid;
static int n, row, col, rows, cols, width; /* own points: the first one, and how many; of a row with its frame */
static double *field, *result;             /* with a frame of ghost cells, and without */
static double weights[RADIUS + 1];         /* of the points so far away, up and to the right */

/* face is what is exchanged with one neighbour: above, below, left and right. */
static struct face {
	int peer, rows, cols;
	double *out, *ghosts; /* where they begin */
	double *sent, *received;
} faces[4];

static double *point(int i, int j) { return field + (i + RADIUS) * width + j + RADIUS; }

static void new_face(struct face *f, int rows, int cols, double *out, double *ghosts)
{
	size_t size = (size_t)rows * cols * sizeof(double);
	f->rows = rows;
	f->cols = cols;
	f->out = out;
	f->ghosts = ghosts;
	f->sent = malloc(size);
	f->received = malloc(size);
}

static void new_field(void)
{
	int dims[2] = {0, 0}, periods[2] = {0, 0}, at[2], self;
	MPI_Dims_create(ranks, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
	MPI_Comm_rank(grid, &self);
	MPI_Cart_coords(grid, self, 2, at);
	row = n * at[0] / dims[0];
	col = n * at[1] / dims[1];
	rows = n * (at[0] + 1) / dims[0] - row;
	cols = n * (at[1] + 1) / dims[1] - col;
	width = cols + 2 * RADIUS;
	field = calloc((size_t)(rows + 2 * RADIUS) * width, sizeof *field);
	result = calloc((size_t)rows * cols, sizeof *result);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++)
			*point(i, j) = row + i + col + j;
	for (int d = 1; d <= RADIUS; d++)
		weights[d] = 1.0 / (2 * d * RADIUS);
	MPI_Cart_shift(grid, 0, 1, &faces[0].peer, &faces[1].peer);
	MPI_Cart_shift(grid, 1, 1, &faces[2].peer, &faces[3].peer);
	new_face(&faces[0], RADIUS, cols, point(0, 0), point(-RADIUS, 0));
	new_face(&faces[1], RADIUS, cols, point(rows - RADIUS, 0), point(rows, 0));
	new_face(&faces[2], rows, RADIUS, point(0, 0), point(0, -RADIUS));
	new_face(&faces[3], rows, RADIUS, point(0, cols - RADIUS), point(0, cols));
}

/* exchange fills the ghost cells; beyond the end of the grid they stay as they are. */
static void exchange(void)
{
	MPI_Request r[8];
	int count = 0;
	for (struct face *f = faces; f < faces + 4; f++)
		for (int i = 0; i < f->rows && f->peer != MPI_PROC_NULL; i++)
			memcpy(f->sent + i * f->cols, f->out + i * width, f->cols * sizeof *f->sent);
	for (int i = 0; i < 4; i++)
		if (faces[i].peer != MPI_PROC_NULL)
			MPI_Irecv(faces[i].received, faces[i].rows * faces[i].cols, MPI_DOUBLE, faces[i].peer, i, grid, &r[count++]);
	for (int i = 0; i < 4; i++)
		if (faces[i].peer != MPI_PROC_NULL)
			MPI_Isend(faces[i].sent, faces[i].rows * faces[i].cols, MPI_DOUBLE, faces[i].peer, i ^ 1, grid, &r[count++]);
	MPI_Waitall(count, r, MPI_STATUSES_IGNORE);
	for (struct face *f = faces; f < faces + 4; f++)
		for (int i = 0; i < f->rows && f->peer != MPI_PROC_NULL; i++)
			memcpy(f->ghosts + i * width, f->received + i * f->cols, f->cols * sizeof *f->received);
}

static int most(int a, int b) { return a > b ? a : b; }
static int least(int a, int b) { return a < b ? a : b; }

/* The points where the stencil does not reach beyond the end of the grid. */
static int top, bottom, left, right;

static void apply(void)
{
	for (int i = top; i < bottom; i++)
		for (int j = left; j < right; j++) {
			const double *p = point(i, j);
			double sum = 0;
			for (int d = 1; d <= RADIUS; d++)
				sum += weights[d] * (p[d] - p[-d] + p[d * width] - p[-d * width]);
			result[(size_t)i * cols + j] += sum;
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++)
			++*point(i, j);
}

static double mean(void)
{
	double sum = 0, all;
	for (int i = top; i < bottom; i++)
		for (int j = left; j < right; j++)
			sum += fabs(result[(size_t)i * cols + j]);
	MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, grid);
	return all / (n - 2 * RADIUS) / (n - 2 * RADIUS);
}

void stencil(int edge, int iters)
{
	n = edge;
	new_field();
	top = most(RADIUS - row, 0);
	bottom = least(n - RADIUS - row, rows);
	left = most(RADIUS - col, 0);
	right = least(n - RADIUS - col, cols);
	clock_begin(grid);
	for (int i = 0; i < iters; i++) {
		clock_leave();
		exchange();
		clock_back();
		apply();
	}
	clock_end();
	verify("mean", mean(), 2 * iters, 1e-8);
	verdict();
}
