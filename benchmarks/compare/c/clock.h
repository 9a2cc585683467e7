/* How much of a program's loop is not computation, as examples/internal/clock measures it. */
#ifndef CLOCK_H
#define CLOCK_H

#include <mpi.h>

double seconds(void);

/* clock_begin begins the loop, with computation, on all ranks together; clock_end ends it. */
void clock_begin(MPI_Comm all);
void clock_end(void);

/* What lies between these two is messages. */
void clock_leave(void);
void clock_back(void);

/* clock_print prints the means of all ranks on rank 0. */
void clock_print(void);

#endif
