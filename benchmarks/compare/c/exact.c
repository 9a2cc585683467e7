/* Exact sums of doubles; see exact.h. */
#include "exact.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* carry leaves 32 bits in each digit but the highest one, which has the sign. */
static void carry(accumulator *a)
{
	int64_t carry = 0;
	for (int i = 0; i < DIGITS - 1; i++) {
		int64_t t = a->d[i] + carry;
		a->d[i] = t & 0xffffffff;
		carry = t >> 32;
	}
	a->d[DIGITS - 1] += carry;
}

/* odd returns the mantissa of a term that is subnormal, or counts one that is not finite. */
static int64_t odd(accumulator *a, uint64_t word)
{
	if (word >> 52 & 0x7ff) {
		a->d[NONFINITE]++;
		return 0;
	}
	return (word & ((1ull << 52) - 1)) << 1;
}

static void add(accumulator *a, double x)
{
	uint64_t word;
	memcpy(&word, &x, 8);
	unsigned exponent = word >> 52 & 0x7ff, k = exponent / 32, o = exponent % 32;
	int64_t mantissa = (word & ((1ull << 52) - 1)) | 1ull << 52;
	if (exponent - 1 >= 0x7ff - 1)
		mantissa = odd(a, word);
	int64_t sign = (int64_t)word >> 63;
	mantissa = (mantissa ^ sign) - sign;
	a->d[k] += (uint64_t)mantissa << o & 0xffffffff;
	a->d[k + 1] += mantissa >> (32 - o);
}

void add_dot(accumulator *a, const double *x, const double *y, int n)
{
	for (int done = 0; done < n;) {
		int few = n - done < TERMS ? n : done + TERMS;
		for (; done < few; done++)
			add(a, x[done] * y[done]);
		carry(a);
	}
}

/* value returns the sum rounded to the nearest double. */
double value(const accumulator *sum)
{
	if (sum->d[NONFINITE])
		return NAN;
	accumulator a = *sum;
	carry(&a);
	int negative = a.d[DIGITS - 1] < 0;
	if (negative) {
		for (int i = 0; i < DIGITS; i++)
			a.d[i] = -a.d[i];
		carry(&a);
	}
	uint64_t d[DIGITS + 2] = {0}; /* two zeros below the lowest digit */
	memcpy(d + 2, a.d, DIGITS * sizeof *d);
	int top = DIGITS + 1;
	while (top >= 2 && d[top] == 0)
		top--;
	if (top < 2)
		return 0;
	uint64_t v = d[top] << 32 | d[top - 1];
	int shift = __builtin_clzll(v);
	uint64_t rest = d[top - 2] << shift;
	v = v << shift | rest >> 32;
	int sticky = (rest & 0xffffffff) != 0;
	for (int i = top - 3; i >= 0; i--)
		sticky |= d[i] != 0;
	double x = ldexp((double)(v | (unsigned)sticky), 32 * (top - 3) - shift - 1075);
	return negative ? -x : x;
}
