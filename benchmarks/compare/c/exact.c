/* Exact sums of doubles; see exact.h. */
#include "exact.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static void add(accumulator *a, double x)
{
	uint64_t word;
	memcpy(&word, &x, 8);
	int exponent = word >> 52 & 0x7ff;
	uint64_t mantissa = word & ((1ull << 52) - 1);
	if (exponent == 0x7ff) {
		a->d[NONFINITE]++;
		return;
	}
	if (exponent == 0)
		exponent = 1;
	else
		mantissa |= 1ull << 52;
	unsigned shift = exponent - 1, k = shift / 32, o = shift % 32;
	uint64_t low = mantissa << o, high = o ? mantissa >> (64 - o) : 0;
	int64_t sign = word >> 63 ? -1 : 1;
	a->d[k] += sign * (int64_t)(low & 0xffffffff);
	a->d[k + 1] += sign * (int64_t)(low >> 32);
	a->d[k + 2] += sign * (int64_t)high;
}

void add_dot(accumulator *a, const double *x, const double *y, int n)
{
	for (int i = 0; i < n; i++)
		add(a, x[i] * y[i]);
}

static int negative(const accumulator *a)
{
	int64_t carry = 0;
	for (int i = 0; i < DIGITS; i++)
		carry = (a->d[i] + carry) >> 32;
	return carry < 0;
}

/* value returns the sum rounded to the nearest double. */
double value(const accumulator *a)
{
	if (a->d[NONFINITE])
		return NAN;
	int64_t sign = negative(a) ? -1 : 1, carry = 0;
	uint64_t d[DIGITS + 2] = {0}; /* two zeros below the lowest digit */
	for (int i = 0; i < DIGITS; i++) {
		int64_t t = sign * a->d[i] + carry;
		d[i + 2] = t & 0xffffffff;
		carry = t >> 32;
	}
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
	return sign * ldexp((double)(v | (unsigned)sticky), 32 * (top - 3) - shift - 1074);
}
