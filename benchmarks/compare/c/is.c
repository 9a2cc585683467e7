/*
 * The program of examples/apps/npb/is: keys are ranked ten times. The ranks agree on how many keys there are in each
 * bucket, take a row of neighbouring buckets each, and send each key to its rank, which counts.
 */
#include "clock.h"
#include "nas.h"
#include "peer.h"
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 10, PROBES = 5 };

/* Logarithms of the numbers of keys, of values and of buckets, and what is known of five keys: their ranks grow with
 * the iteration, beginning with -less, or shrink, beginning with more. */
static struct problem {
	char class;
	int keys, values, buckets;
	int index[PROBES];
	long rank[PROBES];
	int grows[PROBES], less, more;
} problem, problems[] = {
	{'S', 16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, {1, 1, 1, 0, 0}, 0, 0},
	{'W', 20, 16, 10, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, {1, 1, 0, 0, 0}, 2, 0},
	{'A', 23, 19, 10, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}, {1, 1, 1, 0, 0}, 1, 1},
	{'B', 25, 21, 10, {41869, 812306, 5102857, 18232239, 26860214}, {33422937, 10244, 59149, 33135281, 99}, {0, 1, 1, 0, 1}, 0, 0},
};

static int *keys, *sent; /* this rank's, and the same by bucket */
static int first, own;
static int *sorted, arrived; /* keys of this rank's buckets */
static long probed[PROBES];  /* values of the keys whose ranks are known */
static int begin, end;       /* values of this rank's buckets */
static long below;           /* keys of lower buckets */
static int *count;           /* of the keys up to each value, less those below */
static long *sizes, *all;    /* keys in each bucket, of this rank and of all; then the values of the probes */
static int *at;              /* where the next key of each bucket goes */
static int *bounds;          /* first bucket of each rank, and their number */

/* generate makes each key the mean of four random numbers. */
static void generate(void)
{
	unsigned long state = random_after(4UL * first);
	for (int i = 0; i < own; i++) {
		double sum = random_next(&state);
		for (int k = 1; k < 4; k++)
			sum += random_next(&state);
		keys[i] = (int)((1L << problem.values) / 4 * sum);
	}
}

static void put(int where, int key)
{
	if (where >= first && where < first + own)
		keys[where - first] = key;
}

/* change makes an iteration differ from the others. */
static void change(int i)
{
	put(i, i);
	put(i + ITERATIONS, (1 << problem.values) - i);
}

static int bucket_of(int key) { return key >> (problem.values - problem.buckets); }

/* pack puts the keys in the order of their buckets. */
static void pack(int buckets)
{
	int sum = 0;
	for (int b = 0; b < buckets; b++) {
		at[b] = sum;
		sum += sizes[b];
	}
	for (int i = 0; i < own; i++)
		sent[at[bucket_of(keys[i])]++] = keys[i];
}

/* divide gives all ranks about as many keys, and at least one bucket. */
static void divide(int buckets)
{
	long sum = 0;
	int b = 0;
	for (int r = 1; r < ranks; r++) {
		long goal = ((long)r << problem.keys) / ranks;
		for (; b < buckets - (ranks - r) && (b == bounds[r - 1] || sum < goal); b++)
			sum += all[b];
		bounds[r] = b;
	}
	bounds[ranks] = buckets;
}

/* lay returns the sum of some counts, and where each part begins. */
static int lay(const long *counts, int *as, int *begins)
{
	int sum = 0;
	for (int r = 0; r < ranks; r++) {
		begins[r] = sum;
		sum += as[r] = counts[r];
	}
	return sum;
}

/* exchange sends each key to the rank of its bucket. Counts travel as words, as those of the twin do. */
static void exchange(void)
{
	static long *out_counts, *in_counts;
	static int *parts, room;
	if (!parts) {
		out_counts = malloc(ranks * sizeof *out_counts);
		in_counts = malloc(ranks * sizeof *in_counts);
		parts = malloc(4 * ranks * sizeof *parts);
	}
	for (int r = 0; r < ranks; r++) {
		out_counts[r] = 0;
		for (int b = bounds[r]; b < bounds[r + 1]; b++)
			out_counts[r] += sizes[b];
	}
	clock_leave();
	MPI_Alltoall(out_counts, 1, MPI_LONG, in_counts, 1, MPI_LONG, MPI_COMM_WORLD);
	clock_back();
	int *s = parts, *r = parts + 2 * ranks;
	lay(out_counts, s, s + ranks);
	arrived = lay(in_counts, r, r + ranks);
	if (arrived > room) {
		room = arrived;
		sorted = realloc(sorted, (size_t)room * sizeof *sorted);
	}
	clock_leave();
	MPI_Alltoallv(sent, s, s + ranks, MPI_INT, sorted, r, r + ranks, MPI_INT, MPI_COMM_WORLD);
	clock_back();
}

/* sum counts the keys of this rank's buckets. */
static void sum(void)
{
	static int room;
	int width = 1 << (problem.values - problem.buckets);
	begin = bounds[rank] * width;
	end = bounds[rank + 1] * width;
	below = 0;
	for (int b = 0; b < bounds[rank]; b++)
		below += all[b];
	int n = end - begin;
	if (n > room) {
		room = n;
		count = realloc(count, (size_t)room * sizeof *count);
	}
	memset(count, 0, (size_t)n * sizeof *count);
	for (int i = 0; i < arrived; i++)
		count[sorted[i] - begin]++;
	for (int i = 1; i < n; i++)
		count[i] += count[i - 1];
}

/* rank_keys brings the keys to their ranks and counts them there. */
static void rank_keys(void)
{
	int buckets = 1 << problem.buckets;
	memset(sizes, 0, (buckets + PROBES) * sizeof *sizes);
	for (int i = 0; i < own; i++)
		sizes[bucket_of(keys[i])]++;
	pack(buckets);
	for (int i = 0; i < PROBES; i++)
		if (problem.index[i] >= first && problem.index[i] < first + own)
			sizes[buckets + i] = keys[problem.index[i] - first];
	clock_leave();
	MPI_Allreduce(sizes, all, buckets + PROBES, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	clock_back();
	memcpy(probed, all + buckets, sizeof probed);
	divide(buckets);
	exchange();
	sum();
}

/* partial returns how many of the probes of all ranks have their rank. */
static long partial(int iteration)
{
	long right = 0, sum;
	for (int i = 0; i < PROBES; i++) {
		long v = probed[i], shift = problem.grows[i] ? iteration - problem.less : problem.more - iteration;
		if (v >= begin && v < end)
			right += below + (v > begin ? count[v - begin - 1] : 0) == problem.rank[i] + shift;
	}
	clock_leave();
	MPI_Allreduce(&right, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	clock_back();
	return sum;
}

/* misplaced puts all keys at their ranks, and returns how many are less than the one before, or of another rank. */
static long misplaced(void)
{
	int *order = calloc(arrived + 1, sizeof *order), greatest = -1, *before = malloc(ranks * sizeof *before);
	long wrong = 0, sum;
	for (int i = arrived - 1; i >= 0; i--)
		if (sorted[i] < begin || sorted[i] >= end)
			wrong++;
		else
			order[--count[sorted[i] - begin]] = sorted[i];
	for (int i = 0; i < arrived; i++) {
		wrong += order[i] < greatest;
		greatest = order[i];
	}
	MPI_Allgather(&greatest, 1, MPI_INT, before, 1, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < rank && arrived > 0; r++)
		wrong += before[r] > order[0];
	MPI_Allreduce(&wrong, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	free(order);
	free(before);
	return sum;
}

/* is returns 0 if there is no such class, or too many ranks for it. */
int is(char class)
{
	for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
		if (problems[i].class == class)
			problem = problems[i];
	int buckets = 1 << problem.buckets;
	if (problem.keys == 0 || ranks > buckets)
		return 0;
	first = ((long)rank << problem.keys) / ranks;
	own = ((long)(rank + 1) << problem.keys) / ranks - first;
	keys = malloc((size_t)own * sizeof *keys);
	sent = malloc((size_t)own * sizeof *sent);
	sizes = malloc((buckets + PROBES) * sizeof *sizes);
	all = malloc((buckets + PROBES) * sizeof *all);
	at = malloc(buckets * sizeof *at);
	bounds = calloc(ranks + 1, sizeof *bounds);
	generate();
	long right = 0;
	clock_begin(MPI_COMM_WORLD);
	for (int i = 1; i <= ITERATIONS; i++) {
		change(i);
		rank_keys();
		right += partial(i);
	}
	clock_end();
	verify("number of known ranks", right, ITERATIONS * PROBES, 0);
	verify("number of keys out of order", misplaced(), 0, 0);
	verdict();
	return 1;
}
