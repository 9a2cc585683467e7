/*
 * The program of examples/apps/npb/mg: V-cycles for Poisson's equation on a periodic cube, which is cut along all three
 * dimensions. The ranks gather the grid that is too coarse to be cut further, and all of them compute those below.
 */
#include "clock.h"
#include "nas.h"
#include "peer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 16, CHARGES = 10 };

/* Points along an edge; weights of a point, its 6 neighbours and the 12 beyond; the norm of the last residual. */
static struct problem {
	char class;
	int n, cycles;
	double w[3], norm;
} problem, problems[] = {
	{'S', 32, 4, {-3. / 8, 1. / 32, -1. / 64}, 0.5307707005734e-04},
	{'W', 128, 4, {-3. / 8, 1. / 32, -1. / 64}, 0.6467329375339e-05},
	{'A', 256, 4, {-3. / 8, 1. / 32, -1. / 64}, 0.2433365309069e-05},
	{'B', 256, 20, {-3. / 17, 1. / 33, -1. / 61}, 0.1800564401355e-05},
};

/* level is what a rank has of one grid, z, y and x, with a layer of ghost cells: the solution or its correction u,
 * and the residual r. */
struct level {
	int from[3], size[3];
	int whole;
	double *u, *r;
	double *sides, *corners;          /* sums over the neighbours of each point of a line in its plane across */
	double *out[3][2], *received[3][2]; /* borders for the neighbours, and theirs */
};

/* hierarchy is a row of grids, each with half as many points along an edge as the next. */
struct hierarchy {
	struct level levels[LEVELS];
	int count;
};

static struct hierarchy cut, below; /* below has no grids if there is one rank */
static MPI_Comm cube;
static int dims[3], place[3], peers[3][2], self;
static int *origins;           /* of the parts of the coarsest grid that is cut */
static double *part, *gathered; /* its residual */

static double *line(const struct level *l, double *a, int z, int y)
{
	return a + ((size_t)z * (l->size[1] + 2) + y) * (l->size[2] + 2);
}

static size_t cells(const struct level *l) { return (size_t)(l->size[0] + 2) * (l->size[1] + 2) * (l->size[2] + 2); }

static void clear(const struct level *l, double *a) { memset(a, 0, cells(l) * sizeof *a); }

/* A slab of an array. */
struct slab {
	int lo[3], hi[3];
};

/* layer returns the points at a place of a dimension. Ghost cells of the dimensions before are filled already, and
 * belong to it. */
static struct slab layer(const struct level *l, int d, int at)
{
	struct slab s;
	for (int e = 0; e < 3; e++) {
		s.lo[e] = e < d ? 0 : 1;
		s.hi[e] = l->size[e] + (e < d ? 2 : 1);
	}
	s.lo[d] = at;
	s.hi[d] = at + 1;
	return s;
}

static int points(struct slab s) { return (s.hi[0] - s.lo[0]) * (s.hi[1] - s.lo[1]) * (s.hi[2] - s.lo[2]); }

static void pack(const struct level *l, double *a, struct slab s, double *to)
{
	int run = s.hi[2] - s.lo[2];
	for (int z = s.lo[0]; z < s.hi[0]; z++)
		for (int y = s.lo[1]; y < s.hi[1]; y++, to += run)
			memcpy(to, line(l, a, z, y) + s.lo[2], run * sizeof *to);
}

static void unpack(const struct level *l, double *a, struct slab s, const double *from)
{
	int run = s.hi[2] - s.lo[2];
	for (int z = s.lo[0]; z < s.hi[0]; z++)
		for (int y = s.lo[1]; y < s.hi[1]; y++, from += run)
			memcpy(line(l, a, z, y) + s.lo[2], from, run * sizeof *from);
}

/* swap exchanges both ends of a dimension with the neighbours. What goes up comes from below. */
static void swap(struct level *l, double *a, int d)
{
	struct slab borders[2] = {layer(l, d, 1), layer(l, d, l->size[d])};
	struct slab ghosts[2] = {layer(l, d, 0), layer(l, d, l->size[d] + 1)};
	int n = points(borders[0]), count = 0;
	MPI_Request r[4];
	for (int i = 0; i < 2; i++) {
		pack(l, a, borders[i], l->out[d][i]);
		if (peers[d][i] == self)
			memcpy(l->received[d][!i], l->out[d][i], n * sizeof *a);
	}
	for (int i = 0; i < 2; i++)
		if (peers[d][i] != self)
			MPI_Irecv(l->received[d][i], n, MPI_DOUBLE, peers[d][i], i, cube, &r[count++]);
	for (int i = 1; i >= 0; i--)
		if (peers[d][i] != self)
			MPI_Isend(l->out[d][i], n, MPI_DOUBLE, peers[d][i], !i, cube, &r[count++]);
	MPI_Waitall(count, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 2; i++)
		unpack(l, a, ghosts[i], l->received[d][i]);
}

/* wrap fills the ghost cells of a whole grid. */
static void wrap(struct level *l, double *a)
{
	int n = l->size[0];
	size_t row = (n + 2) * sizeof *a, plane = (size_t)(n + 2) * (n + 2);
	for (int z = 1; z <= n; z++) {
		for (int y = 1; y <= n; y++) {
			double *p = line(l, a, z, y);
			p[0] = p[n];
			p[n + 1] = p[1];
		}
		memcpy(line(l, a, z, 0), line(l, a, z, n), row);
		memcpy(line(l, a, z, n + 1), line(l, a, z, 1), row);
	}
	memcpy(a, a + n * plane, plane * sizeof *a);
	memcpy(a + (n + 1) * plane, a + plane, plane * sizeof *a);
}

/* around fills the ghost cells of an array. */
static void around(struct level *l, double *a)
{
	if (l->whole) {
		wrap(l, a);
		return;
	}
	clock_leave();
	for (int d = 0; d < 3; d++)
		swap(l, a, d);
	clock_back();
}

/* across sets sides and corners to the sums of the 4 nearest and the 4 diagonal neighbours of each point of a line,
 * in the plane across the line. */
static void across(const struct level *l, double *a, int z, int y)
{
	const double *n = line(l, a, z, y - 1), *s = line(l, a, z, y + 1), *d = line(l, a, z - 1, y), *u = line(l, a, z + 1, y);
	const double *nd = line(l, a, z - 1, y - 1), *sd = line(l, a, z - 1, y + 1), *nu = line(l, a, z + 1, y - 1), *su = line(l, a, z + 1, y + 1);
	double *restrict sides = l->sides, *restrict corners = l->corners;
	for (int x = 0; x < l->size[2] + 2; x++) {
		sides[x] = n[x] + s[x] + d[x] + u[x];
		corners[x] = nd[x] + sd[x] + nu[x] + su[x];
	}
}

/* residual sets r to v - A u; the 6 nearest points have no weight in A. v may be r. */
static void residual(struct level *l, double *v)
{
	const double point = -8. / 3, edge = 1. / 6, corner = 1. / 12, *s = l->sides, *c = l->corners;
	for (int z = 1; z <= l->size[0]; z++)
		for (int y = 1; y <= l->size[1]; y++) {
			across(l, l->u, z, y);
			const double *u = line(l, l->u, z, y), *right = line(l, v, z, y);
			double *r = line(l, l->r, z, y);
			for (int x = 1; x <= l->size[2]; x++)
				r[x] = right[x] - point * u[x] - edge * (c[x] + s[x - 1] + s[x + 1]) - corner * (c[x - 1] + c[x + 1]);
		}
	around(l, l->r);
}

/* smooth adds to u what r weighs. */
static void smooth(struct level *l)
{
	const double *w = problem.w, *s = l->sides, *c = l->corners;
	for (int z = 1; z <= l->size[0]; z++)
		for (int y = 1; y <= l->size[1]; y++) {
			across(l, l->r, z, y);
			const double *r = line(l, l->r, z, y);
			double *u = line(l, l->u, z, y);
			for (int x = 1; x <= l->size[2]; x++)
				u[x] += w[0] * r[x] + w[1] * (r[x - 1] + r[x + 1] + s[x]) + w[2] * (c[x] + s[x - 1] + s[x + 1]);
		}
	around(l, l->u);
}

/* coarsen sets the residual of the next coarser grid, whose point i lies on 2i of this one. */
static void coarsen(struct level *l, struct level *to)
{
	const double *s = l->sides, *c = l->corners;
	for (int z = 1; z <= to->size[0]; z++)
		for (int y = 1; y <= to->size[1]; y++) {
			across(l, l->r, 2 * z, 2 * y);
			const double *r = line(l, l->r, 2 * z, 2 * y);
			double *sum = line(to, to->r, z, y);
			for (int x = 1; x <= to->size[2]; x++) {
				int i = 2 * x;
				sum[x] = 0.5 * r[i] + 0.25 * (r[i - 1] + r[i + 1] + s[i]) + 0.125 * (s[i - 1] + s[i + 1] + c[i]) + 0.0625 * (c[i - 1] + c[i + 1]);
			}
		}
	around(to, to->r);
}

/* prolong adds to u what the next coarser grid has between and on its points, in the ghosts, too. */
static void prolong(struct level *l, const struct level *from)
{
	int n = from->size[2] + 2;
	double *mean = from->sides;
	for (int z = 0; z < l->size[0] + 2; z++)
		for (int y = 0; y < l->size[1] + 2; y++) {
			const double *a = line(from, from->u, z / 2, y / 2), *b = line(from, from->u, z / 2, (y + 1) / 2);
			const double *c = line(from, from->u, (z + 1) / 2, y / 2), *d = line(from, from->u, (z + 1) / 2, (y + 1) / 2);
			for (int x = 0; x < n; x++)
				mean[x] = 0.25 * (a[x] + b[x] + c[x] + d[x]);
			double *u = line(l, l->u, z, y);
			for (int x = 0; x < n - 1; x++) {
				u[2 * x] += mean[x];
				u[2 * x + 1] += 0.5 * (mean[x] + mean[x + 1]);
			}
		}
}

/* cycle improves u of the finest grid by a V-cycle. v is the right-hand side; NULL: r, for a correction that begins with 0. */
static void cycle(struct hierarchy *h, double *v);

/* gather fills the finest residual below with the parts of the coarsest one that is cut. */
static void gather(struct level *first, struct level *top)
{
	struct slab inner = {{1, 1, 1}, {first->size[0] + 1, first->size[1] + 1, first->size[2] + 1}};
	int n = points(inner);
	pack(first, first->r, inner, part);
	clock_leave();
	MPI_Allgather(part, n, MPI_DOUBLE, gathered, n, MPI_DOUBLE, cube);
	clock_back();
	for (int i = 0; i < ranks; i++) {
		struct slab to = inner;
		for (int d = 0; d < 3; d++) {
			to.lo[d] += origins[3 * i + d];
			to.hi[d] += origins[3 * i + d];
		}
		unpack(top, top->r, to, gathered + (size_t)i * n);
	}
	around(top, top->r);
}

/* correct finds the correction of the first grid. */
static void correct(struct hierarchy *h)
{
	struct level *first = &h->levels[0], *top = &below.levels[below.count - 1];
	if (h == &below || below.count == 0) {
		clear(first, first->u);
		smooth(first);
		return;
	}
	gather(first, top);
	cycle(&below, NULL);
	for (int z = 0; z < first->size[0] + 2; z++)
		for (int y = 0; y < first->size[1] + 2; y++)
			memcpy(line(first, first->u, z, y), line(top, top->u, first->from[0] + z, first->from[1] + y) + first->from[2],
				(first->size[2] + 2) * sizeof(double));
}

static void cycle(struct hierarchy *h, double *v)
{
	for (int k = h->count - 1; k > 0; k--)
		coarsen(&h->levels[k], &h->levels[k - 1]);
	correct(h);
	for (int k = 1; k < h->count; k++) {
		struct level *l = &h->levels[k];
		double *right = v;
		if (k < h->count - 1 || !v) {
			right = l->r;
			clear(l, l->u);
		}
		prolong(l, &h->levels[k - 1]);
		residual(l, right);
		smooth(l);
	}
}

static double *array(const struct level *l) { return calloc(cells(l), sizeof(double)); }

static struct level *add_level(struct hierarchy *h, int n, int whole)
{
	struct level *l = &h->levels[h->count++];
	l->whole = whole;
	for (int d = 0; d < 3; d++) {
		l->size[d] = whole ? n : n / dims[d];
		l->from[d] = whole ? 0 : place[d] * l->size[d];
	}
	l->u = array(l);
	l->r = array(l);
	l->sides = calloc(l->size[2] + 2, sizeof *l->sides);
	l->corners = calloc(l->size[2] + 2, sizeof *l->corners);
	for (int d = 0; d < 3 && !whole; d++)
		for (int i = 0; i < 2; i++) {
			l->out[d][i] = malloc(points(layer(l, d, 0)) * sizeof(double));
			l->received[d][i] = malloc(points(layer(l, d, 0)) * sizeof(double));
		}
	return l;
}

static void new_hierarchies(void)
{
	int coarsest = dims[0] > 1 ? dims[0] : 2; /* the first dimension has the most parts */
	for (int m = coarsest; m <= problem.n; m *= 2)
		add_level(&cut, m, 0);
	if (ranks == 1)
		return;
	for (int m = 2; m <= coarsest; m *= 2)
		add_level(&below, m, 1);
	origins = malloc(3 * ranks * sizeof *origins);
	part = malloc((size_t)coarsest * coarsest * coarsest / ranks * sizeof *part);
	gathered = malloc((size_t)coarsest * coarsest * coarsest * sizeof *gathered);
	MPI_Allgather(cut.levels[0].from, 3, MPI_INT, origins, 3, MPI_INT, cube);
}

/* charge is a random number and the point that it is at. */
struct charge {
	double v;
	long at;
};

/* keep adds q to the largest (sign 1) or smallest (-1) numbers, in order. */
static void keep(struct charge *best, struct charge q, int sign)
{
	int i = CHARGES - 1;
	if (sign * q.v <= sign * best[i].v)
		return;
	for (; i > 0 && sign * q.v > sign * best[i - 1].v; i--)
		best[i] = best[i - 1];
	best[i] = q;
}

static void forget(struct charge *best, int sign)
{
	for (int i = 0; i < CHARGES; i++)
		best[i] = (struct charge){-2 * sign, 0}; /* beyond all numbers */
}

/* agree sets the points of a cube where the best numbers of all ranks are. */
static void agree(struct level *l, double *v, const struct charge *mine, int sign)
{
	struct charge *all = malloc(ranks * CHARGES * sizeof *all), best[CHARGES];
	MPI_Allgather((void *)mine, CHARGES * sizeof *mine, MPI_BYTE, all, CHARGES * sizeof *mine, MPI_BYTE, cube);
	forget(best, sign);
	for (int i = 0; i < ranks * CHARGES; i++)
		keep(best, all[i], sign);
	for (int i = 0; i < CHARGES; i++) {
		long n = problem.n, at[3] = {best[i].at / n / n, best[i].at / n % n, best[i].at % n};
		int here = 1;
		for (int d = 0; d < 3; d++) {
			at[d] -= l->from[d];
			here = here && at[d] >= 0 && at[d] < l->size[d];
		}
		if (here)
			line(l, v, at[0] + 1, at[1] + 1)[at[2] + 1] = sign;
	}
	free(all);
}

/* charges returns the right-hand side: of random numbers on all points, 1 where the ten largest are, -1 where the ten
 * smallest are, and 0 elsewhere. */
static double *charges(struct level *l)
{
	struct charge low[CHARGES], high[CHARGES];
	double *v = array(l);
	forget(low, -1);
	forget(high, 1);
	for (int z = 0; z < l->size[0]; z++)
		for (int y = 0; y < l->size[1]; y++) {
			long at = ((long)(l->from[0] + z) * problem.n + l->from[1] + y) * problem.n + l->from[2];
			unsigned long state = random_after(at);
			for (int x = 0; x < l->size[2]; x++) {
				struct charge q = {random_next(&state), at + x};
				keep(low, q, -1);
				keep(high, q, 1);
			}
		}
	agree(l, v, low, -1);
	agree(l, v, high, 1);
	return v;
}

static double norm(struct level *l)
{
	double sum = 0, all;
	for (int z = 1; z <= l->size[0]; z++)
		for (int y = 1; y <= l->size[1]; y++) {
			const double *r = line(l, l->r, z, y);
			for (int x = 1; x <= l->size[2]; x++)
				sum += r[x] * r[x];
		}
	MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, cube);
	return sqrt(all / ((double)problem.n * problem.n * problem.n));
}

/* mg returns 0 if there is no such class, or ranks that cannot halve it. */
int mg(char class)
{
	for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
		if (problems[i].class == class)
			problem = problems[i];
	MPI_Dims_create(ranks, 3, dims);
	if (problem.n == 0 || ranks & (ranks - 1) || 2 * dims[0] > problem.n)
		return 0;
	int periods[3] = {1, 1, 1};
	MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &cube);
	MPI_Comm_rank(cube, &self);
	MPI_Cart_coords(cube, self, 3, place);
	for (int d = 0; d < 3; d++)
		MPI_Cart_shift(cube, d, 1, &peers[d][0], &peers[d][1]);
	new_hierarchies();
	struct level *top = &cut.levels[cut.count - 1];
	double *v = charges(top);
	residual(top, v);
	clock_begin(cube);
	for (int i = 0; i < problem.cycles; i++) {
		cycle(&cut, v);
		residual(top, v);
	}
	clock_end();
	verify("norm of the residual", norm(top), problem.norm, 1e-8);
	verdict();
	return 1;
}
