/* Exact sums of doubles, as in examples/solver/cg/sum.go. */
#ifndef EXACT_H
#define EXACT_H

enum { DIGITS = 67, NONFINITE = DIGITS, TERMS = 1 << 10 }; /* so many terms fit before carry */

/* accumulator is one wide integer in units of 2^-1075, 32 bits a digit, and the
 * number of terms that are not finite. */
typedef struct { long d[DIGITS + 1]; } accumulator;

void add_dot(accumulator *a, const double *x, const double *y, int n);
double value(const accumulator *a);

#endif
