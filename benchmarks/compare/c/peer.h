/* What the parts of the program share; main.c says what it does. */
#ifndef PEER_H
#define PEER_H

#include <mpi.h>
#include <stddef.h>

/* test is one kind of messages, repeated n times by all ranks at once. */
struct test {
	const char *name;
	void (*run)(int size, int n);
	int pair; /* two ranks; the time is rank 0's, and not the slowest one's */
	int legs; /* messages one after another in each repetition */
	int bare; /* carries no data: one size, 0 */
};

extern const struct test tests[]; /* ends with a name of NULL */

extern int rank, ranks;
extern char *out, *in; /* as large as the largest size, and as one word for each rank */

void measure(const struct test *t, int size, double total, int batches);
void heat(int n, int steps);
void solver(int edge, int iters);
void stencil(int n, int iters);

/* NAS benchmarks return 0 where they do not know the class, or cannot divide it among the ranks. */
int cg(char class);
int is(char class);
int mg(char class);

/* digest prints the first 16 hexadecimal digits of the SHA-256 of parts added before. */
void digest_add(const void *data, size_t len);
void digest_print(void);

#endif
