/* What the twins of the NAS benchmarks share; see nas.h. */
#include "nas.h"
#include "peer.h"
#include <math.h>
#include <stdio.h>

static const unsigned long multiplier = 1220703125, mask = (1UL << 46) - 1;

unsigned long random_after(unsigned long n)
{
	unsigned long x = 314159265;
	for (unsigned long a = multiplier; n > 0; n >>= 1) {
		if (n & 1)
			x = a * x & mask;
		a = a * a & mask;
	}
	return x;
}

double random_next(unsigned long *state)
{
	*state = multiplier * *state & mask;
	return *state * (1.0 / (1UL << 46));
}

static int wrong;

void verify(const char *what, double got, double want, double tolerance)
{
	double error = fabs(want == 0 ? got : (got - want) / want);
	if (error <= tolerance) /* a NaN is not */
		return;
	wrong = 1;
	if (rank == 0)
		printf("%s is %.14e, not %.14e\n", what, got, want);
}

void verdict(void)
{
	if (rank == 0)
		printf("Verification: %sSUCCESSFUL\n", wrong ? "UN" : "");
	fflush(stdout);
	if (wrong)
		MPI_Abort(MPI_COMM_WORLD, 1);
}
