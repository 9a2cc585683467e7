/* What the twins of the NAS benchmarks share: their random numbers, and how results are held against known ones. */
#ifndef NAS_H
#define NAS_H

/* random_after returns the state of the generator of RNR-94-007, section 2.3, n steps after the seed. */
unsigned long random_after(unsigned long n);

/* random_next steps on, and returns the new state as a number between 0 and 1. */
double random_next(unsigned long *state);

/* verify compares a result, the same on all ranks, with the known one. The error is relative unless want is 0. */
void verify(const char *what, double got, double want, double tolerance);

/* verdict says whether all results are right, and ends the program if not. */
void verdict(void);

#endif
